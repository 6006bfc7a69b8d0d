package writes

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var needsSecret = check.All(check.NeedsCredential, needsRead)

func leaks() []check.Check {
	return []check.Check{
		{
			ID: "leak/logs", Since: frozen, Needs: needsSecret, Kills: []string{"log-token"},
			Promise: "No credential is in the log, at the level of debugging, whatever happens.",
			Run: func(ctx context.Context, s *check.Session) {
				there, _ := disturbed(ctx, s)
				clean(s, "the log", there.Logs.String())
			},
		},
		{
			ID: "leak/errors", Since: frozen, Needs: needsSecret, Kills: []string{"error-leaks"},
			Promise: "No credential is in an error, however it is printed, nor in one that it wraps.",
			Run: func(ctx context.Context, s *check.Session) {
				failed := 0
				_, results := disturbed(ctx, s)
				for _, r := range results {
					if r.Error != nil {
						failed++
						cleanError(s, r.Err())
						cleanError(s, r.Error.Cause())
					}
				}
				s.Expect(failed > 0, "no call failed", "failures to look at")
			},
		},
		{
			ID: "leak/provider-echo", Since: frozen, Needs: needsSecret, Kills: []string{"body-in-error"},
			Promise: "A credential that the provider repeats in the text of an error does not come out.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
						s.Faults(echo(status))
						r := s.Do(ctx, c)
						gap := status == 404 && r.Meaning() == toolresult.MeaningGaps // it says what it does not know
						s.Expect(r.Error != nil || gap, fmt.Sprintf("%s, answered %d: %s", c.Capability, status, s.Describe(r)), "a failure")
						cleanResult(s, c.Capability+": the result", r)
						cleanError(s, r.Err())
					}
				}
			},
		},
		{
			ID: "leak/refresh-echo", Since: frozen, Needs: needsSecret, Kills: []string{"retrieveerror-wrapped"},
			Promise: "What a token endpoint repeats of a secret does not come out of the call that needed the token.",
			Run: func(ctx context.Context, s *check.Session) {
				const secret = "client-secret-canary-5f0e7a91c3"
				s.Plant(secret)
				s.Broker.Hook(func(context.Context, *credential.ResolveRequest) error {
					return fmt.Errorf("oauth2: cannot fetch token: 400 Bad Request, response: {\"sent\":{\"client_secret\":%q}}", secret)
				})
				for _, c := range asking(s) {
					r := s.Do(ctx, c)
					s.Expect(r.Error != nil, c.Capability+", without a token: "+s.Describe(r), "a failure")
					cleanResult(s, c.Capability+": the result", r)
					text, _ := r.MarshalJSON()
					clean(s, c.Capability+": the error", fmt.Sprintf("%v %+v %s", r.Err(), r.Err(), text))
				}
				cleanEvents(s, s.Audit.Events())
			},
		},
		{
			ID: "leak/url", Since: frozen, Modes: check.InDouble | check.InSandbox, Needs: needsSecret, Kills: []string{"token-in-query"},
			Promise: "No credential is in the address of a request, which every proxy writes down.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					s.WantData(c, s.Do(ctx, c))
				}
				for _, x := range s.Seen() {
					clean(s, "the address of "+x.Method, x.URL)
				}
			},
		},
		{
			ID: "leak/result", Since: frozen, Needs: needsSecret, Kills: []string{"headers-in-result"},
			Promise: "No credential is in a result, even if the provider's answer has it in a header.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Faults(func(_ int, r *http.Request) fault.Fault {
						return fault.Fault{Header: http.Header{"X-Debug-Request": {everything(r)}, "Set-Cookie": {"session=" + everything(r)}, "X-Request-Id": {everything(r)}}}
					})
					r := s.Do(ctx, c)
					s.WantData(c, r)
					cleanResult(s, c.Capability+": the result", r)
				}
				_, results := disturbed(ctx, s)
				for _, r := range results {
					cleanResult(s, "the result of a call", r)
				}
			},
		},
		{
			ID: "leak/audit", Since: frozen, Needs: needsSecret, Kills: []string{"audit-leak"},
			Promise: "No credential is in an event of the audit log.",
			Run: func(ctx context.Context, s *check.Session) {
				there, _ := disturbed(ctx, s)
				cleanEvents(s, there.Audit.Events())
			},
		},
		{
			ID: "leak/telemetry", Since: frozen, Needs: needsSecret, Kills: []string{"span-url"},
			Promise: "No credential is in what is told while a call runs, nor in the record of it that traces and metrics are made of.",
			Run:     runTelemetry,
		},
		{
			ID: "leak/cursor", Since: frozen, Needs: check.All(needsSecret, check.NeedsKind(connector.KindList)), Kills: []string{"token-in-cursor"},
			Promise: "No credential is in a cursor, decoded or not.",
			Run:     runCursorLeak,
		},
		{
			ID: "leak/printing", Since: frozen, Level: check.Extended, Needs: needsSecret, Kills: []string{"printable-config"},
			Promise: "A connector that is printed, or encoded as JSON, shows no credential.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					s.Do(ctx, c)
				}
				text, err := json.Marshal(s.Connector)
				if err != nil {
					text = []byte(err.Error())
				}
				clean(s, "the connector, printed,", fmt.Sprintf("%v\n%+v\n%#v\n%s", s.Connector, s.Connector, s.Connector, text))
				clean(s, "the manifest, printed,", fmt.Sprintf("%+v", s.Connector.Manifest()))
			},
		},
	}
}

// everything is all header values of a request, as an answer repeats them.
func everything(r *http.Request) string {
	var out []string
	for _, v := range r.Header {
		out = append(out, v...)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// echo answers with a status, and repeats the request's headers.
func echo(status int) fault.Plan {
	return func(_ int, r *http.Request) fault.Fault {
		text, err := json.Marshal(map[string]any{"error": everything(r), "message": "not with " + everything(r), "headers": r.Header})
		if err != nil {
			text = nil
		}
		return fault.Fault{Status: status, Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {everything(r)}}, Body: string(text)}
	}
}

// disturbed makes the ordinary calls, and reads under everything that can happen
// to them, in a session of their own that all checks which look at the same share.
// A credential has been borne when it returns.
func disturbed(ctx context.Context, s *check.Session) (there *check.Session, results []*toolresult.Result) {
	there, results = s.Shared(ctx, "disturbed", runDisturbed)
	s.Expect(len(s.Hidden()) > 0, "no request bore a credential", "one")
	return there, results
}

func runDisturbed(ctx context.Context, s *check.Session) (out []*toolresult.Result) {
	for _, c := range s.Calls() {
		out = append(out, s.Do(ctx, c))
	}
	plans := []fault.Plan{echo(401), echo(500), echo(503), fault.Always(fault.Fault{DropAfter: true}), fault.Always(fault.Fault{Cut: 5}),
		fault.Always(fault.Fault{Redirect: "https://elsewhere.example/"}), fault.Always(fault.Fault{Hang: true})}
	for _, c := range asking(s) {
		for _, p := range plans {
			s.Faults(p)
			timed, cancel := context.WithTimeout(ctx, 5*time.Second)
			out = append(out, s.Do(timed, c))
			cancel()
		}
	}
	return out
}

// clean expects that a text holds no secret, in any of the ways that one is
// written in.
func clean(s *check.Session, where, text string) {
	form := s.Reveals(text)
	s.Expect(form == "", where+" holds a credential, "+form, "none")
}

func cleanResult(s *check.Session, where string, r *toolresult.Result) {
	text, err := r.MarshalJSON()
	s.Expect(err == nil, where+" cannot be encoded", "a result")
	clean(s, where, string(text))
	clean(s, where, fmt.Sprintf("%s %s %s %+v %+v", r.Summary, r.Data, r.DataRef, r.Provenance, r.Coverage))
}

// cleanError looks at an error and at everything that it wraps, each printed in
// every way.
func cleanError(s *check.Session, err error) {
	for todo := []error{err}; len(todo) > 0; {
		err, todo = todo[0], todo[1:]
		if err == nil {
			continue
		}
		text, jerr := json.Marshal(err)
		if jerr != nil {
			text = nil
		}
		clean(s, fmt.Sprintf("an error (%T)", err), fmt.Sprintf("%s\n%v\n%+v\n%#v\n%s", err.Error(), err, err, err, text))
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			todo = append(todo, many.Unwrap()...)
		} else {
			todo = append(todo, errors.Unwrap(err))
		}
	}
}

func cleanEvents(s *check.Session, events []connector.AuditEvent) {
	s.Expect(len(events) > 0, "no event was recorded", "one for each call")
	for _, e := range events {
		text, err := json.Marshal(e)
		s.Expect(err == nil, "an event that cannot be encoded", "an event")
		clean(s, "an event of "+e.Action.Capability, string(text)+fmt.Sprintf("%+v", e))
	}
}

func runTelemetry(ctx context.Context, s *check.Session) {
	for _, p := range []fault.Plan{nil, echo(500)} {
		for _, c := range asking(s) {
			s.Faults(p)
			req := s.Request(c)
			var notes []string
			req.Progress = func(p connector.Progress) { notes = append(notes, p.Note) }
			r := s.Send(ctx, req)
			s.Expect((r.Error == nil) == (p == nil), c.Capability+": "+s.Describe(r), "an answer, and then a failure")
			clean(s, c.Capability+": what is told of its progress", strings.Join(notes, "\n"))
			text, err := json.Marshal(r.Record())
			s.Expect(err == nil, c.Capability+": no record", "one")
			clean(s, c.Capability+": its record", string(text)+fmt.Sprintf("%+v", r.Record()))
		}
	}
}

func runCursorLeak(ctx context.Context, s *check.Session) {
	seen := 0
	for _, c := range s.Lists() {
		c.Size = 2
		for range 3 {
			r := s.Do(ctx, c)
			s.WantData(c, r)
			if c.Cursor = r.NextCursor; c.Cursor == "" {
				break
			}
			seen++
			clean(s, c.Capability+": its cursor", c.Cursor)
			for part := range strings.FieldsFuncSeq(c.Cursor, func(r rune) bool { return strings.ContainsRune(".~:|", r) }) {
				for _, enc := range []*base64.Encoding{base64.RawURLEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.StdEncoding} {
					if text, err := enc.DecodeString(part); err == nil {
						clean(s, c.Capability+": its cursor, decoded,", string(text))
					}
				}
				if text, err := hex.DecodeString(part); err == nil {
					clean(s, c.Capability+": its cursor, decoded,", string(text))
				}
			}
		}
	}
	if seen == 0 {
		s.NotApplicable("no listing of a sample has a second page of two items")
	}
}
