package functioncall

import (
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

	cut     bool // the model was stopped in the middle of it
	unnamed bool // the vendor gave it no id
}

const (
	maxAnswer = 8 << 20 // bytes
	maxCalls  = 128
	maxID     = 256 // bytes
)

// ParseCalls returns the calls in a model's answer, in its order. text is the
// whole answer of the vendor's API, or only the list in it: output, tool_calls,
// content or parts. Everything that is no call is passed over.
//
// Gemini need not give a call an id. It then gets one of the answer's responseId and
// its place, so that the whole answer is needed.
//
// An answer that cannot be read as a whole is an error, and so are a call without
// an id or a name, two calls with one id, over 128 calls, and over 8 MiB: nothing
// can be answered then. What is wrong with one call alone is left to [Dispatch].
func ParseCalls(v Vendor, text []byte) ([]Call, error) {
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("functioncall: the answer is over %d bytes", maxAnswer)
	}
	items, err := v.items(text)
	if err != nil {
		return nil, err
	}
	return v.calls(items)
}

func (v Vendor) calls(in *items) ([]Call, error) {
	var out []Call
	seen := map[string]bool{}
	for i, raw := range in.list {
		c, is, err := v.call(raw)
		if err == nil && is && c.ID == "" && in.id != "" {
			c.ID, c.unnamed = fmt.Sprintf("%s-%d", in.id, len(out)), true
		}
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
		c.cut = c.cut || in.stopped && i == len(in.list)-1
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
