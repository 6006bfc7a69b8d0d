package functioncall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Stream puts an answer together that arrives in pieces. Each call's arguments
// come as fragments, those of parallel calls in any order; what a fragment belongs
// to is said by its place in the answer and never guessed.
//
//	s := functioncall.NewStream(functioncall.OpenAIChat)
//	for data := range events {
//		if err := s.Add(data); err != nil { ... }
//	}
//	answer, err := s.Answer()
//	turn, err := functioncall.Dispatch(ctx, inv, alice, functioncall.OpenAIChat, answer, opts)
//
// A Stream is for one answer and one goroutine.
type Stream struct {
	vendor Vendor
	parts  []*part
	size   int
	ended  bool
	reason string // why the model stopped
	id     string
	err    error
}

// part is one item, block or call of the answer.
type part struct {
	index int
	item  map[string]json.RawMessage // as it began
	text  strings.Builder            // fragments of arguments
	done  bool
}

// NewStream begins an answer of a vendor.
func NewStream(v Vendor) *Stream { return &Stream{vendor: v} }

// Errors of a Stream. Once one has occurred, every later call returns it.
var (
	errEvent   = errors.New("functioncall: an event of the stream is not JSON of the vendor's form")
	errTooLong = fmt.Errorf("functioncall: the answer is over %d bytes", maxAnswer)
	errEarly   = errors.New("functioncall: the stream ended before the answer did; nothing of it has run: ask the model again")
	errPlace   = errors.New("functioncall: a fragment of the stream belongs to no call")
	errFailed  = errors.New("functioncall: the vendor ended the answer with an error; ask the model again")
)

// Add takes the data of one event: what follows "data:" in an event stream, or a
// frame of Bedrock's as {"contentBlockDelta": {...}}. Events about anything but
// calls are passed over, and so is "[DONE]".
func (s *Stream) Add(data []byte) error {
	if s.err == nil {
		s.err = s.add(data)
	}
	return s.err
}

func (s *Stream) add(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) == 0 || string(data) == "[DONE]" {
		return nil
	}
	if s.size += len(data); s.size > maxAnswer {
		return errTooLong
	}
	switch {
	case rules[s.vendor].plain == nil:
		return errors.New("functioncall: the vendor is not one of this package's constants")
	case s.vendor == OpenAIResponses:
		return s.responses(data)
	case s.vendor.isChat():
		return s.chat(data)
	case s.vendor == GeminiGenerate:
		return s.gemini(data)
	case s.vendor == BedrockConverse:
		return s.bedrock(data)
	}
	return s.anthropic(data)
}

// at returns the part of a place, which is new if it may be.
func (s *Stream) at(index int, begins bool) (*part, error) {
	if i := slices.IndexFunc(s.parts, func(p *part) bool { return p.index == index }); i >= 0 {
		return s.parts[i], nil
	}
	if !begins {
		return nil, errPlace
	}
	if len(s.parts) >= 8*maxCalls {
		return nil, errTooLong
	}
	p := &part{index: index, item: map[string]json.RawMessage{}}
	s.parts = append(s.parts, p)
	return p, nil
}

// fragment adds to the arguments of a part.
func (s *Stream) fragment(index int, text string) error {
	p, err := s.at(index, false)
	if err != nil {
		return err
	}
	p.text.WriteString(text)
	return nil
}

func (s *Stream) responses(data []byte) error {
	var e struct {
		Type      string                     `json:"type"`
		Index     int                        `json:"output_index"`
		Item      map[string]json.RawMessage `json:"item"`
		Delta     json.RawMessage            `json:"delta"`
		Arguments *string                    `json:"arguments"`
	}
	if json.Unmarshal(data, &e) != nil {
		return errEvent
	}
	switch e.Type {
	case "response.output_item.added", "response.output_item.done":
		p, err := s.at(e.Index, true)
		if err != nil {
			return err
		}
		if e.Item != nil {
			p.item = e.Item
		}
		p.done = e.Type == "response.output_item.done"
	case "response.function_call_arguments.delta":
		var text string
		if json.Unmarshal(e.Delta, &text) != nil {
			return errEvent
		}
		return s.fragment(e.Index, text)
	case "response.completed", "response.incomplete":
		s.ended = true
	case "response.failed", "error":
		return errFailed
	}
	return nil
}

func (s *Stream) chat(data []byte) error {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Choices []struct {
			Index int `json:"index"`
			Delta struct {
				Calls []struct {
					Index    *int   `json:"index"`
					ID       string `json:"id"`
					Function struct {
						Name      string          `json:"name"`
						Arguments json.RawMessage `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"delta"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
	}
	switch {
	case json.Unmarshal(data, &e) != nil:
		return errEvent
	case len(e.Error) > 0 && string(e.Error) != "null":
		return errFailed
	}
	for _, c := range e.Choices {
		if c.Index != 0 {
			return errChoices
		}
		for _, call := range c.Delta.Calls {
			index := len(s.parts) // Mistral sends whole calls, and may leave the place out
			if call.Index != nil {
				index = *call.Index
			} else if s.vendor != MistralChat {
				return errPlace
			}
			if err := s.chatCall(index, call.ID, call.Function.Name, call.Function.Arguments); err != nil {
				return err
			}
		}
		if c.Finish != "" {
			s.ended, s.reason = true, c.Finish
		}
	}
	return nil
}

func (s *Stream) chatCall(index int, id, name string, raw json.RawMessage) error {
	p, err := s.at(index, id != "" || name != "")
	if err != nil {
		return err
	}
	for k, v := range map[string]string{"id": id, "name": name} {
		if old, ok := p.item[k]; v != "" && (!ok || len(old) == 0) {
			p.item[k] = quote(v)
		} else if v != "" && string(old) != string(quote(v)) {
			return errPlace // another call in the place of this one
		}
	}
	text, err := inString(raw, s.vendor == MistralChat)
	if err != nil {
		return errEvent
	}
	p.text.Write(text)
	return nil
}

func (s *Stream) anthropic(data []byte) error {
	var e struct {
		Type  string                     `json:"type"`
		Index int                        `json:"index"`
		Block map[string]json.RawMessage `json:"content_block"`
		Delta struct {
			Type   string `json:"type"`
			JSON   string `json:"partial_json"`
			Reason string `json:"stop_reason"`
		} `json:"delta"`
	}
	if json.Unmarshal(data, &e) != nil {
		return errEvent
	}
	switch e.Type {
	case "content_block_start":
		p, err := s.at(e.Index, true)
		if err == nil && e.Block != nil {
			p.item = e.Block
		}
		return err
	case "content_block_delta":
		if e.Delta.Type == "input_json_delta" {
			return s.fragment(e.Index, e.Delta.JSON)
		}
	case "message_delta":
		s.reason = e.Delta.Reason
	case "message_stop":
		s.ended = true
	case "error":
		return errFailed
	}
	return nil
}

func (s *Stream) bedrock(data []byte) error {
	var e struct {
		Start *struct {
			Index int `json:"contentBlockIndex"`
			Start struct {
				ToolUse map[string]json.RawMessage `json:"toolUse"`
			} `json:"start"`
		} `json:"contentBlockStart"`
		Delta *struct {
			Index int `json:"contentBlockIndex"`
			Delta struct {
				ToolUse *struct {
					Input string `json:"input"`
				} `json:"toolUse"`
			} `json:"delta"`
		} `json:"contentBlockDelta"`
		Stop *struct {
			Reason string `json:"stopReason"`
		} `json:"messageStop"`
	}
	var kinds map[string]json.RawMessage
	if json.Unmarshal(data, &e) != nil || json.Unmarshal(data, &kinds) != nil {
		return errEvent
	}
	for k := range kinds {
		if strings.HasSuffix(k, "Exception") {
			return errFailed
		}
	}
	switch {
	case e.Start != nil && e.Start.Start.ToolUse != nil:
		p, err := s.at(e.Start.Index, true)
		if err == nil {
			p.item = e.Start.Start.ToolUse
		}
		return err
	case e.Delta != nil && e.Delta.Delta.ToolUse != nil:
		return s.fragment(e.Delta.Index, e.Delta.Delta.ToolUse.Input)
	case e.Stop != nil:
		s.ended, s.reason = true, e.Stop.Reason
	}
	return nil
}

// gemini sends whole parts.
func (s *Stream) gemini(data []byte) error {
	var e whole
	var failed struct {
		Error json.RawMessage `json:"error"`
	}
	switch {
	case json.Unmarshal(data, &e) != nil || json.Unmarshal(data, &failed) != nil:
		return errEvent
	case len(failed.Error) > 0:
		return errFailed
	case len(e.Candidates) > 1:
		return errChoices
	}
	if s.id == "" {
		s.id = e.ResponseID
	}
	for _, c := range e.Candidates {
		for _, raw := range c.Content.Parts {
			p, err := s.at(len(s.parts), true)
			if err != nil {
				return err
			}
			if json.Unmarshal(raw, &p.item) != nil {
				return errEvent
			}
		}
		if c.Finish != "" {
			s.ended, s.reason = true, c.Finish
		}
	}
	return nil
}

// Answer returns the answer in the vendor's form, for [Dispatch] and [ParseCalls].
// It holds the calls and no other text. A stream that has not ended is an error:
// of an answer that is not whole nothing may run.
func (s *Stream) Answer() ([]byte, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case !s.ended:
		return nil, errEarly
	}
	slices.SortStableFunc(s.parts, func(a, b *part) int { return a.index - b.index })
	list := []any{}
	for _, p := range s.parts {
		list = append(list, s.written(p))
	}
	switch {
	case s.vendor == OpenAIResponses:
		return json.Marshal(map[string]any{"output": list})
	case s.vendor.isChat():
		return json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"tool_calls": list}, "finish_reason": s.reason}}})
	case s.vendor == GeminiGenerate:
		return json.Marshal(map[string]any{"responseId": s.id, "candidates": []any{map[string]any{"content": map[string]any{"parts": list}, "finishReason": s.reason}}})
	case s.vendor == BedrockConverse:
		return json.Marshal(map[string]any{"output": map[string]any{"message": map[string]any{"content": list}}, "stopReason": s.reason})
	}
	return json.Marshal(map[string]any{"content": list, "stop_reason": s.reason})
}

// written is one part of the answer, whole.
func (s *Stream) written(p *part) any {
	text := p.text.String()
	switch {
	case s.vendor == OpenAIResponses:
		if string(p.item["type"]) == `"function_call"` && !p.done {
			p.item["arguments"], p.item["status"] = quote(text), quote("incomplete")
		}
	case s.vendor.isChat():
		return map[string]any{"id": p.item["id"], "type": "function", "function": map[string]any{"name": p.item["name"], "arguments": text}}
	case s.vendor == BedrockConverse:
		p.item["input"] = arguments(text, p.item["input"])
		return map[string]any{"toolUse": p.item}
	case s.vendor == AnthropicMessages && string(p.item["type"]) == `"tool_use"`:
		p.item["input"] = arguments(text, p.item["input"])
	}
	return p.item
}

// arguments are what the fragments say, or what the block began with. What is no
// JSON stays text, and does not fit.
func arguments(text string, begun json.RawMessage) json.RawMessage {
	switch {
	case text == "" && len(begun) > 0:
		return begun
	case text == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return quote(text)
}

func quote(s string) json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil { // a string always has a form
		return json.RawMessage(`""`)
	}
	return text
}
