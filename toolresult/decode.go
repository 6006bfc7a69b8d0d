package toolresult

import (
	"bytes"
	"encoding"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The decoders read what a peer sent. They take a text as a whole or not at
// all: UTF-8, no name twice in any object, known names spelled exactly
// (encoding/json takes "Status" for "status", so that a peer would read
// something else), values of the right type, bounded nesting. They do not
// judge what the text means; Validate does.
//
// A decoded text costs memory in proportion to its length. Its length is the
// transport's to bound.

// decode checks text as a whole and then reads it. Its error is a
// CONTRACT_VIOLATION that points at what is wrong.
func decode(text []byte, read func([]byte) *Problem) error {
	var p *Problem
	if why := unfit(text); why != "" {
		p = &Problem{Text: why}
	} else {
		p = read(text)
	}
	if p == nil {
		return nil
	}
	e := NewError(ContractViolation, "the text is not the JSON form of a tool result; nothing of it was read")
	e.Problems = []Problem{*p}
	return e
}

// below adds a step in front of the pointer of p.
func below(name string, p *Problem) *Problem {
	if p != nil {
		p.Pointer = "/" + name + p.Pointer
	}
	return p
}

// members calls take for each member of an object whose name is in known, and
// returns the others sorted by name. A null is the same as absence, but for
// data.
func members(text []byte, known []string, take func(name string, value []byte) *Problem) ([]member, *Problem) {
	i := space(text, 0)
	if text[i] != '{' {
		return nil, &Problem{Text: "is not an object"}
	}
	var rest []member
	for i = space(text, i+1); text[i] != '}'; {
		end := stringEnd(text, i)
		name := string(unquote(text[i:end]))
		i = space(text, space(text, end)+1) // after the colon
		end = valueEnd(text, i)
		value := text[i:end]
		if i = space(text, end); text[i] == ',' {
			i = space(text, i+1)
		}
		switch {
		case !slices.Contains(known, name):
			if k := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); k >= 0 {
				return nil, &Problem{"/" + known[k], "is also there in another case"}
			}
			rest = append(rest, member{name, bytes.Clone(value)})
		case string(value) == "null" && name != "data":
		default:
			if p := take(name, value); p != nil {
				return nil, below(name, p)
			}
		}
	}
	slices.SortFunc(rest, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return rest, nil
}

// elements calls take for each element of an array.
func elements(text []byte, take func(value []byte) *Problem) *Problem {
	i := space(text, 0)
	if text[i] != '[' {
		return &Problem{Text: "is not an array"}
	}
	for n, i := 0, space(text, i+1); text[i] != ']'; n++ {
		end := valueEnd(text, i)
		if p := take(text[i:end]); p != nil {
			return below(strconv.Itoa(n), p)
		}
		if i = space(text, end); text[i] == ',' {
			i = space(text, i+1)
		}
	}
	return nil
}

func readString[S ~string](value []byte, to *S) *Problem {
	if value[0] != '"' {
		return &Problem{Text: "is not a string"}
	}
	*to = S(unquote(value))
	return nil
}

// readLine bounds what it reads to one line.
func readLine[S ~string](value []byte, to *S, limit int) *Problem {
	p := readString(value, to)
	*to = S(oneLine(string(*to), limit))
	return p
}

// readList reads an array of strings.
func readList[S ~string](value []byte, to *[]S) *Problem {
	return elements(value, func(v []byte) *Problem {
		var s S
		p := readString(v, &s)
		*to = append(*to, s)
		return p
	})
}

func readWord(value []byte, to encoding.TextUnmarshaler) *Problem {
	var s string
	if p := readString(value, &s); p != nil {
		return p
	}
	_ = to.UnmarshalText([]byte(s)) // the words of this package never fail
	return nil
}

func readBool(value []byte, to *bool) *Problem {
	*to = value[0] == 't'
	if !*to && value[0] != 'f' {
		return &Problem{Text: "is not true or false"}
	}
	return nil
}

// readInt rounds up and holds the number between 0 and limit.
func readInt(value []byte, limit float64) (int64, *Problem) {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, &Problem{Text: "is not a number"}
	}
	return int64(min(max(math.Ceil(f), 0), limit)), nil
}

func readTime(value []byte, to *time.Time) *Problem {
	var s string
	if p := readString(value, &s); p != nil {
		return p
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(s)); err != nil || !writable(t) {
		return &Problem{Text: "is not a time in RFC 3339 form"}
	}
	*to = t.UTC()
	return nil
}

var resultNames = []string{"call_id", "status", "summary", "data", "data_ref", "coverage", "effect", "truncated", "next_cursor", "error", "provenance", "verification_state"}

// UnmarshalJSON implements [json.Unmarshaler]. Names are matched exactly and
// members it does not know are kept. A text that is refused leaves a zero
// Result, which is invalid, and gives a CONTRACT_VIOLATION. What is accepted
// need not be valid: ask [Result.Validate] or [Result.Meaning].
//
// Provenance.Trust is then what the sender claims; whoever decodes a peer's
// result sets it.
func (r *Result) UnmarshalJSON(text []byte) error {
	var n Result
	err := decode(text, n.read)
	if err != nil {
		n = Result{}
	}
	*r = n
	return err
}

func (r *Result) read(text []byte) (p *Problem) {
	r.unknown, p = members(text, resultNames, func(name string, v []byte) *Problem {
		switch name {
		case "call_id":
			return readString(v, &r.CallID)
		case "status":
			return readString(v, &r.Status)
		case "summary":
			return readString(v, &r.Summary)
		case "data":
			r.Data = bytes.Clone(v)
			return nil
		case "data_ref":
			return readString(v, &r.DataRef)
		case "coverage":
			return r.Coverage.read(v)
		case "effect":
			return r.Effect.read(v)
		case "truncated":
			return readBool(v, &r.Truncated)
		case "next_cursor":
			return readString(v, &r.NextCursor)
		case "error":
			r.Error = &Error{}
			return r.Error.read(v)
		case "provenance":
			return r.Provenance.read(v, 0)
		}
		return readWord(v, &r.Verification)
	})
	return p
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Coverage) UnmarshalJSON(text []byte) error {
	*c = Coverage{}
	return decode(text, c.read)
}

func (c *Coverage) read(text []byte) *Problem {
	_, p := members(text, []string{"complete", "missing"}, func(name string, v []byte) *Problem {
		if name == "complete" {
			return readBool(v, &c.Complete)
		}
		return readList(v, &c.Missing)
	})
	return p
}

// UnmarshalJSON implements [json.Unmarshaler].
func (x *Effect) UnmarshalJSON(text []byte) error {
	*x = Effect{}
	return decode(text, x.read)
}

func (x *Effect) read(text []byte) *Problem {
	_, p := members(text, []string{"disposition", "operation_id"}, func(name string, v []byte) *Problem {
		if name == "disposition" {
			return readWord(v, &x.Disposition)
		}
		return readString(v, &x.OperationID)
	})
	return p
}

var errorNames = []string{"code", "message", "retryable", "retry_after_seconds", "actor", "next_step", "problems", "connect", "approval", "diagnostics"}

// UnmarshalJSON implements [json.Unmarshaler]. Message, Problems and
// Diagnostics are the sender's text: each string is cut to one line within its
// bound, and [Result.Text] shows them as the sender's. Actor and next step
// follow from the code and are not read.
func (e *Error) UnmarshalJSON(text []byte) error {
	*e = Error{}
	return decode(text, e.read)
}

func (e *Error) read(text []byte) (p *Problem) {
	e.foreign = true
	e.unknown, p = members(text, errorNames, func(name string, v []byte) *Problem {
		switch name {
		case "code":
			return readString(v, &e.Code)
		case "message":
			return readLine(v, &e.Message, maxMessage)
		case "retryable":
			return readBool(v, &e.Retryable)
		case "retry_after_seconds":
			seconds, p := readInt(v, maxRetrySeconds)
			e.RetryAfter = time.Duration(seconds) * time.Second
			return p
		case "problems":
			return elements(v, func(v []byte) *Problem {
				e.Problems = append(e.Problems, Problem{})
				return e.Problems[len(e.Problems)-1].read(v)
			})
		case "connect":
			e.Connect = &ConnectStep{}
			return e.Connect.read(v)
		case "approval":
			e.Approval = &ApprovalStep{}
			return e.Approval.read(v)
		case "diagnostics":
			return e.Diagnostics.read(v)
		}
		return nil // actor, next_step
	})
	return p
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Problem) UnmarshalJSON(text []byte) error {
	*p = Problem{}
	return decode(text, p.read)
}

func (p *Problem) read(text []byte) *Problem {
	_, bad := members(text, []string{"pointer", "text"}, func(name string, v []byte) *Problem {
		if name == "pointer" {
			return readLine(v, &p.Pointer, maxMessage)
		}
		return readLine(v, &p.Text, maxMessage)
	})
	return bad
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *ConnectStep) UnmarshalJSON(text []byte) error {
	*s = ConnectStep{}
	return decode(text, s.read)
}

func (s *ConnectStep) read(text []byte) *Problem {
	_, p := members(text, []string{"provider", "url", "missing_scopes", "expires_at"}, func(name string, v []byte) *Problem {
		switch name {
		case "provider":
			return readString(v, &s.Provider)
		case "url":
			return readString(v, &s.URL)
		case "missing_scopes":
			return readList(v, &s.Missing)
		}
		return readTime(v, &s.Expires)
	})
	return p
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *ApprovalStep) UnmarshalJSON(text []byte) error {
	*s = ApprovalStep{}
	return decode(text, s.read)
}

func (s *ApprovalStep) read(text []byte) *Problem {
	_, p := members(text, []string{"id", "url", "digest", "rendering", "expires_at"}, func(name string, v []byte) *Problem {
		switch name {
		case "id":
			return readString(v, &s.ID)
		case "url":
			return readString(v, &s.URL)
		case "digest":
			return readString(v, &s.Digest)
		case "rendering":
			return readString(v, &s.Rendering)
		}
		return readTime(v, &s.Expires)
	})
	return p
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Diagnostics) UnmarshalJSON(text []byte) error {
	*d = Diagnostics{}
	return decode(text, d.read)
}

func (d *Diagnostics) read(text []byte) *Problem {
	_, p := members(text, []string{"provider", "provider_code", "provider_request_id", "http_status", "untrusted_text"}, func(name string, v []byte) *Problem {
		switch name {
		case "provider":
			return readString(v, &d.Provider)
		case "provider_code":
			return readString(v, &d.ProviderCode)
		case "provider_request_id":
			return readString(v, &d.RequestID)
		case "untrusted_text":
			return readString(v, &d.ProviderText)
		}
		status, p := readInt(v, maxStatus)
		d.HTTPStatus = int(status)
		return p
	})
	*d = d.Bounded()
	return p
}

var provenanceNames = []string{"service", "object", "source_version", "source_url", "window", "fetched_at", "provider_request_id", "trust", "sources"}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Provenance) UnmarshalJSON(text []byte) error {
	*p = Provenance{}
	return decode(text, func(text []byte) *Problem { return p.read(text, 0) })
}

func (p *Provenance) read(text []byte, depth int) (bad *Problem) {
	if depth > maxSources {
		return &Problem{Text: "is nested too deeply"}
	}
	p.unknown, bad = members(text, provenanceNames, func(name string, v []byte) *Problem {
		switch name {
		case "service":
			return readString(v, &p.Service)
		case "object":
			return readString(v, &p.Object)
		case "source_version":
			return readString(v, &p.Version)
		case "source_url":
			return readString(v, &p.URL)
		case "window":
			return readWord(v, &p.Window)
		case "fetched_at":
			return readTime(v, &p.FetchedAt)
		case "provider_request_id":
			return readString(v, &p.RequestID)
		case "trust":
			return readWord(v, &p.Trust)
		}
		return elements(v, func(v []byte) *Problem {
			p.Sources = append(p.Sources, Provenance{})
			return p.Sources[len(p.Sources)-1].read(v, depth+1)
		})
	})
	return bad
}

var _ interface {
	json.Marshaler
	json.Unmarshaler
} = (*Result)(nil)
