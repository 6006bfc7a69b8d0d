package writes

import (
	"context"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func caches() []check.Check {
	return []check.Check{
		{
			ID: "cache/isolated-by-principal", Since: frozen, Needs: check.All(needsRead, check.NeedsCredential), Kills: []string{"cache-shared"},
			Promise: "Nobody is given an answer that was read for somebody else.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					mine := s.Do(ctx, c)
					own(ctx, s, c, s.Principal(check.Bob), mine)
				}
			},
		},
		{
			ID: "cache/isolated-by-tenant", Since: frozen, Needs: check.All(needsRead, check.NeedsCredential), Kills: []string{"cache-by-user"},
			Promise: "A user of the same name in another tenant is somebody else.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					mine := s.Do(ctx, c)
					own(ctx, s, c, s.PrincipalOf(check.TenantB, check.Alice), mine)
				}
			},
		},
		{
			ID: "cache/isolated-by-scope", Since: frozen, Needs: needsRead, Kills: []string{"cache-by-token-user"},
			Promise: "Who has lost a right does not get what was read while it was there.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Policy.Set(nil)
					s.WantData(c, s.Do(ctx, c))
					s.Policy.Set(func(req *authz.Request) (authz.Decision, error) {
						if req.Purpose == authz.Discover {
							return check.AllowAsked(req), nil
						}
						return authz.Decision{Revision: "after"}, nil
					})
					r := s.Do(ctx, c)
					s.WantCode(c, r, toolresult.PermissionDenied)
					s.Expect(len(r.Data) == 0, c.Capability+": data after the right was lost", "none")
				}
			},
		},
		{
			ID: "cache/own-write-visible", Since: frozen, Level: check.Extended, Needs: check.All(needsRead, needsWrite), Kills: []string{"stale-after-write"},
			Promise: "A caller sees the change that it made.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Do(ctx, c)
				}
				for _, w := range s.Writes() {
					s.Do(ctx, w)
				}
				after := map[string]string{}
				for _, c := range asking(s) {
					after[c.Capability+c.Args] = string(s.Do(ctx, c).Data)
				}
				s.Restart()
				for _, c := range asking(s) {
					s.Expect(after[c.Capability+c.Args] == string(s.Do(ctx, c).Data), c.Capability+": another answer after a restart: what came before was kept from before the change", "the change")
				}
			},
		},
		{
			ID: "cache/errors-not-kept", Since: frozen, Needs: needsRead, Kills: []string{"negative-cache"},
			Promise: "A failure is not kept: when its cause is gone, so is it.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					for _, status := range []int{401, 429, 503} {
						s.Faults(fault.Always(fault.Fault{Status: status}))
						s.Do(ctx, c)
						s.Faults(nil)
						s.WantData(c, s.Do(ctx, c))
					}
				}
			},
		},
		{
			ID: "cache/dropped-on-disconnect", Since: frozen, Needs: check.All(needsRead, check.NeedsCredential), Kills: []string{"cache-survives"},
			Promise: "Nothing of an account is left when it is disconnected.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Broker.Connect(check.TenantA, check.Alice)
					s.WantData(c, s.Do(ctx, c))
					s.Broker.Disconnect(check.TenantA, check.Alice)
					r := s.Do(ctx, c)
					s.WantCode(c, r, toolresult.ConnectionRequired)
					s.Expect(len(r.Data) == 0, c.Capability+": data after the account was disconnected", "none")
				}
			},
		},
	}
}

// own expects that somebody's answer comes from a request of theirs, or not at
// all.
func own(ctx context.Context, s *check.Session, c check.Call, who authz.Principal, other *toolresult.Result) {
	n := s.Requests()
	req := s.Request(c)
	req.Principal = who
	r := s.Send(ctx, req)
	key := who.Key()
	if r.Error == nil && len(r.Data) > 2 {
		s.Expect(s.Requests() > n, c.Capability+": an answer for "+who.String()+" without a request", "a request of their own")
		s.Expect(string(r.Data) != string(other.Data), c.Capability+": "+who.String()+" got what was read for alice", "their own answer")
	} else {
		s.Expect(true, "", "")
	}
	for _, x := range s.Since(n) {
		s.Expect(s.Broker.Bears(x, key.Tenant, key.Subject), c.Capability+": a request for "+who.String()+" bears another credential", "their own")
	}
}

func revocations() []check.Check {
	return []check.Check{
		{
			ID: "revoke/401-bounded", Since: frozen, Needs: check.All(needsRead, check.NeedsCredential), Kills: []string{"retry-401-forever"},
			Promise: "When the provider does not know the credential any more, the call says so after one more try at the most.",
			Run: func(ctx context.Context, s *check.Session) {
				for i, c := range s.Calls() {
					if s.Kind(c) == connector.KindWrite || len(s.Declaration(c.Capability).Routes) == 0 {
						continue
					}
					s.Faults(fault.Always(fault.Fault{Status: 401}))
					n := s.Requests()
					s.WantCode(c, s.Do(ctx, c), toolresult.ConnectionRequired)
					sent := s.Requests() - n
					s.Expect(sent <= max(s.Ordinary[i].Requests, 1)+1, fmt.Sprintf("%s: %d requests, all answered with 401", c.Capability, sent), "one, or one more")
				}
			},
		},
		{
			ID: "revoke/invalid-grant-is-final", Since: frozen, Needs: check.NeedsCredential, Kills: []string{"refresh-loop"},
			Promise: "A grant that the provider has ended is not tried again in the same call: the account needs connecting.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					tries := 0
					s.Broker.Hook(func(context.Context, *credential.ResolveRequest) error {
						tries++
						return toolresult.NewError(toolresult.ConnectionRequired, "the account needs to be connected again")
					})
					n := s.Requests()
					s.WantCode(c, s.Do(ctx, c), toolresult.ConnectionRequired)
					s.Expect(tries <= 1, fmt.Sprintf("%s: the credential was asked for %d times", c.Capability, tries), "once")
					s.WantNone(c, n)
				}
			},
		},
		{
			ID: "revoke/after-disconnect", Since: frozen, Needs: check.NeedsCredential, Kills: []string{"zombie-token"},
			Promise: "After an account is disconnected no request is made with it, though it was used a moment ago.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					s.Do(ctx, c)
				}
				s.Broker.Disconnect(check.TenantA, check.Alice)
				for _, c := range s.Calls() {
					n := s.Requests()
					s.WantCode(c, s.Do(ctx, c), toolresult.ConnectionRequired)
					s.WantNone(c, n)
				}
			},
		},
	}
}
