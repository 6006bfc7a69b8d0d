package mcpadapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// StatusTool is the name of the tool that looks an operation up.
const StatusTool = "operation_status"

// A tool is a capability as clients see it. It is immutable.
type tool struct {
	tool    *mcp.Tool
	encoded []byte // as it is in a list
	write   bool
	headers bool // parameters may have to be in headers, which the SDK checks
}

// newTool projects a declaration. Annotations are hints for clients, and are
// never read back.
func newTool(d *connector.Declaration) (*tool, error) {
	in := d.Input
	if in == nil {
		in = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	input, err := schema.Parse(in, true)
	if err != nil {
		return nil, fmt.Errorf("mcpadapter: the input of %q: %w", d.Name, err)
	}
	output, err := outputOf(d.Output)
	if err != nil {
		return nil, fmt.Errorf("mcpadapter: the output of %q: %w", d.Name, err)
	}
	t := &tool{
		write: d.Kind == connector.KindWrite,
		tool: &mcp.Tool{
			Name: d.Name, Title: d.Title, Description: d.Description,
			InputSchema: input.Model(), OutputSchema: output, Annotations: annotations(d),
		},
	}
	return t, t.encode()
}

// encode writes the tool as it is in a list.
func (t *tool) encode() (err error) {
	t.encoded, err = marshal(t.tool)
	t.headers = bytes.Contains(t.encoded, []byte("x-mcp-header"))
	return err
}

// annotations derives hints from what is declared. What nobody classified is
// shown as the worst.
func annotations(d *connector.Declaration) *mcp.ToolAnnotations {
	write := d.Kind == connector.KindWrite || d.Class.SideEffect != risk.ReadOnly
	destructive := write && d.Class.SideEffect != risk.ReversibleWrite
	open := write || len(d.Routes) > 0
	return &mcp.ToolAnnotations{
		Title: d.Title, ReadOnlyHint: !write, DestructiveHint: &destructive,
		IdempotentHint: !write || d.Idempotency.Natural, OpenWorldHint: &open,
	}
}

// outputOf returns the schema of the envelope around an output; nil is any.
func outputOf(output json.RawMessage) (json.RawMessage, error) {
	var data map[string]any
	if output != nil {
		s, err := schema.Parse(output, false)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(s.Model(), &data); err != nil {
			return nil, err
		}
	}
	var envelope map[string]any
	if err := json.Unmarshal(toolresult.Schema(), &envelope); err != nil {
		return nil, err
	}
	defs, _ := envelope["$defs"].(map[string]any)
	out, _ := inline(envelope, defs).(map[string]any)
	properties, ok := out["properties"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the envelope's schema has no properties")
	}
	if data != nil {
		about, _ := properties["data"].(map[string]any)
		properties["data"] = map[string]any{"description": about["description"], "anyOf": []any{map[string]any{"type": "null"}, data}}
	}
	return json.Marshal(out)
}

// inline writes the references of the envelope's schema out, for clients that
// do not follow them, leaves out what only readers of the document need, and
// says the rest as clients with a smaller dialect take it: one type to a schema,
// and no bare false. The sources of a source are left to toolresult: written out
// they would be most of the text.
func inline(v any, defs map[string]any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = inline(v[i], defs)
		}
		return out
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/$defs/")
			if strings.HasPrefix(name, "source_") {
				return map[string]any{"type": "object"}
			}
			return inline(defs[name], defs)
		}
		return portable(members(v, defs))
	}
	return v
}

func members(v, defs map[string]any) map[string]any {
	out := make(map[string]any, len(v))
	for k, x := range v {
		switch k {
		case "$defs", "$id", "$schema", "$comment", "title", "examples":
			continue
		}
		out[k] = inline(x, defs)
		named, _ := out[k].(map[string]any)
		if k != "properties" {
			continue
		}
		for name, s := range named {
			if s == false {
				named[name] = map[string]any{"not": map[string]any{}}
			}
		}
	}
	return out
}

// portable writes a list of types as a choice.
func portable(s map[string]any) map[string]any {
	types, ok := s["type"].([]any)
	if !ok {
		return s
	}
	out := map[string]any{}
	if d, ok := s["description"]; ok {
		out["description"] = d
		delete(s, "description")
	}
	var choice []any
	for _, t := range types {
		one := map[string]any{"type": t}
		if t != "null" {
			one = maps.Clone(s)
			one["type"] = t
		}
		choice = append(choice, one)
	}
	out["anyOf"] = choice
	return out
}

// statusTool is offered to callers who see a change.
func statusTool() (*tool, error) {
	output, err := outputOf(nil)
	if err != nil {
		return nil, err
	}
	no := false
	t := &tool{tool: &mcp.Tool{
		Name:  StatusTool,
		Title: "Look up an operation",
		Description: "Says what became of a change that was sent, by the operation_id of its result. " +
			"Use it when a result's effect is unknown or pending. It never sends the change again.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"operation_id":{"type":"string","minLength":1,"maxLength":512,` +
			`"description":"effect.operation_id of the result"}},"required":["operation_id"],"additionalProperties":false}`),
		OutputSchema: output,
		Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no},
	}}
	return t, t.encode()
}
