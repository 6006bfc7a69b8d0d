package functioncall

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall/dialect"
)

// A Vendor is a form of function calling. The zero Vendor is refused.
type Vendor string

const (
	OpenAIResponses   Vendor = "openai_responses"   // function_call and function_call_output items
	OpenAIChat        Vendor = "openai_chat"        // tool_calls and messages of the role tool
	AzureChat         Vendor = "azure_chat"         // like OpenAIChat, with narrower schemas in strict mode
	AnthropicMessages Vendor = "anthropic_messages" // tool_use and tool_result blocks
	GeminiGenerate    Vendor = "gemini_generate"    // functionCall and functionResponse parts of generateContent
	MistralChat       Vendor = "mistral_chat"       // like OpenAIChat, with ids of nine letters and digits
	BedrockConverse   Vendor = "bedrock_converse"   // toolUse and toolResult blocks
)

// rules are the dialects of each vendor; strict is nil where there is no such mode.
var rules = map[Vendor]struct{ plain, strict *dialect.Rules }{
	OpenAIResponses:   {dialect.OpenAI, dialect.OpenAIStrict},
	OpenAIChat:        {dialect.OpenAI, dialect.OpenAIStrict},
	AzureChat:         {dialect.Azure, dialect.AzureStrict},
	AnthropicMessages: {dialect.Anthropic, nil},
	GeminiGenerate:    {dialect.Gemini, nil},
	MistralChat:       {dialect.Mistral, nil},
	BedrockConverse:   {dialect.Bedrock, nil},
}

// isChat reports whether answers and outputs are messages with tool_calls.
func (v Vendor) isChat() bool { return v == OpenAIChat || v == AzureChat || v == MistralChat }

// A Loss is something that a model does not learn, because the vendor has no
// way to say it. Calls are held to it all the same.
type Loss = dialect.Loss

// project rewrites the input schema of one tool, in strict mode if that is asked
// for and possible.
func (v Vendor) project(name string, input json.RawMessage, strict bool) (p *dialect.Projection, isStrict bool, err error) {
	model, err := modelSchema(name, input)
	if err != nil {
		return nil, false, err
	}
	r := rules[v]
	if !strict || r.strict == nil {
		p, err = r.plain.Project(name, model)
		return p, false, err
	}
	p, err = r.strict.Project(name, model)
	if !errors.Is(err, dialect.ErrNotStrict) {
		return p, err == nil, err
	}
	why := strings.TrimPrefix(err.Error(), dialect.ErrNotStrict.Error()+": ")
	if p, err = r.plain.Project(name, model); err != nil {
		return nil, false, err
	}
	p.Losses = append([]Loss{{Tool: name, Kind: dialect.NotStrict, What: "strict mode is off: " + why}}, p.Losses...)
	return p, false, nil
}

// modelSchema returns an input schema as a model sees it.
func modelSchema(name string, input json.RawMessage) (json.RawMessage, error) {
	if name == StatusTool { // whose argument no capability may have
		return input, nil
	}
	if input == nil {
		input = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	s, err := schema.Parse(input, true)
	if err != nil {
		return nil, err
	}
	return s.Model(), nil
}

// definition writes a tool in the vendor's form.
func (v Vendor) definition(name, description string, p *dialect.Projection, strict bool) (json.RawMessage, error) {
	f := function{Name: name, Description: description, Parameters: p.Schema}
	switch v {
	case OpenAIResponses:
		return json.Marshal(responsesTool{"function", name, description, p.Schema, strict})
	case OpenAIChat, AzureChat:
		f.Strict = &strict
		return json.Marshal(chatTool{"function", f})
	case MistralChat:
		return json.Marshal(chatTool{"function", f})
	case GeminiGenerate:
		if props, _ := p.Schema["properties"].(map[string]any); len(props) == 0 {
			f.Parameters = nil // an object without properties is refused
		}
		return json.Marshal(f)
	case BedrockConverse:
		return json.Marshal(map[string]any{"toolSpec": map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"json": p.Schema}}})
	}
	return json.Marshal(anthropicTool{name, description, p.Schema})
}

type responsesTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
	Strict      bool           `json:"strict"` // always said: left out it means true
}

type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters,omitempty"`
	Strict      *bool          `json:"strict,omitempty"`
}

type chatTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type anthropicTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema map[string]any `json:"input_schema"`
}

// answer writes what the vendor hears about a call.
func (v Vendor) answer(c Call, text string, failed bool) (json.RawMessage, error) {
	switch {
	case v == OpenAIResponses:
		return json.Marshal(openAIOutput{"function_call_output", c.ID, text})
	case v.isChat():
		m := chatOutput{Role: "tool", ToolCallID: c.ID, Content: text}
		if v == MistralChat {
			m.Name = c.Tool
		}
		return json.Marshal(m)
	case v == GeminiGenerate:
		said := map[string]string{"output": text}
		if failed {
			said = map[string]string{"error": text}
		}
		id := c.ID
		if c.unnamed {
			id = ""
		}
		return json.Marshal(map[string]any{"functionResponse": geminiOutput{id, c.Tool, said}})
	case v == BedrockConverse:
		status := map[bool]string{false: "success", true: "error"}[failed]
		return json.Marshal(map[string]any{"toolResult": bedrockOutput{c.ID, []map[string]string{{"text": text}}, status}})
	}
	return json.Marshal(anthropicOutput{"tool_result", c.ID, text, failed})
}

type openAIOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

type chatOutput struct {
	Role       string `json:"role"`
	ToolCallID string `json:"tool_call_id"`
	Name       string `json:"name,omitempty"`
	Content    string `json:"content"`
}

type geminiOutput struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type bedrockOutput struct {
	ToolUseID string              `json:"toolUseId"`
	Content   []map[string]string `json:"content"`
	Status    string              `json:"status"`
}

type anthropicOutput struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content"`
	IsError   bool   `json:"is_error"`
}

// CallIDs returns ids that the vendor takes for the calls of a conversation that
// another vendor's model began, no two alike: the ids themselves, if it takes
// them, and otherwise ones made of their digests. A host that sends such a history
// replaces every id in it and keeps its own for audit and operations. The error is
// two ids that are alike.
func (v Vendor) CallIDs(ids []string) (map[string]string, error) {
	out, taken := map[string]string{}, map[string]string{}
	for _, id := range ids {
		local := v.callID(id)
		if other, ok := taken[local]; ok {
			return nil, fmt.Errorf("functioncall: call %q cannot be told from %q", id, other)
		}
		out[id], taken[local] = local, id
	}
	return out, nil
}

func (v Vendor) callID(id string) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	takes := dialect.Naming{Chars: "_-", Max: 40} // the shortest bound of the others
	length := 24
	if v == MistralChat {
		takes, length = dialect.Naming{Max: 9}, 9
	}
	if takes.Takes(id) && (v != MistralChat || len(id) == length) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	out := make([]byte, length)
	for i := range out {
		out[i] = digits[int(sum[i])%len(digits)]
	}
	return string(out)
}
