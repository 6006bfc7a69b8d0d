package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// properties are the schema's names with their types: "string", "integer",
// "boolean", "[]string" or "[]integer".
func properties(input json.RawMessage) (types map[string]string, required []any, ok bool) {
	v, err := strictjson.Parse(input)
	root, isObject := v.(map[string]any)
	if err != nil || !isObject {
		return nil, nil, false
	}
	types = map[string]string{}
	props, _ := root["properties"].(map[string]any)
	for name, p := range props {
		s, _ := p.(map[string]any)
		kind, _ := s["type"].(string)
		if kind == "array" {
			items, _ := s["items"].(map[string]any)
			of, _ := items["type"].(string)
			kind = "[]" + of
		}
		types[name] = kind
	}
	required, _ = root["required"].([]any)
	return types, required, true
}

// check lists what is wrong with a command.
func (k *command) check() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, invalid(k.Name, fmt.Sprintf(format, args...))) }
	types, required, ok := properties(k.Input)
	if !ok {
		wrong("has no schema of arguments")
		return errs
	}
	used := map[string]bool{}
	for i, a := range k.Args {
		used[a.From] = true
		if problem := k.place(a, i, types, required); problem != "" {
			wrong("argument %d %s", i, problem)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if !used[name] {
			wrong("never uses %q", name)
		}
	}
	if k.writes && len(k.NoMatch) > 0 {
		wrong("changes something, so no exit code says that nothing matched")
	}
	for code, c := range k.Exit {
		if code == 0 || !c.Known() || slices.Contains(k.NoMatch, code) {
			wrong("gives exit code %d no meaning that it may have", code)
		}
	}
	if slices.Contains(k.NoMatch, 0) {
		wrong("takes exit code 0 for no match")
	}
	return errs
}

// place says what is wrong with one element.
func (k *command) place(a Arg, i int, types map[string]string, required []any) string {
	option := strings.HasPrefix(a.Text, "-")
	kind := types[a.From]
	switch {
	case strings.ContainsRune(a.Text, 0):
		return "holds a NUL character"
	case a.From == "" && a.Text == "":
		return "is empty"
	case a.From == "":
		return ""
	case !slices.Contains([]string{"string", "integer", "boolean", "[]string", "[]integer"}, kind):
		return fmt.Sprintf("is %q, which is no string, integer, boolean or list of these in the schema", a.From)
	case kind == "boolean" && (!option || strings.HasSuffix(a.Text, "=")):
		return "is a boolean without an option that it sets"
	case kind == "boolean":
		return ""
	case a.Text != "" && (!option || !strings.HasSuffix(a.Text, "=") || a.Text == "="):
		return "is an option whose text does not begin with a dash and end with an equals sign"
	case a.Text != "" || i == len(k.Args)-1:
		return ""
	case strings.HasPrefix(kind, "[]"):
		return "is a list on its own that is not the last"
	case !slices.Contains(required, any(a.From)):
		return "stands on its own, is not the last and may be left out: what follows would take its place"
	}
	return ""
}

// vector makes the arguments of one call, which fit the schema.
func (k *command) vector(arguments json.RawMessage) ([]string, error) {
	v, err := strictjson.Parse(arguments)
	given, ok := v.(map[string]any)
	if len(arguments) > 0 && (err != nil || !ok) {
		return nil, toolresult.NewError(toolresult.Internal, "the arguments are no object")
	}
	var out []string
	ended := false // "--" was given
	for _, a := range k.Args {
		if a.From == "" {
			out, ended = append(out, a.Text), ended || a.Text == "--"
			continue
		}
		values, err := texts(given[a.From])
		if err != nil {
			return nil, toolresult.WrapError(toolresult.InvalidInput, "an argument cannot be given to the program", err).With("/"+strictjson.Escape(a.From), "a string, whole number or boolean")
		}
		for _, text := range values {
			switch {
			case given[a.From] == true:
				out = append(out, a.Text)
			case given[a.From] == false:
			case a.Text == "" && (text == "" || !ended && text[0] == '-'):
				return nil, toolresult.NewError(toolresult.InvalidInput, "an argument is empty or looks like an option").With("/"+strictjson.Escape(a.From), "must not be empty or begin with a dash")
			default:
				out = append(out, a.Text+text)
			}
		}
	}
	return out, nil
}

// texts are the values at one place.
func texts(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case bool:
		return []string{""}, nil
	case string:
		return []string{v}, nil
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return nil, fmt.Errorf("no whole number")
		}
		return []string{v.String()}, nil
	case []any:
		var out []string
		for _, e := range v {
			if _, ok := e.([]any); ok || e == nil {
				return nil, fmt.Errorf("a list in a list")
			}
			if _, ok := e.(bool); ok {
				return nil, fmt.Errorf("a boolean in a list")
			}
			one, err := texts(e)
			if err != nil {
				return nil, err
			}
			out = append(out, one...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("an object")
}
