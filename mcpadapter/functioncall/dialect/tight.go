package dialect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// whole change what a value is made of: in strict mode a schema without them would
// be another one.
var whole = []string{"not", "if", "then", "else", "patternProperties", "prefixItems", "additionalItems", "unevaluatedProperties", "unevaluatedItems"}

// words are for people and not for judging a value.
var words = []string{"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding", "contentSchema"}

// tight rewrites a schema to the keywords of the dialect.
func (p *projector) tight(s map[string]any, path string, depth int) (any, *node) {
	if s = p.flat(s, path, depth); p.err != nil {
		return nil, &node{}
	}
	s = p.plain(maps.Clone(s), path)
	if list, ok := s["anyOf"]; ok {
		return p.union(s, list, path, depth)
	}
	given := types(s["type"])
	t := given
	if t == nil {
		t = p.infer(s, path)
	}
	switch {
	case t == nil && p.rules.AllRequired:
		p.notStrict(path, "a value of any type has no place in it")
		return nil, &node{}
	case t == nil:
		p.lose(Annotation, path, "may be of any type, and is asked for as JSON in a string")
		return p.asJSON(s, "any")
	case p.rules.OpenAPI:
		return p.oneType(s, t, path, depth)
	}
	return p.typed(s, t, path, depth)
}

// plain writes what has another form in that form.
func (p *projector) plain(s map[string]any, path string) map[string]any {
	if list, ok := s["oneOf"]; ok {
		delete(s, "oneOf")
		if _, both := s["anyOf"]; both {
			p.cannot(path+"/oneOf", "has no place beside anyOf, and is left out")
		} else {
			s["anyOf"] = list
			p.lose(Wider, path+"/oneOf", "is said as anyOf, which more than one branch may fit")
		}
	}
	if list, ok := s["items"].([]any); ok { // before 2020-12
		s["prefixItems"] = list
		if delete(s, "items"); s["additionalItems"] != nil {
			s["items"] = s["additionalItems"]
		}
		delete(s, "additionalItems")
	}
	if v, ok := s["const"]; ok && p.rules.OpenAPI {
		if delete(s, "const"); s["enum"] == nil {
			s["enum"] = []any{v}
		} else if s["enum"] = []any{v}; true {
			p.lose(Wider, path+"/enum", "is left out beside const")
		}
	}
	if v, ok := s["default"]; ok {
		text, _ := json.Marshal(v)
		s["description"] = note(s["description"], "Default: "+string(text)+".")
		delete(s, "default")
		p.lose(Annotation, path+"/default", "is said in the description only")
	}
	for k, sign := range map[string]int64{"exclusiveMinimum": 1, "exclusiveMaximum": -1} {
		if v, ok := s[k]; ok && !slices.Contains(p.rules.Keywords, k) {
			p.inclusive(s, k, v, sign, path)
		}
	}
	return s
}

// inclusive says an exclusive bound as an inclusive one.
func (p *projector) inclusive(s map[string]any, k string, v any, sign int64, path string) {
	n, ok := number(v)
	if !ok || p.rules.AllRequired {
		return // left to what happens to unknown keywords
	}
	delete(s, k)
	to := "m" + strings.TrimPrefix(k, "exclusiveM")
	if slices.Equal(types(s["type"]), []string{"integer"}) && n.IsInt() {
		v = json.Number(new(big.Int).Add(n.Num(), big.NewInt(sign)).String())
	} else {
		p.lose(Wider, path+"/"+k, "is said as %s, which takes the bound itself", to)
	}
	if old, ok := s[to]; ok {
		v, _ = extreme(old, v, int(sign))
	}
	s[to] = v
}

// infer finds out the types that a schema without a type is about.
func (p *projector) infer(s map[string]any, path string) []string {
	list, isEnum := s["enum"].([]any)
	if v, ok := s["const"]; ok {
		list, isEnum = []any{v}, true
	}
	var out []string
	if isEnum {
		for _, v := range list {
			if t := typeOf(v); !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
		return out
	}
	for _, t := range []string{"object", "array", "string", "number"} {
		if slices.ContainsFunc(about[t], func(k string) bool { return s[k] != nil }) {
			out = append(out, t)
		}
	}
	if out != nil {
		p.lose(Narrower, path, "says no type, and is taken to be about %s", strings.Join(out, " and "))
	}
	return out
}

// about are the keywords that judge values of one type only.
var about = map[string][]string{
	"object": {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties"},
	"array":  {"items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"},
	"string": {"minLength", "maxLength", "pattern", "format"},
	"number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case json.Number:
		if n, ok := number(v); ok && n.IsInt() {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// oneType says several types in OpenAPI's way: null by nullable, others by anyOf.
func (p *projector) oneType(s map[string]any, t []string, path string, depth int) (any, *node) {
	others := slices.DeleteFunc(slices.Clone(t), func(k string) bool { return k == "null" })
	null := len(others) < len(t)
	if list, ok := s["enum"].([]any); ok && !slices.Contains(list, nil) {
		null = false
	}
	if slices.Contains(others, "number") {
		others = slices.DeleteFunc(others, func(k string) bool { return k == "integer" })
	}
	var branches []any
	n := &node{}
	for _, one := range others {
		b := maps.Clone(s)
		if b["type"] = one; len(others) > 1 {
			delete(b, "description")
		}
		if !fitting(b, one) {
			continue
		}
		sub, child := p.typed(b, []string{one}, path, depth)
		branches, n.also = append(branches, sub), append(n.also, child)
	}
	if len(branches) == 0 {
		return p.nothing(s, path, depth)
	}
	return p.nullable(s, branches, null), n
}

// nothing is a schema that at most null fits.
func (p *projector) nothing(s map[string]any, path string, depth int) (any, *node) {
	b := maps.Clone(s)
	if list, ok := b["enum"].([]any); ok && !slices.Contains(list, nil) {
		p.lose(Wider, path+"/enum", "fits no type, and is left out")
	}
	delete(b, "enum")
	b["type"] = "null"
	return p.typed(b, []string{"null"}, path, depth)
}

// fitting keeps of an enum what is of a type, and says whether anything is.
func fitting(s map[string]any, t string) bool {
	list, ok := s["enum"].([]any)
	if !ok {
		return true
	}
	out := slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		got := typeOf(v)
		return got != t && (t != "number" || got != "integer")
	})
	s["enum"] = out
	return len(out) > 0
}

// nullable is one of the branches, or null.
func (p *projector) nullable(s map[string]any, branches []any, null bool) any {
	if len(branches) == 0 { // of a union with null alone
		out := map[string]any{"type": "null"}
		if d := text(s["description"]); d != "" {
			out["description"] = d
		}
		return out
	}
	if null {
		if m, ok := branches[0].(map[string]any); ok {
			m = maps.Clone(m)
			m["nullable"] = true
			branches[0] = m
		}
	}
	if len(branches) == 1 {
		return branches[0]
	}
	if m, ok := branches[0].(map[string]any); ok && text(s["description"]) != "" { // anyOf stands alone (S-18)
		m = maps.Clone(m)
		m["description"] = note(s["description"], text(m["description"]))
		branches[0] = m
	}
	return map[string]any{"anyOf": branches}
}

// union projects an anyOf. What stands beside it goes into each branch, which says
// the same (S-18).
func (p *projector) union(s map[string]any, v any, path string, depth int) (any, *node) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		p.malformed(path + "/anyOf")
		return nil, &node{}
	}
	beside := maps.Clone(s)
	maps.DeleteFunc(beside, func(k string, _ any) bool { return k == "anyOf" || slices.Contains(words, k) })
	var subs []any
	null, meant := false, 0
	for i := range list {
		sub := list[i]
		if len(beside) > 0 {
			sub = p.mergeAny(sub, beside, fmt.Sprintf("%s/anyOf/%d", path, i), depth)
		}
		m, _ := sub.(map[string]any)
		if p.rules.OpenAPI && isNull(m) {
			null = true
			continue
		}
		if sub != false {
			subs = append(subs, sub)
		}
		if !slices.Equal(types(m["type"]), []string{"null"}) {
			meant++
		}
	}
	if len(subs) == 0 && !null {
		p.fail(fmt.Errorf("dialect: nothing fits the schema at %q", path))
		return nil, &node{}
	}
	if meant > 1 {
		p.branches++
		defer func() { p.branches-- }()
	}
	n := &node{}
	out := make([]any, len(subs))
	for i := range subs {
		got, child := p.schema(subs[i], fmt.Sprintf("%s/anyOf/%d", path, i), depth)
		out[i], n.also = got, append(n.also, child)
	}
	if !p.rules.OpenAPI {
		whole := map[string]any{"anyOf": out}
		if d := text(s["description"]); d != "" {
			whole["description"] = d
		}
		return whole, n
	}
	return p.nullable(s, p.flattened(s, out), null), n
}

// isNull reports whether a schema takes null, and says no more.
func isNull(s map[string]any) bool {
	for k := range s {
		if k != "type" && !slices.Contains(words, k) {
			return false
		}
	}
	return slices.Equal(types(s["type"]), []string{"null"})
}

// flattened takes unions out of a union, and gives a single branch the outer
// description.
func (p *projector) flattened(s map[string]any, branches []any) (out []any) {
	for _, b := range branches {
		m, _ := b.(map[string]any)
		if list, ok := m["anyOf"].([]any); ok {
			out = append(out, list...)
			continue
		}
		out = append(out, b)
	}
	if m, ok := out0(out); ok && len(out) == 1 && text(s["description"]) != "" {
		m = maps.Clone(m)
		m["description"] = note(s["description"], text(m["description"]))
		out[0] = m
	}
	return out
}

func out0(list []any) (map[string]any, bool) {
	if len(list) == 0 {
		return nil, false
	}
	m, ok := list[0].(map[string]any)
	return m, ok
}

// typed projects a schema whose types are known.
func (p *projector) typed(s map[string]any, t []string, path string, depth int) (any, *node) {
	if most := p.rules.MaxDepth; most > 0 && depth > most {
		p.notStrict(path, fmt.Sprintf("it is nested over %d levels", most))
		return nil, &node{}
	}
	out, n := map[string]any{"type": s["type"]}, &node{}
	if out["type"] == nil {
		out["type"] = oneOrList(t)
	}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		p.keyword(out, k, s, t, path)
	}
	if slices.Contains(t, "array") {
		items, child := p.schema(orTrue(s["items"]), path+"/items", depth+1)
		out["items"], n.items = items, child
	}
	if slices.Contains(t, "object") {
		if p.rules.OpenAPI && depth > 1 && empty(s) {
			p.lose(Wider, path, "is an object with names of any kind, and is asked for as JSON in a string")
			return p.asJSON(out, "object")
		}
		p.object(out, n, s, path, depth)
	}
	return out, n
}

func oneOrList(t []string) any {
	if len(t) == 1 {
		return t[0]
	}
	out := make([]any, len(t))
	for i := range t {
		out[i] = t[i]
	}
	return out
}

// keyword writes one keyword that needs no more than itself.
func (p *projector) keyword(out map[string]any, k string, s map[string]any, t []string, path string) {
	at, v := path+"/"+strictjson.Escape(k), s[k]
	switch {
	case slices.Contains([]string{"type", "properties", "required", "additionalProperties", "items"}, k), slices.Contains(silent, k):
	case !relevant(k, t): // it judges nothing here (S-19)
	case k == "description":
		out[k] = note(v, text(out[k]))
	case k == "format":
		if !slices.Contains(p.rules.Formats, text(v)) || p.rules.OpenAPI && !slices.Contains(t, formatOf[text(v)]) {
			p.lose(Wider, at, "is not known to the vendor, and is left out")
			return
		}
		out[k] = v
	case k == "enum":
		p.enum(out, v, at)
	case slices.Contains(p.rules.Keywords, k):
		if out[k] = v; k == "const" {
			p.enums++
			p.count(text(v))
		}
	case slices.Contains(words, k), strings.HasPrefix(k, "x-"):
		p.lose(Annotation, at, "is not known to the vendor, and is left out")
	case slices.Contains(whole, k):
		p.cannot(at, "the keyword has no place in it")
	default:
		p.lose(Wider, at, "is not known to the vendor, and is left out")
	}
}

// formatOf are the types that OpenAPI's formats are for.
var formatOf = map[string]string{"date-time": "string", "enum": "string", "int32": "integer", "int64": "integer", "float": "number", "double": "number"}

// relevant reports whether a keyword judges a value of one of the types.
func relevant(k string, t []string) bool {
	for of, keys := range about {
		if slices.Contains(keys, k) && !(k == "format" && of == "string") {
			return slices.Contains(t, of) || of == "number" && slices.Contains(t, "integer")
		}
	}
	return true
}

func (p *projector) enum(out map[string]any, v any, at string) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		p.malformed(at)
		return
	}
	if p.rules.OpenAPI && out["type"] != "string" {
		var said []string
		for _, v := range list {
			text, _ := json.Marshal(v)
			said = append(said, string(text))
		}
		out["description"] = note(out["description"], "One of: "+strings.Join(said, ", ")+".")
		p.lose(Wider, at, "is taken for strings only, and is said in the description")
		return
	}
	if p.rules.OpenAPI && slices.Contains(list, any("")) {
		list = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == "" })
		if p.lose(Narrower, at, "cannot hold the empty string"); len(list) == 0 {
			p.lose(Wider, at, "is left out")
			return
		}
	}
	for _, v := range list {
		p.count(text(v))
	}
	p.enums += len(list)
	out["enum"] = list
}

// empty reports whether an object has no property that is named.
func empty(s map[string]any) bool {
	props, _ := s["properties"].(map[string]any)
	return len(props) == 0 && len(required(s)) == 0
}

// asJSON asks for a value as JSON in a string. Back reads it.
func (p *projector) asJSON(s map[string]any, kind string) (any, *node) {
	p.undo = true
	how := "Any JSON value, written as JSON text."
	if kind == "object" {
		how = "A JSON object, written as JSON text."
	}
	return map[string]any{"type": "string", "description": note(s["description"], how)}, &node{json: kind}
}

// object writes what an object is made of. In strict mode every property is
// required; one that was optional may be null, and Back takes a null there for
// nothing.
func (p *projector) object(out map[string]any, n *node, s map[string]any, path string, depth int) {
	props, ok := s["properties"].(map[string]any)
	if _, said := s["properties"]; said && !ok {
		p.malformed(path + "/properties")
		return
	}
	rest := orTrue(s["additionalProperties"])
	p.beyond(rest, s, path)
	if names := p.replaced(s); len(names) > 0 && rest == true {
		p.lose(Wider, path, "takes other names, among them %q, which is called otherwise for this vendor", names[0])
	}
	props = maps.Clone(props)
	if props == nil {
		props = map[string]any{}
	}
	for _, name := range required(s) {
		if _, ok := props[name]; !ok {
			props[name] = rest
		}
	}
	projected := map[string]any{}
	needed := []any{}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		at := path + "/properties/" + strictjson.Escape(name)
		must := slices.Contains(required(s), name)
		if props[name] == false {
			if must {
				p.fail(fmt.Errorf("dialect: nothing fits the schema at %q", at))
			} else if rest != false && !p.rules.AllRequired {
				p.lose(Wider, at, "is a name that is not taken, and is left out")
			}
			continue
		}
		sub, child := p.schema(props[name], at, depth+1)
		if p.err != nil {
			return
		}
		f := &field{name: name, node: child}
		if !must && p.rules.AllRequired && !p.takesNull(sub, props[name], at) {
			if p.branches > 0 { // Back could not tell which branch was meant
				p.notStrict(at, "an optional property of a branch has no place in it")
			}
			sub, f.drop, p.undo = orNull(sub), true, true
		}
		key := p.key(name)
		projected[key] = sub
		n.prop(key, f)
		if must || p.rules.AllRequired {
			needed = append(needed, key)
		}
		p.properties++
		p.count(name)
	}
	if out["properties"] = projected; p.rules.AllRequired {
		out["additionalProperties"], out["required"] = false, needed
	} else if len(needed) > 0 {
		out["required"] = needed
	}
}

// beyond is about names beyond the properties.
func (p *projector) beyond(rest any, s map[string]any, path string) {
	_, said := s["additionalProperties"]
	at := path + "/additionalProperties"
	switch {
	case p.rules.AllRequired && rest != false && said:
		p.notStrict(at, "an object with names of any kind has no place in it")
	case p.rules.AllRequired && rest != false:
		p.lose(Narrower, path, "takes other names too, and is closed")
	case !p.rules.AllRequired && rest != true:
		p.lose(Wider, at, "is not known to the vendor, and is left out")
	}
}

// takesNull looks through a reference that stayed.
func (p *projector) takesNull(sub, original any, path string) bool {
	m, _ := sub.(map[string]any)
	if _, kept := m["$ref"]; kept {
		o, _ := original.(map[string]any)
		target, _ := p.lookup(text(o["$ref"]), path)
		return nullable(target)
	}
	return nullable(sub)
}

// nullable reports whether a projected schema takes null.
func nullable(v any) bool {
	s, _ := v.(map[string]any)
	if list, ok := s["anyOf"].([]any); ok {
		return slices.ContainsFunc(list, nullable)
	}
	if list, ok := s["enum"].([]any); ok && !slices.Contains(list, nil) {
		return false
	}
	if c, ok := s["const"]; ok && c != nil {
		return false
	}
	return slices.Contains(types(s["type"]), "null")
}

// orNull is a schema or null, with the description outside.
func orNull(v any) any {
	s, _ := v.(map[string]any)
	out := map[string]any{}
	if d, ok := s["description"]; ok {
		out["description"] = d
		s = maps.Clone(s)
		delete(s, "description")
	}
	out["anyOf"] = []any{s, map[string]any{"type": "null"}}
	return out
}
