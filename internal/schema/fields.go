package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A field is a member of a struct's JSON object.
type field struct {
	name     string
	typ      reflect.Type
	goName   string
	desc     string // of the tag `jsonschema:"..."`
	optional bool   // omitempty, omitzero or a pointer
	omits    bool   // omitempty or omitzero: an absent member, not a null
	quoted   bool   // the option "string"
	tagged   bool
	depth    int
}

// fields returns the members that encoding/json gives a struct, in the order
// of the source. Of several fields with one name the least nested counts, then
// the one that is tagged; if that leaves two, none does. (jsonschema.ForType
// of jsonschema-go v0.4.3 leaves fields out here: it drops a promoted field
// whose Go name is that of the struct it is promoted from.)
func fields(t reflect.Type) []field {
	var all []field
	collect(t, 0, false, map[reflect.Type]bool{}, &all)
	best := map[string][]field{}
	for _, f := range all {
		best[f.name] = append(best[f.name], f)
	}
	var out []field
	for _, f := range all {
		if w, ok := dominant(best[f.name]); ok && w == f && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

func dominant(fs []field) (field, bool) {
	least := slices.MinFunc(fs, func(a, b field) int { return a.depth - b.depth }).depth
	var at, tagged []field
	for _, f := range fs {
		if f.depth == least {
			at = append(at, f)
			if f.tagged {
				tagged = append(tagged, f)
			}
		}
	}
	if len(tagged) > 0 {
		at = tagged
	}
	return at[0], len(at) == 1
}

// collect adds the fields of a struct and of what is embedded in it. Below a
// pointer that may be nil, fields may be absent.
func collect(t reflect.Type, depth int, nilable bool, above map[reflect.Type]bool, out *[]field) {
	if above[t] {
		return
	}
	above[t] = true
	defer delete(above, t)
	for i := range t.NumField() {
		sf := t.Field(i)
		et := sf.Type
		if sf.Anonymous && et.Kind() == reflect.Pointer {
			et = et.Elem()
		}
		if !sf.IsExported() && (!sf.Anonymous || et.Kind() != reflect.Struct) {
			continue
		}
		tag := sf.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !validName(name) {
			name = ""
		}
		if sf.Anonymous && name == "" && et.Kind() == reflect.Struct {
			collect(et, depth+1, nilable || et != sf.Type, above, out)
			continue
		}
		f := newField(sf, name, strings.Split(options, ","), depth)
		f.optional, f.omits = f.optional || nilable, f.omits || nilable
		*out = append(*out, f)
	}
}

func newField(sf reflect.StructField, name string, options []string, depth int) field {
	f := field{
		name: name, typ: sf.Type, goName: sf.Name, desc: sf.Tag.Get("jsonschema"), depth: depth, tagged: name != "",
		omits:  slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero"),
		quoted: slices.Contains(options, "string"),
	}
	f.optional = f.omits || sf.Type.Kind() == reflect.Pointer
	if name == "" {
		f.name = sf.Name
	}
	return f
}

// validName is encoding/json's rule for names in tags.
func validName(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return s != ""
}

// agree asks encoding/json itself which names it decodes into a struct, and
// compares them with the schema's. What a validator lets through and a decoder
// drops, or the other way round, would be checked by nobody.
func agree(t reflect.Type, fs []field) error {
	declared := map[string]bool{}
	for _, f := range fs {
		declared[strings.ToLower(f.name)] = true
		if err := decodes(t, f.name); err != nil {
			return fmt.Errorf("has the member %q in its schema, and encoding/json does not decode it; give the field a json tag of its own", f.name)
		}
	}
	for _, c := range slices.Sorted(maps.Keys(candidates(t, map[reflect.Type]bool{}))) {
		if !declared[strings.ToLower(c)] && decodes(t, c) == nil {
			return fmt.Errorf("decodes the member %q, which is not in its schema; give the field a json tag of its own", c)
		}
	}
	return nil
}

func decodes(t reflect.Type, name string) error {
	member, err := json.Marshal(map[string]any{name: nil})
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(member))
	d.DisallowUnknownFields()
	return d.Decode(reflect.New(t).Interface())
}

// candidates returns every name that some field in or below a struct could
// have.
func candidates(t reflect.Type, seen map[reflect.Type]bool) map[string]bool {
	names := map[string]bool{}
	if seen[t] {
		return names
	}
	seen[t] = true
	for i := range t.NumField() {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		names[sf.Name] = true
		if name != "" {
			names[name] = true
		}
		et := sf.Type
		if et.Kind() == reflect.Pointer {
			et = et.Elem()
		}
		if sf.Anonymous && et.Kind() == reflect.Struct {
			maps.Copy(names, candidates(et, seen))
		}
	}
	return names
}

// Decode reads arguments that [Schema.Prepare] returned into out, a pointer. It
// matches names exactly, where encoding/json ignores case, and refuses members
// that out does not have. The error says where, and quotes nothing.
func Decode(args json.RawMessage, out any) error {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return &Error{Text: "nothing to decode into: want a pointer"}
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return invalid(problem("", "does not fit the program's type: "+decodeText(err)))
	}
	tree, p := parse(string(args), true)
	if p != nil {
		return invalid(*p)
	}
	var at path
	if !exactNames(&tree, v.Type().Elem(), &at) {
		return invalid(problem(at.pointer(), "has an argument that is not known here, or not in this case"))
	}
	return nil
}

func decodeText(err error) string {
	if e, ok := err.(*json.UnmarshalTypeError); ok {
		return "at " + strconv.Quote(cut(e.Field)) + " want " + e.Type.String()
	}
	return "a member is unknown or has another form"
}

// exactNames checks the names of objects against the structs that they went
// into. At is where it is, and where it stopped.
func exactNames(v *value, t reflect.Type, at *path) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case len(v.kids) == 0 || readsItself(t):
		return true
	case v.kind == kindObject:
		return exactMembers(v, t, at)
	case t.Kind() != reflect.Slice && t.Kind() != reflect.Array:
		return true
	}
	for i := range v.kids {
		*at = append(*at, step{index: i})
		if !exactNames(&v.kids[i], t.Elem(), at) {
			return false
		}
		*at = (*at)[:len(*at)-1]
	}
	return true
}

func exactMembers(v *value, t reflect.Type, at *path) bool {
	var fs []field
	switch t.Kind() {
	case reflect.Struct:
		fs = directFields(t)
	case reflect.Map:
	default:
		return true
	}
	for i := range v.kids {
		name, mt := v.kids[i].name, reflect.Type(nil)
		if t.Kind() == reflect.Map {
			mt = t.Elem()
		}
		for j := range fs {
			if fs[j].name == name {
				mt = fs[j].typ
			}
		}
		if mt == nil {
			return false
		}
		*at = append(*at, step{name, -1})
		if !exactNames(&v.kids[i], mt, at) {
			return false
		}
		*at = (*at)[:len(*at)-1]
	}
	return true
}

// directFields returns the names and types of fields. It is on the hot path:
// without embedding it need not weigh which field wins, since agree has held
// the type to its schema.
func directFields(t reflect.Type) []field {
	fs := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Anonymous {
			return fields(t)
		}
		tag := sf.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if !validName(name) {
			name = sf.Name
		}
		if sf.IsExported() && tag != "-" {
			fs = append(fs, field{name: name, typ: sf.Type})
		}
	}
	return fs
}

// readsItself reports whether a type decodes itself, so that its fields say
// nothing about its JSON.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
