package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// What an inferred schema says where the type says nothing. An overlay can say
// otherwise, up to the second number.
const (
	defaultMaxLength, hardMaxLength         = 4096, 1 << 20
	defaultMaxItems, hardMaxItems           = 1000, 100_000
	defaultMaxProperties, hardMaxProperties = 100, 10_000
)

// maxTypeDepth is how deep a type may be nested.
const maxTypeDepth = 16

// maxInteger is the largest whole number that every reader of JSON keeps
// (RFC 8259, section 6).
const maxInteger = 1<<53 - 1

// open marks a place in an inferred schema for which only an overlay can say
// what goes there. No JSON that was parsed strictly has a name with a NUL.
const open = "\x00open"

type object = map[string]any

// An inference goes from a type to its schema.
type inference struct {
	input bool
	stack []reflect.Type
}

// infer returns the schema of t; path is the Go name of the place.
func (in *inference) infer(t reflect.Type, path string) (object, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(in.stack) > maxTypeDepth {
		return nil, &Error{path, fmt.Sprintf("is nested more than %d types deep; write it flatter", maxTypeDepth)}
	}
	if t.Name() != "" && slices.Contains(in.stack, t) {
		return nil, &Error{path, "is a type that holds itself; a model gets no end of it: say how deep it goes with types of their own"}
	}
	in.stack = append(in.stack, t)
	defer func() { in.stack = in.stack[:len(in.stack)-1] }()
	if s, err := in.known(t, path); s != nil || err != nil {
		return s, err
	}
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return object{"type": "boolean"}, nil
	case k >= reflect.Int && k <= reflect.Uint64:
		return integer(k), nil
	case k == reflect.Float32 || k == reflect.Float64:
		return object{"type": "number"}, nil
	case k == reflect.String:
		return in.text(object{}), nil
	case k == reflect.Struct:
		return in.structure(t, path)
	case k == reflect.Map:
		return in.mapping(t, path)
	case k == reflect.Slice || k == reflect.Array:
		return in.list(t, path)
	}
	return nil, &Error{path, "is a " + t.String() + ", which JSON has no form for; use another type"}
}

// known returns the schema of a type whose JSON its kind does not tell, or nil.
func (in *inference) known(t reflect.Type, path string) (object, error) {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return nil, &Error{path, "is a time.Duration, which is nanoseconds in JSON; use a whole number with the unit in its name (timeout_seconds), or a string"}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}, nil
	case reflect.TypeFor[json.Number]():
		return object{"type": "number"}, nil
	case reflect.TypeFor[json.RawMessage]():
		return object{open: "is any JSON"}, nil
	}
	if t.Kind() == reflect.Interface {
		return object{open: "is " + t.String()}, nil
	}
	text, whole := itself(t, in.input)
	switch {
	case whole:
		return object{open: "is " + t.String() + ", which makes its own JSON"}, nil
	case text:
		return in.text(object{}), nil
	}
	return nil, nil
}

// itself reports whether a type makes or reads its own text, or its own JSON.
func itself(t reflect.Type, input bool) (text, whole bool) {
	p := reflect.PointerTo(t)
	if input {
		return p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), p.Implements(reflect.TypeFor[json.Unmarshaler]())
	}
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()), p.Implements(reflect.TypeFor[json.Marshaler]())
}

func (in *inference) text(s object) object {
	s["type"] = "string"
	if in.input {
		s["maxLength"] = number(defaultMaxLength)
	}
	return s
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// integer returns the bounds of a kind, and never more than every reader keeps.
func integer(k reflect.Kind) object {
	low, high := int64(-maxInteger), int64(maxInteger)
	bits := map[reflect.Kind]int{reflect.Int8: 8, reflect.Int16: 16, reflect.Int32: 32, reflect.Uint8: 8, reflect.Uint16: 16, reflect.Uint32: 32}[k]
	switch {
	case bits > 0 && k < reflect.Uint:
		low, high = -1<<(bits-1), 1<<(bits-1)-1
	case bits > 0:
		low, high = 0, 1<<bits-1
	case k >= reflect.Uint:
		low = 0
	}
	return object{"type": "integer", "minimum": number(low), "maximum": number(high)}
}

func (in *inference) structure(t reflect.Type, path string) (object, error) {
	fs := fields(t)
	if err := agree(t, fs); err != nil {
		return nil, &Error{path, err.Error()}
	}
	props, required := object{}, []any{}
	for _, f := range fs {
		s, err := in.member(f, path+"."+f.goName)
		if err != nil {
			return nil, err
		}
		if f.desc != "" {
			s["description"] = f.desc
		}
		props[f.name] = s
		if !f.optional || !in.input && !f.omits {
			required = append(required, f.name)
		}
	}
	s := object{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s, nil
}

func (in *inference) member(f field, path string) (object, error) {
	base := f.typ
	for base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	if f.quoted {
		if k := base.Kind(); k < reflect.Int || k > reflect.Uint64 || base == reflect.TypeFor[time.Duration]() {
			return nil, &Error{path, `has the json option "string", which is for whole numbers only; remove it`}
		}
		pattern := `^(0|-?[1-9][0-9]{0,18})$`
		if base.Kind() >= reflect.Uint {
			pattern = `^(0|[1-9][0-9]{0,19})$`
		}
		return object{"type": "string", "pattern": pattern, "maxLength": number(20)}, nil
	}
	s, err := in.infer(f.typ, path)
	if err != nil || in.input || f.omits {
		return s, err
	}
	if k := f.typ.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Map {
		return nullable(s), nil
	}
	return s, nil
}

// nullable lets an answer be null where encoding/json writes it for nil.
func nullable(s object) object {
	if t, ok := s["type"].(string); ok {
		s["type"] = []any{t, "null"}
	}
	return s
}

func (in *inference) mapping(t reflect.Type, path string) (object, error) {
	kt := t.Key()
	_, custom := kt.MethodByName("MarshalText")
	if in.input && (kt.Kind() != reflect.String || custom || readsItself(kt)) {
		return nil, &Error{path, "is a map whose keys are not plain strings; use string keys"}
	}
	v, err := in.element(t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	s := object{"type": "object", "additionalProperties": v}
	if in.input {
		s["maxProperties"] = number(defaultMaxProperties)
	}
	return s, nil
}

func (in *inference) list(t reflect.Type, path string) (object, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !readsItself(t.Elem()) {
		return in.text(object{"contentEncoding": "base64", "pattern": `^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`}), nil
	}
	e, err := in.element(t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	s := object{"type": "array", "items": e}
	switch {
	case t.Kind() == reflect.Array:
		s["minItems"], s["maxItems"] = number(int64(t.Len())), number(int64(t.Len()))
	case in.input:
		s["maxItems"] = number(defaultMaxItems)
	}
	return s, nil
}

// element returns the schema of what a list or a map holds.
func (in *inference) element(t reflect.Type, path string) (object, error) {
	s, err := in.infer(t, path)
	if err != nil || in.input {
		return s, err
	}
	if k := t.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Map {
		return nullable(s), nil
	}
	return s, nil
}
