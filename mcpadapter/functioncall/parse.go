package functioncall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
)

// A Call is what a model asks for.
type Call struct {
	ID         string          // the vendor's
	Tool       string          // as the model wrote it
	Capability string          // "" if no capability can be called so
	Arguments  json.RawMessage // as the model wrote them; they may be anything

	cut bool // the model was stopped in the middle of it
}

const (
	maxAnswer = 8 << 20 // bytes
	maxCalls  = 128
	maxID     = 256 // bytes
)

// ParseCalls returns the calls in a model's answer, in its order. text is the
// whole answer of the vendor's API, or only the list in it: the items of output
// for OpenAI, the blocks of content for Anthropic. Everything that is no call
// is passed over.
//
// An answer that cannot be read as a whole is an error, and so are a call without
// an id or a name, two calls with one id, over 128 calls, and over 8 MiB: nothing
// can be answered then. What is wrong with one call alone is left to [Dispatch].
func ParseCalls(v Vendor, text []byte) ([]Call, error) {
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("functioncall: the answer is over %d bytes", maxAnswer)
	}
	items, stopped, err := v.items(text)
	if err != nil {
		return nil, err
	}
	var out []Call
	seen := map[string]bool{}
	for i, raw := range items {
		c, is, err := v.call(raw)
		if err == nil && is {
			err = c.check(seen)
		}
		if err != nil {
			return nil, fmt.Errorf("functioncall: item %d of the answer %w", i, err)
		}
		if !is {
			continue
		}
		c.Capability = capability(c.Tool)
		c.cut = c.cut || stopped && i == len(items)-1
		if out = append(out, c); len(out) > maxCalls {
			return nil, fmt.Errorf("functioncall: the answer holds over %d calls", maxCalls)
		}
	}
	return out, nil
}

func (c *Call) check(seen map[string]bool) error {
	switch {
	case c.ID == "" || len(c.ID) > maxID || !line(c.ID):
		return errors.New("is a call without an id of one line and at most 256 bytes")
	case seen[c.ID]:
		return errors.New("is a second call with the same id")
	case c.Tool == "":
		return errors.New("is a call without a name")
	}
	seen[c.ID] = true
	return nil
}

func line(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return true
}

// items returns the list in an answer, and whether the model was stopped while
// it wrote the last one.
func (v Vendor) items(text []byte) (items []json.RawMessage, stopped bool, err error) {
	var whole struct {
		Output     []json.RawMessage `json:"output"`  // OpenAI
		Content    []json.RawMessage `json:"content"` // Anthropic
		StopReason string            `json:"stop_reason"`
	}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '[' {
		err = json.Unmarshal(text, &items)
	} else if err = json.Unmarshal(text, &whole); err == nil {
		if items = whole.Content; v == OpenAIResponses {
			items = whole.Output
		}
		stopped = whole.StopReason == "max_tokens"
	}
	switch {
	case err != nil:
		return nil, false, errors.New("functioncall: the answer is not JSON of the vendor's form")
	case items == nil:
		return nil, false, errors.New("functioncall: the answer holds no list of items; give the whole answer, or its output or content")
	}
	return items, stopped, nil
}

// call reads one item; is says whether it is a call.
func (v Vendor) call(raw json.RawMessage) (c Call, is bool, err error) {
	var item struct {
		Type      string          `json:"type"`
		Name      string          `json:"name"`
		CallID    string          `json:"call_id"`   // OpenAI
		Arguments *string         `json:"arguments"` // OpenAI: JSON in a string
		Status    string          `json:"status"`    // OpenAI
		ID        string          `json:"id"`        // Anthropic
		Input     json.RawMessage `json:"input"`     // Anthropic
	}
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &kind) != nil {
		return c, false, errors.New("is not an object with a type")
	}
	if want := map[Vendor]string{OpenAIResponses: "function_call", AnthropicMessages: "tool_use"}[v]; kind.Type != want {
		return c, false, nil
	}
	if json.Unmarshal(raw, &item) != nil {
		return c, true, errors.New("is a call with members of the wrong type")
	}
	if v == AnthropicMessages {
		return Call{ID: item.ID, Tool: item.Name, Arguments: item.Input}, true, nil
	}
	c = Call{ID: item.CallID, Tool: item.Name, cut: item.Status != "" && item.Status != "completed"}
	if item.Arguments != nil {
		c.Arguments = json.RawMessage(*item.Arguments)
	}
	return c, true, nil
}
