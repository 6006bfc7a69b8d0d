package functioncall

import (
	"bytes"
	"encoding/json"
	"errors"
)

// items are what an answer consists of.
type items struct {
	list    []json.RawMessage
	stopped bool   // the model was stopped while it wrote the last one
	id      string // of the answer, where calls may have none
}

// whole is the answer of any vendor, of which each fills in its own members.
type whole struct {
	Output     json.RawMessage   `json:"output"`  // OpenAI's Responses: a list; Bedrock: an object
	Content    []json.RawMessage `json:"content"` // Anthropic
	StopReason string            `json:"stop_reason"`
	Stop       string            `json:"stopReason"` // Bedrock
	Choices    []struct {        // Chat
		Message *struct {
			Calls []json.RawMessage `json:"tool_calls"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Candidates []struct { // Gemini
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		Finish string `json:"finishReason"`
	} `json:"candidates"`
	ResponseID string `json:"responseId"`
}

var (
	errForm    = errors.New("functioncall: the answer is not JSON of the vendor's form")
	errNoList  = errors.New("functioncall: the answer holds no list of items; give the whole answer, or the list of calls, blocks or parts in it")
	errChoices = errors.New("functioncall: the answer holds several alternatives; choose one, and give its list")
)

func (v Vendor) items(text []byte) (*items, error) {
	out := &items{}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '[' {
		if json.Unmarshal(text, &out.list) != nil {
			return nil, errForm
		}
		return out, nil
	}
	var w whole
	if json.Unmarshal(text, &w) != nil {
		return nil, errForm
	}
	if err := v.open(&w, out); err != nil {
		return nil, err
	}
	if out.list == nil {
		return nil, errNoList
	}
	return out, nil
}

// open finds the list of one vendor's answer.
func (v Vendor) open(w *whole, out *items) error {
	switch {
	case v == OpenAIResponses:
		if len(w.Output) > 0 && json.Unmarshal(w.Output, &out.list) != nil {
			return errForm
		}
	case v == BedrockConverse:
		var in struct {
			Message struct {
				Content []json.RawMessage `json:"content"`
			} `json:"message"`
		}
		if len(w.Output) > 0 && json.Unmarshal(w.Output, &in) != nil {
			return errForm
		}
		out.list, out.stopped = in.Message.Content, w.Stop == "max_tokens" || w.Stop == "model_context_window_exceeded"
	case v.isChat():
		if len(w.Choices) > 1 {
			return errChoices
		}
		for _, c := range w.Choices {
			if c.Message == nil {
				return errNoList
			}
			out.list, out.stopped = orEmpty(c.Message.Calls), c.Finish == "length" || c.Finish == "content_filter" || c.Finish == "model_length" || c.Finish == "error"
		}
	case v == GeminiGenerate:
		if len(w.Candidates) > 1 {
			return errChoices
		}
		for _, c := range w.Candidates {
			out.list, out.stopped = orEmpty(c.Content.Parts), c.Finish != "" && c.Finish != "STOP"
		}
		out.id = w.ResponseID
	default:
		out.list, out.stopped = w.Content, w.StopReason == "max_tokens" || w.StopReason == "model_context_window_exceeded"
	}
	return nil
}

func orEmpty(list []json.RawMessage) []json.RawMessage {
	if list == nil {
		return []json.RawMessage{} // an answer without calls
	}
	return list
}

// block is an item of any vendor.
type block struct {
	Type      string          `json:"type"`
	Name      string          `json:"name"`
	CallID    string          `json:"call_id"`   // OpenAI's Responses
	Arguments json.RawMessage `json:"arguments"` // likewise: JSON in a string
	Status    string          `json:"status"`    // likewise
	ID        string          `json:"id"`        // Anthropic, Chat
	Input     json.RawMessage `json:"input"`     // Anthropic
	Function  *struct {       // Chat
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	FunctionCall *struct { // Gemini
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	ToolUse *struct { // Bedrock
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"toolUse"`
}

var (
	errItem    = errors.New("is not an object of the vendor's form")
	errMembers = errors.New("is a call with members of the wrong type")
)

// call reads one item; is says whether it is a call.
func (v Vendor) call(raw json.RawMessage) (c Call, is bool, err error) {
	var kind map[string]json.RawMessage
	if json.Unmarshal(raw, &kind) != nil || kind == nil {
		return c, false, errItem
	}
	if !v.isCall(kind) {
		return c, false, nil
	}
	var b block
	if json.Unmarshal(raw, &b) != nil || v.isChat() && b.Function == nil || v == GeminiGenerate && b.FunctionCall == nil || v == BedrockConverse && b.ToolUse == nil {
		return c, true, errMembers // also a name that is there twice, in other case
	}
	switch {
	case v == OpenAIResponses:
		c = Call{ID: b.CallID, Tool: b.Name, cut: b.Status != "" && b.Status != "completed"}
		c.Arguments, err = inString(b.Arguments, false)
	case v.isChat():
		c = Call{ID: b.ID, Tool: b.Function.Name}
		c.Arguments, err = inString(b.Function.Arguments, v == MistralChat)
	case v == GeminiGenerate:
		c = Call{ID: b.FunctionCall.ID, Tool: b.FunctionCall.Name, Arguments: b.FunctionCall.Args}
	case v == BedrockConverse:
		c = Call{ID: b.ToolUse.ID, Tool: b.ToolUse.Name, Arguments: b.ToolUse.Input}
	default:
		c = Call{ID: b.ID, Tool: b.Name, Arguments: b.Input}
	}
	return c, true, err
}

// isCall looks at what says the kind of an item, before anything else of it.
func (v Vendor) isCall(kind map[string]json.RawMessage) bool {
	var t string
	_ = json.Unmarshal(kind["type"], &t) // of another type: no call
	has := func(k string) bool { return len(kind[k]) > 0 && string(kind[k]) != "null" }
	switch {
	case v == OpenAIResponses:
		return t == "function_call"
	case v.isChat():
		return has("function")
	case v == GeminiGenerate:
		return has("functionCall")
	case v == BedrockConverse:
		return has("toolUse")
	}
	return t == "tool_use"
}

// inString reads arguments that are JSON in a string; some also send them as they
// are.
func inString(raw json.RawMessage, bare bool) (json.RawMessage, error) {
	var s *string
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		if bare {
			return raw, nil
		}
		return nil, errMembers
	}
	if s == nil {
		return nil, nil
	}
	return json.RawMessage(*s), nil
}
