package reads

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func identity() []check.Check {
	return []check.Check{
		{
			ID: "identity/credential-of-caller", Since: frozen, Modes: check.InDouble | check.InSandbox, Needs: check.NeedsCredential, Kills: []string{"token-sticky"},
			Promise: "Every request bears the credential of the one who is calling, also right after somebody else.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					for _, who := range []string{check.Alice, check.Bob, check.Alice} {
						n := s.Requests()
						s.WantData(c, s.Do(ctx, c.As(who)))
						for _, x := range s.Since(n) {
							s.Expect(s.Broker.Bears(x, tenant(who), who), c.Capability+": "+who+"'s request bears another credential", who+"'s")
						}
					}
				}
			},
		},
		{
			ID: "identity/no-ambient", Since: frozen, Kills: []string{"env-token"},
			Promise: "Credentials of the machine (environment, files, metadata, proxies) are never used, and no client but that of the call.",
			Run:     runAmbient,
		},
		{
			ID: "identity/missing-fails-closed", Since: frozen, Needs: check.NeedsCredential, Kills: []string{"anonymous-fallback"},
			Promise: "A caller without an account gets nothing: no request is made for them, in nobody's name.",
			Run: func(ctx context.Context, s *check.Session) {
				s.Broker.Disconnect(check.TenantA, check.Alice)
				for _, c := range s.Calls() {
					n := s.Requests()
					s.WantCode(c, s.Do(ctx, c), toolresult.ConnectionRequired)
					s.WantNone(c, n)
				}
			},
		},
		{
			ID: "identity/no-credential-to-foreign-host", Since: frozen, Needs: needsRead, Kills: []string{"follow-redirect"},
			Promise: "A redirect to another place is a failure: nothing is sent there, and no answer is made up in its place.",
			Run:     runRedirect,
		},
	}
}

func tenant(who string) string {
	if who == check.Bob {
		return check.TenantB
	}
	return check.TenantA
}

func runAmbient(ctx context.Context, s *check.Session) {
	dialed := check.Ambient(func() {
		s := s.Fresh()
		for _, c := range s.Calls() {
			s.WantData(c, s.Do(ctx, c))
		}
		for _, x := range s.Seen() {
			s.Expect(!strings.Contains(fmt.Sprint(x.URL, x.Header, string(x.Body)), check.AmbientCanary), x.Method+" "+x.URL+" holds something of the environment", "nothing of it")
		}
	})
	s.Expect(len(dialed) == 0, fmt.Sprintf("http.DefaultTransport was to connect to %v", dialed), "the client of the call, and no other")
}

func runRedirect(ctx context.Context, s *check.Session) {
	for _, c := range asking(s) {
		for _, to := range []string{"https://evil.example/steal", "http://169.254.169.254/latest/meta-data/", "http://provider.test.evil.example/", "//evil.example/x"} {
			n := s.Requests()
			s.Faults(fault.Always(fault.Fault{Redirect: to}))
			r := s.Do(ctx, c)
			s.Expect(r.Error != nil && s.Violation(r) == "", c.Capability+", redirected to "+to+": "+s.Describe(r), "an error")
			s.Expect(toolresult.Code(r.Err()) != toolresult.EgressDenied, c.Capability+" tries to go to "+to, "nothing")
			s.Expect(len(s.Foreign()) == 0, fmt.Sprintf("%s asks for %v", c.Capability, s.Foreign()), "no other host")
			s.Expect(s.Requests() <= n+s.Declaration(c.Capability).Limits.Requests+10, c.Capability+" goes round in circles", "an end")
		}
	}
}

func authorization() []check.Check {
	return []check.Check{
		{
			ID: "authz/asked-first", Since: frozen, Kills: []string{"authz-after"},
			Promise: "The policy is asked about caller, capability and objects before the first request that is not for metadata.",
			Run:     runAskedFirst,
		},
		{
			ID: "authz/deny-is-final", Since: frozen, Kills: []string{"authz-advisory"},
			Promise: "A denied call makes no request and is not tried in another way.",
			Run: func(ctx context.Context, s *check.Session) {
				s.Policy.Set(except(authz.Execute, authz.Decision{Revision: check.Revision}, nil))
				refusedAll(ctx, s, toolresult.PermissionDenied)
			},
		},
		{
			ID: "authz/error-is-deny", Since: frozen, Kills: []string{"authz-fail-open"},
			Promise: "When the policy cannot answer, the answer is no.",
			Run: func(ctx context.Context, s *check.Session) {
				s.Policy.Set(except(authz.Execute, authz.Decision{}, errors.New("the policy store is down")))
				refusedAll(ctx, s, toolresult.PolicyUnavailable)
			},
		},
		{
			ID: "authz/same-resource", Since: frozen, Needs: check.NeedsRoutes, Kills: []string{"authz-other-id"},
			Promise: "What the policy was asked about is what is sent, byte for byte, however it is written.",
			Run:     runSameResource,
		},
		{
			ID: "authz/results-filtered", Since: frozen, Needs: needsRead, Kills: []string{"trust-provider-filter"},
			Promise: "An object that the caller was not granted does not come out, even if the provider puts it into the answer.",
			Run:     runFiltered,
		},
		{
			ID: "authz/batch-each", Since: frozen, Own: true, Needs: check.NeedsRoutes, Kills: []string{"authz-first-only"},
			Promise: "A call about several objects is asked about for each of them.",
			Run:     runBatch,
		},
		{
			ID: "authz/no-existence-oracle", Level: check.Extended, Since: frozen, Needs: reading, Kills: []string{"403-vs-404"},
			Promise: "What is not there and what the caller may not see are one answer.",
			Run:     runOracle,
		},
	}
}

// except allows everything but one purpose.
func except(p authz.Purpose, d authz.Decision, err error) func(*authz.Request) (authz.Decision, error) {
	return func(req *authz.Request) (authz.Decision, error) {
		if req.Purpose == p {
			return d, err
		}
		return check.AllowAsked(req), nil
	}
}

func refusedAll(ctx context.Context, s *check.Session, code toolresult.ErrorCode) {
	for _, c := range s.Calls() {
		n := len(unmarked(s, c, 0))
		s.WantCode(c, s.Do(ctx, c), code)
		sent := len(unmarked(s, c, 0)) - n
		s.Expect(sent == 0, fmt.Sprintf("%s: %d requests at the provider", c.Capability, sent), "none")
	}
}

// unmarked returns the exchanges after n that no metadata route of the
// capability may have made: those come before the policy is asked.
func unmarked(s *check.Session, c check.Call, n int) (out []*check.Exchange) {
	methods := map[string]bool{}
	for _, r := range s.Declaration(c.Capability).Routes {
		if method, _, ok := strings.Cut(r.Pattern, " "); ok && r.Metadata {
			methods[method] = true
		}
	}
	for _, x := range s.Since(n) {
		if !methods[x.Method] {
			out = append(out, x)
		}
	}
	return out
}

func runAskedFirst(ctx context.Context, s *check.Session) {
	for _, c := range s.Calls() {
		before, asked := s.Requests(), len(s.Policy.Asked(authz.Execute))
		s.Do(ctx, c)
		questions := s.Policy.Asked(authz.Execute)[asked:]
		if !s.Expect(len(questions) > 0, c.Capability+": the policy was not asked", "a question before the first request") {
			continue
		}
		q := questions[0]
		s.Expect(q.Principal.Key() == s.Principal(c.Who).Key() && q.Action.Capability == c.Capability && q.Action.Connector == s.Manifest.ID && !q.Target.IsZero(),
			fmt.Sprintf("%s: the policy was asked about %v and %v", c.Capability, q.Principal, q.Action.Capability), "caller, capability and objects")
		for _, x := range unmarked(s, c, before) {
			s.Expect(s.Policy.AskedBefore(authz.Execute, x.N), c.Capability+": "+x.Method+" "+x.URL+" came before the question", "the question first")
		}
	}
}

// variants are other ways to write an id that some code takes for the same.
func variants(id string) []string {
	return []string{strings.ToUpper(id), strings.ToLower(id), id + " ", " " + id, "0" + id, id + ".", strings.ReplaceAll(id, "-", "_"), id + "\u200b"}
}

func runSameResource(ctx context.Context, s *check.Session) {
	tried := 0
	for i, o := range s.Ordinary {
		c := check.Call{Sample: &s.Fixture.Samples[i], Capability: s.Fixture.Samples[i].Capability, Args: s.Fixture.Samples[i].Args}
		if o.Requests == 0 || s.Kind(c) == connector.KindWrite {
			continue
		}
		for name, v := range parseObject(c.Args) {
			id, text := v.(string)
			if !text {
				continue
			}
			for _, other := range variants(id) {
				if other == id {
					continue
				}
				r := s.Do(ctx, c.WithArg(name, quoted(other)))
				tried++
				s.Expect(s.Violation(r) == "", fmt.Sprintf("%s with %s=%q: %s", c.Capability, name, other, s.Violation(r)), "a request about what the policy was asked about")
			}
		}
	}
	if tried == 0 {
		s.NotApplicable("no sample of a read names an object")
	}
}

func runFiltered(ctx context.Context, s *check.Session) {
	tried := 0
	for _, c := range asking(s) {
		if c.Sample.Foreign == nil {
			continue
		}
		tried++
		s.Faults(fault.Always(fault.Fault{Rewrite: c.Sample.Foreign}))
		r := s.Do(ctx, c)
		s.WantData(c, r)
		s.Expect(!strings.Contains(string(r.Data), "foreign-item"), c.Capability+": an item that was not granted came out", "granted items only")
	}
	s.Faults(nil)
	if tried == 0 {
		s.NotApplicable("no sample says how the provider's answer would hold an object that is not granted (Sample.Foreign)")
	}
}

func runBatch(ctx context.Context, s *check.Session) {
	tried := 0
	for _, c := range askingAll(s) {
		n := 0
		for _, v := range parseObject(c.Args) {
			if l, ok := v.([]any); ok {
				n = max(n, len(l))
			}
		}
		if n < 2 {
			continue
		}
		tried++
		t := s.Fresh()
		r := t.Do(ctx, c)
		all := t.Policy.Asked(authz.Execute)
		if len(all) == 0 {
			t.Inconclusive(c.Capability + ": the policy is not asked at all")
			continue
		}
		objects, whole := all[0].Target.Objects()
		t.Expect(whole || len(objects) >= n, fmt.Sprintf("%s names %d objects, and the policy is asked about %d", c.Capability, n, len(objects)), "a question about each")
		if len(objects) >= n && (r.Error != nil || len(r.Data) == 0 || string(r.Data) == "null") {
			t.Inconclusive(c.Capability + ": the ordinary call does not work: " + t.Describe(r))
		}
		if !whole && len(objects) >= n {
			denyLast(ctx, s.Fresh(), c, objects[len(objects)-1].ResourceID)
		}
	}
	if tried == 0 {
		s.NotApplicable("no sample names several objects")
	}
}

func denyLast(ctx context.Context, s *check.Session, c check.Call, last authz.ResourceID) {
	s.Policy.Set(func(req *authz.Request) (authz.Decision, error) {
		objects, _ := req.Target.Objects()
		d := check.AllowAsked(req)
		var ids []authz.ResourceID
		for _, o := range objects {
			if o.ResourceID != last {
				ids = append(ids, o.ResourceID)
			}
		}
		if req.Purpose != authz.Discover {
			d.Scope = authz.Only(ids...)
		}
		return d, nil
	})
	r := s.Do(ctx, c)
	s.WantCode(c, r, toolresult.PermissionDenied)
}

func runOracle(ctx context.Context, s *check.Session) {
	tried := 0
	for _, missing := range s.With(func(x *check.Sample) string { return x.Missing }, connector.KindRead, connector.KindList) {
		denied := missing
		if denied.Args = missing.Sample.Denied; denied.Args == "" {
			continue
		}
		tried++
		a, b := s.Do(ctx, missing), s.Do(ctx, denied)
		if !s.Expect(a.Error != nil && b.Error != nil, missing.Capability+": "+s.Describe(a)+" and "+s.Describe(b), "two failures") {
			continue
		}
		same := a.Error.Code == b.Error.Code && a.Error.Message == b.Error.Message && a.Error.Diagnostics.HTTPStatus == b.Error.Diagnostics.HTTPStatus &&
			a.Error.Diagnostics.ProviderCode == b.Error.Diagnostics.ProviderCode && a.Error.Diagnostics.ProviderText == b.Error.Diagnostics.ProviderText
		s.Expect(same, fmt.Sprintf("%s: %s for what is not there, %s for what may not be seen", missing.Capability, s.Describe(a), s.Describe(b)), "one answer")
	}
	if tried == 0 {
		s.NotApplicable("no sample names both something that is not there and something of somebody else's (Missing, Denied)")
	}
}
