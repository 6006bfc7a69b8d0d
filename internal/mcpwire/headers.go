package mcpwire

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// HeaderPlan says which arguments of a tool are repeated as headers (SEP-2243),
// by JSON Pointer into the arguments.
type HeaderPlan map[string]string

// PlanHeaders reads the annotations x-mcp-header of a tool's input schema. A
// schema that breaks the rules of the protocol makes its tool unusable: the
// error says how.
func PlanHeaders(input any) (HeaderPlan, error) {
	plan, used := HeaderPlan{}, map[string]bool{}
	if err := planProperties(plan, used, input, ""); err != nil {
		return nil, err
	}
	if n := countAnnotations(input); n != len(plan) {
		return nil, fmt.Errorf("has x-mcp-header somewhere else than on a property of an object")
	}
	return plan, nil
}

func planProperties(plan HeaderPlan, used map[string]bool, schema any, at string) error {
	o, _ := schema.(map[string]any)
	props, _ := o["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(props)) {
		p, _ := props[name].(map[string]any)
		here := at + "/" + strictjson.Escape(name)
		if v, ok := p["x-mcp-header"]; ok {
			header, _ := v.(string)
			kind, _ := p["type"].(string)
			switch {
			case !token(header):
				return fmt.Errorf("has an x-mcp-header that is no name of a header")
			case used[strings.ToLower(header)]:
				return fmt.Errorf("has one x-mcp-header twice")
			case kind != "string" && kind != "integer" && kind != "boolean":
				return fmt.Errorf("has an x-mcp-header on something else than a string, an integer or a boolean")
			}
			used[strings.ToLower(header)], plan[here] = true, header
		}
		if err := planProperties(plan, used, p, here); err != nil {
			return err
		}
	}
	return nil
}

// countAnnotations counts the annotations wherever they are. A property that is
// called so is none.
func countAnnotations(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += countAnnotations(e)
		}
	case map[string]any:
		for k, e := range v {
			switch {
			case k == "x-mcp-header":
				n++
			case k == "properties" || k == "$defs" || k == "patternProperties":
				m, _ := e.(map[string]any)
				for _, s := range m {
					n += countAnnotations(s)
				}
			case k == "enum" || k == "const" || k == "default" || k == "examples":
			default:
				n += countAnnotations(e)
			}
		}
	}
	return n
}

func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// Names returns the names of the headers, sorted.
func (p HeaderPlan) Names() []string {
	out := make([]string, 0, len(p))
	for _, h := range p {
		out = append(out, http.CanonicalHeaderKey(HeaderParam+h))
	}
	slices.Sort(out)
	return out
}

// Values returns the headers for arguments. What is absent or null has none.
func (p HeaderPlan) Values(args json.RawMessage) (map[string]string, error) {
	if len(p) == 0 {
		return nil, nil
	}
	v, err := strictjson.Parse(args)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for pointer, header := range p {
		e, _ := strictjson.Lookup(v, pointer)
		switch e := e.(type) {
		case string:
			out[HeaderParam+header] = headerValue(e)
		case bool:
			out[HeaderParam+header] = fmt.Sprint(e)
		case json.Number:
			f, err := e.Float64()
			if err != nil || f != float64(int64(f)) || f > 1<<53-1 || f < -(1<<53-1) {
				return nil, fmt.Errorf("an argument for a header is no whole number up to 2^53-1")
			}
			out[HeaderParam+header] = fmt.Sprint(int64(f))
		}
	}
	return out, nil
}
