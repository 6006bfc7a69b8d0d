package reads

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func schemas() []check.Check {
	return []check.Check{
		{
			ID: "schema/resolves-offline", Since: frozen, Modes: anyCall, Static: true, Kills: []string{"remote-ref"},
			Promise: "The schemas of arguments and answers are JSON Schema 2020-12 and need nothing from elsewhere.",
			Run: func(_ context.Context, s *check.Session) {
				for _, d := range s.Manifest.Capabilities {
					in, out := parsed(&d)
					s.Expect(in == nil, fmt.Sprintf("the arguments of %s: %v", d.Name, in), "a schema that a host can use")
					s.Expect(out == nil, fmt.Sprintf("the answer of %s: %v", d.Name, out), "a schema that a host can use")
				}
			},
		},
		{
			ID: "schema/closed-object", Since: frozen, Modes: anyCall, Static: true, Kills: []string{"open-schema"},
			Promise: "Arguments are an object that refuses members it does not know.",
			Run: func(_ context.Context, s *check.Session) {
				for _, d := range s.Manifest.Capabilities {
					var root struct {
						Type   string
						Closed json.RawMessage `json:"additionalProperties"`
					}
					err := json.Unmarshal(d.Input, &root)
					s.Expect(d.Input == nil || err == nil && root.Type == "object" && string(root.Closed) == "false", "the arguments of "+d.Name+" are "+string(d.Input), `"type":"object" and "additionalProperties":false`)
				}
			},
		},
		{
			ID: "schema/invalid-args-never-reach-provider", Since: frozen, Kills: []string{"no-arg-validation"},
			Promise: "Arguments that do not fit are refused with the place of the mistake, and nothing is sent.",
			Run:     runWrongArgs,
		},
		{
			ID: "schema/unknown-op-is-an-error", Since: frozen, Modes: anyCall, Kills: []string{"panic-unknown-op"},
			Promise: "A capability that does not exist is an error, not a panic and not another capability.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, name := range []string{"nope", "", s.Manifest.ID, s.Manifest.Capabilities[0].Name + "x", "../" + s.Manifest.Capabilities[0].Name} {
					c := check.Call{Capability: name, Args: `{}`}
					n := s.Requests()
					s.WantCode(c, s.Do(ctx, c), toolresult.CapabilityUnknown)
					s.WantNone(c, n)
				}
			},
		},
		{
			ID: "schema/output-validates", Since: frozen, Modes: anyCall, Own: true, Kills: []string{"undeclared-field"},
			Promise: "Every answer has the form that is declared for it.",
			Needs: func(s *check.Subject) string {
				for _, d := range s.Manifest.Capabilities {
					if d.Output != nil {
						return ""
					}
				}
				return "no capability declares the form of its answer"
			},
			Run: runOutput,
		},
		{
			ID: "schema/hostile-strings", Since: frozen, Needs: check.NeedsRoutes, Kills: []string{"path-concat"},
			Promise: "Whatever is in an argument stays inside of its own segment, parameter or field of the request.",
			Run:     runHostile,
		},
		{
			ID: "schema/numbers-exact", Since: frozen, Needs: needsRead, Kills: []string{"float64-ids"},
			Promise: "Whole numbers beyond 2^53 come out as the provider wrote them, or the call fails.",
			Run:     runNumbers,
		},
	}
}

// wrong makes arguments that do not fit: each differs from a sample in one thing.
func wrong(d *connector.Declaration, c check.Call) (out []check.Call) {
	var in struct {
		Required   []string
		Properties map[string]struct {
			Type      json.RawMessage
			MaxLength *int
			Maximum   *json.Number
		}
	}
	if json.Unmarshal(d.Input, &in) != nil {
		return nil
	}
	for _, name := range in.Required {
		out = append(out, c.WithArg(name, nil))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
		p := in.Properties[name]
		out = append(out, c.WithArg(name, json.RawMessage(`{"an":"object"}`)), c.WithArg(name, json.RawMessage(`[[]]`)))
		if !bytes.Contains(p.Type, []byte(`"null"`)) {
			out = append(out, c.WithArg(name, json.RawMessage(`null`)))
		}
		if p.MaxLength != nil && *p.MaxLength < 100_000 {
			out = append(out, c.WithArg(name, json.RawMessage(`"`+strings.Repeat("x", *p.MaxLength+1)+`"`)))
		}
		if p.Maximum != nil {
			out = append(out, c.WithArg(name, json.RawMessage(p.Maximum.String()+"0")))
		}
	}
	out = append(out, c.WithArg("no_such_argument", json.RawMessage(`true`)))
	for _, text := range []string{`[]`, `"text"`, `{`, `null`, `{"a":1,"a":2}`} {
		whole := c
		whole.Args = text
		out = append(out, whole)
	}
	return out
}

func runWrongArgs(ctx context.Context, s *check.Session) {
	for _, c := range s.Calls() {
		for _, w := range wrong(s.Declaration(c.Capability), c) {
			n := s.Requests()
			r := s.Do(ctx, w)
			if s.Expect(toolresult.Code(r.Err()) == toolresult.InvalidInput, c.Capability+" with "+clip(w.Args)+": "+s.Describe(r), "INVALID_INPUT") && json.Valid([]byte(w.Args)) && w.Args[0] == '{' {
				s.Expect(len(r.Error.Problems) > 0, c.Capability+" with "+clip(w.Args)+" does not say where the mistake is", "a JSON Pointer to it")
			}
			s.WantNone(w, n)
		}
	}
}

func clip(text string) string { return text[:min(len(text), 80)] }

func runOutput(ctx context.Context, s *check.Session) {
	answers := 0
	for _, c := range s.Calls() {
		s := s.Fresh()
		r := s.Do(ctx, c)
		s.Expect(s.Violation(r) == "", c.Capability+": "+s.Describe(r), "an answer of the declared form")
		if s.Declaration(c.Capability).Output != nil && r.Error == nil && len(r.Data) > 0 && string(r.Data) != "null" && string(r.Data) != "[]" {
			answers++
		}
	}
	if answers == 0 {
		s.Inconclusive("no ordinary call answers with data of a declared form")
	}
}

var hostile = [...]string{`../../admin`, `a/b`, `%2e%2e%2fadmin`, `..`, `?admin=1`, `#x`, `x&admin=1`, "x\r\nX-Admin: 1", "x\x00y", `"'<script>`, `;admin`, `\\admin`, "ａｄｍｉｎ／ｘ", "\u202eadmin", ` x `}

func runHostile(ctx context.Context, s *check.Session) {
	tried := 0
	for i, o := range s.Ordinary {
		c := check.Call{Sample: &s.Fixture.Samples[i], Capability: s.Fixture.Samples[i].Capability, Args: s.Fixture.Samples[i].Args}
		if len(o.Sent) == 0 {
			continue
		}
		for name, v := range parseObject(c.Args) {
			if _, text := v.(string); !text {
				continue
			}
			t := s.Fresh()
			t.WantData(c, t.Do(ctx, c)) // with what a connector asks for before its first call
			usual := append(slices.Clone(o.Sent), t.Seen()...)
			for _, h := range hostile {
				quoted, err := json.Marshal(h)
				if err != nil {
					continue
				}
				w := c.WithArg(name, quoted)
				n := t.Requests()
				r := t.Do(ctx, w)
				tried++
				v := t.Violation(r) // the transport refuses control characters itself
				t.Expect(v == "" || strings.ContainsFunc(h, unicode.IsControl), fmt.Sprintf("%s with %s=%q: %s", c.Capability, name, h, v), "a value that is escaped or refused")
				for _, x := range t.Since(n) {
					t.Expect(slices.ContainsFunc(usual, func(y *check.Exchange) bool { return sameShape(x, y) }), fmt.Sprintf("%s with %s=%q asks for %s %s", c.Capability, name, h, x.Method, x.URL), "a request of the same shape as for an ordinary value")
				}
			}
		}
	}
	if tried == 0 {
		s.NotApplicable("no sample has an argument that is a text")
	}
}

func parseObject(args string) map[string]any {
	m, _ := parse(json.RawMessage(args)).(map[string]any)
	return m
}

// sameShape reports whether two requests differ in values only.
func sameShape(a, b *check.Exchange) bool {
	u, err := url.Parse(a.URL)
	v, err2 := url.Parse(b.URL)
	if err != nil || err2 != nil || a.Method != b.Method {
		return false
	}
	names := func(q url.Values) []string { return slices.Sorted(maps.Keys(q)) }
	return strings.Count(u.EscapedPath(), "/") == strings.Count(v.EscapedPath(), "/") && subset(names(u.Query()), names(v.Query())) &&
		subset(headerNames(a), headerNames(b))
}

func headerNames(x *check.Exchange) []string { return slices.Sorted(maps.Keys(x.Header)) }

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
}

const big = "9007199254740993"

func runNumbers(ctx context.Context, s *check.Session) {
	tried := false
	for i, o := range s.Ordinary {
		c := check.Call{Sample: &s.Fixture.Samples[i], Capability: s.Fixture.Samples[i].Capability, Args: s.Fixture.Samples[i].Args}
		if s.Kind(c) == connector.KindWrite || o.Result == nil {
			continue
		}
		n := shared(o)
		if n == "" {
			continue
		}
		tried = true
		t := s.Fresh()
		t.Faults(fault.Always(fault.Fault{Rewrite: func(b []byte) []byte { return replaceNumber(b, n, big) }}))
		r := t.Do(ctx, c)
		t.Expect(r.Error != nil || bytes.Contains(r.Data, []byte(big)), fmt.Sprintf("%s: %s came out as %s", c.Capability, big, clip(string(r.Data))), big)
	}
	if !tried {
		s.NotApplicable("no number of a provider's answer is in a result")
	}
}

// shared finds a whole number of at least three digits that is in an answer of
// the provider and in the result.
func shared(o check.Ordinary) string {
	v := parse(o.Result.Data)
	in := append(numbers(v), texts(v)...)
	for _, x := range o.Sent {
		for _, n := range numbers(parse(x.Answer)) {
			if len(n) >= 3 && slices.Contains(in, n) {
				return n
			}
		}
	}
	return ""
}

func numbers(v any) (out []string) {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE-") {
			return []string{v.String()}
		}
	case []any:
		for _, e := range v {
			out = append(out, numbers(e)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, numbers(v[k])...)
		}
	}
	return out
}

func replaceNumber(body []byte, old, repl string) []byte {
	for _, sep := range []string{":", ": ", "[", ","} {
		body = bytes.ReplaceAll(body, []byte(sep+old+","), []byte(sep+repl+","))
		body = bytes.ReplaceAll(body, []byte(sep+old+"}"), []byte(sep+repl+"}"))
	}
	return body
}
