package writes

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func concurrent() []check.Check {
	return []check.Check{
		{
			ID: "concurrency/principals", Since: frozen, Needs: check.All(needsRead, check.NeedsCredential), Kills: []string{"field-per-call"},
			Promise: "Many callers at once each get their own answer, by their own credential.",
			Run:     runCrowd,
		},
		{
			ID: "concurrency/one-refresh", Since: frozen, Needs: check.All(needsRead, check.NeedsCredential), Kills: []string{"refresh-stampede", "lease-unseen"},
			Promise: "A credential that has run out is renewed once for all who wait, and one who leaves does not fail the others.",
			Run:     runOneRefresh,
		},
		{
			ID: "concurrency/close-while-calling", Since: frozen, Level: check.Extended, Needs: needsRead, Kills: []string{"close-deadlock"},
			Promise: "When the host ends while calls are under way, they end with an error, and nothing hangs.",
			Run:     runClosing,
		},
		{
			ID: "concurrency/random-walk", Since: frozen, Needs: check.All(needsRead, needsWrite), Kills: []string{"key-lost-after-429"},
			Promise: "In whatever order changes, repetitions, readings, failures and restarts come, each change is made once, or is said to be unknown.",
			Run:     runWalks,
		},
	}
}

// caller is one of a crowd: who, and with which call.
type caller struct {
	name string
	who  authz.Principal
	call check.Call
}

func crowd(s *check.Session, c check.Call) []caller {
	carol := c.As(check.Carol)
	if c.Sample.Other != "" {
		carol.Args = c.Sample.Other
	}
	return []caller{
		{"alice", s.Principal(check.Alice), c}, {"bob", s.Principal(check.Bob), c.As(check.Bob)}, {"carol", s.Principal(check.Carol), carol},
		{"another alice", s.PrincipalOf(check.TenantB, check.Alice), c.As(check.Bob)},
	}
}

func (x caller) do(ctx context.Context, s *check.Session) *toolresult.Result {
	req := s.Request(x.call)
	req.Principal = x.who
	return s.Send(ctx, req)
}

// bearing counts the exchanges after the first n by whose credential they bear.
func bearing(s *check.Session, list []caller, n int) map[string]int {
	out := map[string]int{}
	for _, x := range s.Since(n) {
		whose := "nobody's"
		for _, c := range list {
			if key := c.who.Key(); s.Broker.Bears(x, key.Tenant, key.Subject) {
				whose = c.name
			}
		}
		out[whose]++
	}
	return out
}

// crowded is how many callers there are at once, at least.
const crowded = 32

// runCrowd has everybody call everything at the same time, so that what one
// capability keeps of a caller is seen in another one as well.
func runCrowd(ctx context.Context, s *check.Session) {
	var list []caller
	for _, c := range asking(s) {
		list = append(list, crowd(s, c)...)
	}
	alone, n := make([]string, len(list)), s.Requests()
	for i, x := range list {
		r := x.do(ctx, s)
		s.WantData(x.call, r)
		alone[i] = string(r.Data)
	}
	each, times := bearing(s, list, n), max(2, (crowded+len(list)-1)/len(list))
	n = s.Requests()
	s.Faults(fault.Always(fault.Fault{Delay: time.Second})) // so that all are under way before the first answer
	results := make([]*toolresult.Result, times*len(list))
	var wait sync.WaitGroup
	for i := range results {
		wait.Go(func() { results[i] = list[i%len(list)].do(ctx, s) })
	}
	wait.Wait()
	s.Faults(nil)
	for i, r := range results {
		x := list[i%len(list)]
		s.Expect(string(r.Data) == alone[i%len(list)], fmt.Sprintf("%s by %s, among %d callers: %s %s", x.call.Capability, x.name, len(results), s.Describe(r), r.Data), "what they get alone")
	}
	for name, got := range bearing(s, list, n) {
		s.Expect(got <= times*each[name], fmt.Sprintf("%d requests with the credential of %s, whose calls make %d one by one", got, name, times*each[name]), "no more")
	}
}

func runOneRefresh(ctx context.Context, s *check.Session) {
	for _, c := range asking(s) {
		s.Broker.Expire(check.TenantA, check.Alice, 5*time.Second)
		before := s.Broker.Renewals()
		leaving, leave := context.WithTimeout(ctx, time.Second)
		results := make([]*toolresult.Result, 8)
		var wait sync.WaitGroup
		for i := range results {
			in := ctx
			if i == 0 {
				in = leaving // who may be the one that the renewal was begun for
			}
			wait.Go(func() { results[i] = s.Do(in, c) })
			if i == 0 {
				s.Wait(time.Millisecond)
			}
		}
		wait.Wait()
		leave()
		s.Expect(results[0].Error != nil, c.Capability+": who left after a second: "+s.Describe(results[0]), "an error")
		for _, r := range results[1:] {
			s.WantData(c, r)
		}
		got := s.Broker.Renewals() - before
		if got == 0 {
			s.Inconclusive("the host has credentials of its own, and none was renewed")
			return
		}
		s.Expect(got == 1, fmt.Sprintf("%s: the credential was renewed %d times for %d callers", c.Capability, got, len(results)), "once")
	}
	if needsConsent(s.Subject) == "" {
		inOffice(runOneRenewal)(ctx, s)
	}
}

func runClosing(ctx context.Context, s *check.Session) {
	calls := asking(s)
	s.Faults(fault.Always(fault.Fault{Hang: true}))
	done := make(chan *toolresult.Result, len(calls))
	for _, c := range calls {
		go func() { done <- s.Do(ctx, c) }()
	}
	s.Wait(time.Second)
	closed := make(chan error, 1)
	if c, ok := s.Connector.(io.Closer); ok {
		go func() { closed <- c.Close() }()
	} else {
		closed <- nil
	}
	s.Wait(time.Second)
	s.Close()
	timeout := time.NewTimer(time.Hour)
	defer timeout.Stop()
	for range calls {
		select {
		case r := <-done:
			s.Expect(r.Error != nil, "a call whose host has ended: "+s.Describe(r), "an error")
		case <-timeout.C:
			s.Expect(false, "a call goes on an hour after its host has ended", "an end")
			return
		}
	}
	select {
	case <-closed:
	case <-timeout.C:
		s.Expect(false, "closing the connector takes more than an hour", "an end")
	}
}
