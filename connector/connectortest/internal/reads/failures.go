package reads

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func failures() []check.Check {
	return []check.Check{
		{
			ID: "errors/kind-known", Since: frozen, Needs: check.NeedsRoutes, Kills: []string{"plain-error"},
			Promise: "Every failure has a code that callers can act on, whatever the provider did.",
			Run:     runKinds,
		},
		{
			ID: "errors/not-found-is-not-empty", Since: frozen, Modes: check.InDouble | check.InSandbox, Needs: reading, Kills: []string{"404-as-empty"},
			Promise: "Something that was named and is not there is an error, never an empty answer.",
			Run: func(ctx context.Context, s *check.Session) {
				calls := s.With(func(x *check.Sample) string { return x.Missing }, connector.KindRead, connector.KindList)
				if len(calls) == 0 && slices.ContainsFunc(s.Manifest.Capabilities, namesOne) {
					s.Inconclusive("no sample of a read names something that is not there: set Sample.Missing")
				}
				if len(calls) == 0 {
					s.NotApplicable("no read names one object in the path of its request, and no sample says that one does: what matches nothing is an answer")
				}
				for _, c := range calls {
					s.WantCode(c, s.Do(ctx, c), toolresult.NotFound, toolresult.PermissionDenied)
				}
			},
		},
		{
			ID: "errors/5xx-is-not-success", Since: frozen, Needs: needsRead, Kills: []string{"500-as-ok"},
			Promise: "When the provider fails, the call fails.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					for _, status := range []int{500, 502, 503, 504} {
						s.Faults(fault.Always(fault.Fault{Status: status, Body: "{}"}))
						s.WantCode(c, s.Do(ctx, c), toolresult.ProviderUnavailable, toolresult.ProviderError)
					}
				}
			},
		},
		{
			ID: "errors/truncated-body", Since: frozen, Needs: needsRead, Kills: []string{"truncation-ignored"},
			Promise: "An answer that is cut short, at whatever byte, is an error.",
			Run:     runTruncated,
		},
		{
			ID: "errors/not-json", Since: frozen, Needs: needsRead, Kills: []string{"decode-ignored"},
			Promise: "A page of HTML, an empty body or another format is an error, never an empty answer.",
			Run: func(ctx context.Context, s *check.Session) {
				if !speaksJSON(s) {
					s.NotApplicable("no read of the samples is answered with JSON")
					return
				}
				for _, c := range asking(s) {
					for _, f := range []fault.Fault{
						{Status: 200, Body: "<!DOCTYPE html><html><body>Please log in</body></html>", Header: http.Header{"Content-Type": {"text/html"}}},
						{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}},
						{Status: 200, Body: "id: 1\nname: x\n", Header: http.Header{"Content-Type": {"application/yaml"}}},
						{Status: 204},
					} {
						s.Faults(fault.Always(f))
						r := s.Do(ctx, c)
						s.Expect(r.Error != nil && s.Violation(r) == "", fmt.Sprintf("%s, given status %d and %q: %s", c.Capability, f.Status, clip(f.Body), s.Describe(r)), "an error")
					}
				}
			},
		},
	}
}

func odd() []check.Check {
	return []check.Check{
		{
			ID: "errors/failure-in-200", Since: frozen, Needs: func(s *check.Subject) string {
				if len(s.Fixture.Failures) == 0 {
					return "the fixture says of no answer with status 200 that it is a failure"
				}
				return needsRead(s)
			}, Kills: []string{"ok-false-ignored"},
			Promise: "An answer that says that it is a failure is one, whatever its status.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					for _, body := range s.Fixture.Failures {
						s.Faults(fault.Always(fault.Fault{Status: 200, Body: body, Header: http.Header{"Content-Type": {"application/json"}}}))
						r := s.Do(ctx, c)
						code := toolresult.Code(r.Err())
						s.Expect(r.Error != nil && s.Violation(r) == "" && code != toolresult.Internal, c.Capability+" given "+clip(body)+": "+s.Describe(r), "the failure that it says")
						s.Expect(r.Error == nil || r.Error.Diagnostics.HTTPStatus == 200, c.Capability+" given "+clip(body)+": the failure was not seen by the rules of the provider", "Info.Rules that call it a failure")
					}
				}
			},
		},
		{
			ID: "errors/odd-shapes", Since: frozen, Needs: needsRead, Kills: []string{"nil-deref"},
			Promise: "An answer with missing, null or differently typed members is no reason to panic.",
			Run:     runOdd,
		},
		{
			ID: "errors/message-bounded", Since: frozen, Level: check.Extended, Needs: check.NeedsRoutes, Kills: []string{"body-as-message"},
			Promise: "An error's message is one line of at most 512 bytes.",
			Run: func(ctx context.Context, s *check.Session) {
				long := `{"error":"` + strings.Repeat("long text ", 200) + `","message":"` + strings.Repeat("long text ", 200) + `"}`
				for _, c := range asking(s) {
					for _, status := range []int{400, 404, 422, 500} {
						s.Faults(fault.Always(fault.Fault{Status: status, Body: long, Header: http.Header{"Content-Type": {"application/json"}}}))
						r := s.Do(ctx, c)
						if said := status == 404 && r.Meaning() == toolresult.MeaningGaps; !s.Expect(r.Error != nil || said, c.Capability+": "+s.Describe(r), "an error") || said {
							continue // it says what it does not know
						}
						m := string(r.Error.Message)
						s.Expect(len(m) <= 512 && utf8.ValidString(m) && !strings.ContainsFunc(m, unicode.IsControl), fmt.Sprintf("%s: a message of %d bytes: %s", c.Capability, len(m), clip(m)), "one line")
					}
				}
			},
		},
		{
			ID: "errors/retryable-agrees", Since: frozen, Needs: check.NeedsRoutes, Kills: []string{"unknown-retryable"},
			Promise: "What is said to be worth another try cannot have had an effect.",
			Run:     runRetryable,
		},
		{
			ID: "errors/wraps-context", Since: frozen, Level: check.Extended, Needs: needsRead, Kills: []string{"ctx-error-hidden"},
			Promise: "A call that its caller gave up says so, and in no other words.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Faults(fault.Always(fault.Fault{Hang: true}))
					ctx, cancel := context.WithCancel(ctx)
					time.AfterFunc(3*time.Second, cancel)
					r := s.Do(ctx, c)
					s.WantCode(c, r, toolresult.Cancelled)
					cancel()
				}
			},
		},
	}
}

// statuses are what every read is answered with. Rare ones, and those that other
// checks answer every read with, are shared out among the reads.
var (
	statuses = [...]int{204, 307, 400, 403, 404, 409, 422}
	rare     = [...]int{500, 301, 304, 401, 405, 410, 413, 418, 429, 451, 501, 502, 503, 504, 507, 599}
	ofWrites = [...]int{204, 307, 400, 404, 500}
)

func runKinds(ctx context.Context, s *check.Session) {
	reads := asking(s)
	for i, c := range reads {
		for _, status := range statuses {
			kindKnown(ctx, s, c, status)
		}
		for j := i; j < len(rare); j += len(reads) {
			kindKnown(ctx, s, c, rare[j])
		}
		s.Faults(fault.Always(fault.Fault{CutHeaders: true}))
		knowsKind(s, c, s.Do(ctx, c), "connection lost after the headers")
	}
	// a change whose effect is unknown blocks the next, so each has a provider of its own
	for _, c := range s.Writes() {
		if len(s.Declaration(c.Capability).Routes) == 0 {
			continue
		}
		for _, status := range ofWrites {
			kindKnown(ctx, s.Fresh(), c, status)
		}
		t := s.Fresh()
		t.Faults(fault.Always(fault.Fault{CutHeaders: true}))
		knowsKind(t, c, t.Do(ctx, c), "connection lost after the headers")
	}
	s.Faults(nil)
	s.Restart() // so that no connection is kept
	s.Down(true)
	for _, c := range askingAll(s) {
		knowsKind(s, c, s.Do(ctx, c), "no connection")
	}
}

func kindKnown(ctx context.Context, s *check.Session, c check.Call, status int) {
	s.Faults(fault.Always(fault.Fault{Status: status, Body: `{"error":"e"}`}))
	knowsKind(s, c, s.Do(ctx, c), fmt.Sprint("status ", status))
}

// knowsKind expects a result that a caller can act on.
func knowsKind(s *check.Session, c check.Call, r *toolresult.Result, what string) {
	s.Expect(r.Error == nil || r.Error.Code.Known() && r.Error.Code != toolresult.Internal && r.Error.Code != toolresult.ContractViolation && r.Error.Code != toolresult.EgressDenied,
		c.Capability+", "+what+": "+s.Describe(r), "a code that says what the provider did")
	s.Expect(r.Validate(nil) == nil, c.Capability+", "+what+": a result that contradicts itself", "one that holds together")
}

// speaksJSON reports whether a read of the samples is answered with JSON, on its
// own or in a stream of events.
func speaksJSON(s *check.Session) bool {
	for _, o := range s.Ordinary {
		if slices.ContainsFunc(o.Sent, func(x *check.Exchange) bool {
			return !x.Changes && (parse(x.Answer) != nil || strings.HasPrefix(x.AnswerHeader.Get("Content-Type"), "text/event-stream"))
		}) {
			return true
		}
	}
	return false
}

func runTruncated(ctx context.Context, s *check.Session) {
	for i, o := range s.Ordinary {
		c := check.Call{Sample: &s.Fixture.Samples[i], Capability: s.Fixture.Samples[i].Capability, Args: s.Fixture.Samples[i].Args}
		if s.Kind(c) == connector.KindWrite || len(o.Sent) == 0 {
			continue
		}
		size := len(o.Sent[0].Answer)
		for _, n := range positions(size) {
			s.Faults(fault.Once(1, fault.Fault{Cut: n}))
			r := s.Do(ctx, c)
			s.Expect(r.Error != nil && s.Violation(r) == "" || r.Error == nil && len(r.Coverage.Missing) > 0, fmt.Sprintf("%s: %d of %d bytes arrived: %s", c.Capability, n, size, s.Describe(r)), "an error")
		}
	}
}

// positions are where a body of a size is cut: at its ends, and evenly between.
func positions(size int) (out []int) {
	step := max(size/6, 1)
	for n := 1; n < size; n += step {
		out = append(out, n)
	}
	return append(out, max(size-1, 1))
}

func runOdd(ctx context.Context, s *check.Session) {
	for _, c := range asking(s) {
		for _, f := range distortions {
			s.Faults(fault.Always(fault.Fault{Rewrite: f}))
			r := s.Do(ctx, c)
			s.Expect(toolresult.Code(r.Err()) != toolresult.Internal, c.Capability+": "+s.Describe(r), "an answer, or an error of the provider's")
			s.Expect(r.Validate(nil) == nil, c.Capability+": a result that contradicts itself", "one that holds together")
		}
	}
}

func runRetryable(ctx context.Context, s *check.Session) {
	for _, c := range askingAll(s) {
		for _, f := range []fault.Fault{{Status: 400}, {Status: 401}, {Status: 404}, {Status: 429}, {Status: 500}, {Status: 503}, {DropAfter: true}, {CutHeaders: true}} {
			t := s
			if s.Kind(c) == connector.KindWrite {
				t = s.Fresh()
			}
			t.Faults(fault.Always(f))
			r := t.Do(ctx, c)
			if r.Error == nil {
				continue
			}
			t.Expect(!r.Error.Retryable || r.Effect.Disposition != toolresult.EffectUnknown, c.Capability+", "+f.String()+": "+t.Describe(r)+" and retryable", "an unknown effect is never retried blindly")
			t.Expect(!r.Error.Retryable || r.Error.Code.Info().Retryable, c.Capability+", "+f.String()+": "+t.Describe(r)+" and retryable", "only what the code allows")
		}
	}
}

// namesOne reports whether a read asks for one object by a name in the path.
func namesOne(d connector.Declaration) bool {
	return d.Kind == connector.KindRead && slices.ContainsFunc(d.Routes, func(r connector.Route) bool { return !r.Metadata && strings.Contains(r.Pattern, "{") })
}
