package connection_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func refreshFault(f authserver.Fault) authserver.Fault {
	f.Endpoint, f.Grant = "token", "refresh_token"
	return f
}

const refreshes = "token refresh_token"

// many calls use at once, on several processes, and returns their errors.
func (w *world) many(ms []*connection.Manager, n int) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = w.use(ms[i%len(ms)]) })
	}
	wg.Wait()
	return errs
}

// H2-40 C3: any number of goroutines make one request (case O-01).
// H2-41 C3: so do any number of processes.
func TestOneRefresh_H2_40_H2_41_O_01(t *testing.T) {
	for _, procs := range []int{1, 4} {
		bubble(t, setup{as: &authserver.Options{AccessFor: 3 * time.Second}}, func(t *testing.T, w *world) {
			w.connect("read")
			ms := []*connection.Manager{w.m}
			for len(ms) < procs {
				ms = append(ms, w.manager())
			}
			for round := 1; round <= 5; round++ {
				elapse(3 * time.Second)
				for _, err := range w.many(ms, 50*procs) {
					require.NoError(t, err)
				}
				require.Equal(t, round, w.as.Count(refreshes))
			}
			require.Zero(t, w.as.Count("error invalid_grant"))
		})
	}
}

// H2-40: waiters end with their own contexts; the request goes on and its result
// is stored although nobody waits for it any more.
func TestRefreshOutlivesItsCallers_H2_40(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Delay: 3 * time.Second}))
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				start := time.Now()
				_, err := w.m.Resolve(ctx, w.ask("read"))
				require.ErrorIs(t, err, toolresult.Timeout)
				require.Equal(t, time.Second, time.Since(start))
			})
		}
		wg.Wait()
		elapse(5 * time.Second)
		require.EqualValues(t, 2, w.record(c.ID).Tokens)
		require.Equal(t, connection.Active, w.record(c.ID).State)
		_, err := w.use(w.m)
		require.NoError(t, err)
		require.Equal(t, 1, w.as.Count(refreshes))
	})
}

// H2-41 H2-42: another process's lease is waited for, longer than the request.
func TestLeaseOfAnotherProcess_H2_41_H2_42(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		w.connect("read")
		other := w.manager()
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Delay: 9 * time.Second}))
		for _, err := range w.many([]*connection.Manager{w.m, other}, 10) {
			require.NoError(t, err)
		}
		require.Equal(t, 1, w.as.Count(refreshes))
	})
}

// H2-44 C3: nobody sees a token before it is durable, and a store that fails is
// asked again under the lease.
func TestTokensAreStoredFirst_H2_44(t *testing.T) {
	renewed := func(r connection.Record) bool { return r.State == connection.Active && r.Tokens == 2 }
	for _, row := range []struct {
		why           string
		before, after int
		good          bool
	}{
		{"a store that fails twice", 2, 0, true},
		{"a store that fails after it wrote", 0, 1, true},
		{"a store that is gone", 1 << 20, 0, false},
	} {
		t.Run(row.why, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, w *world) {
				w.connect("read")
				elapse(2 * time.Hour)
				w.store.fails, w.store.after, w.store.only = row.before, row.after, renewed
				_, err := w.use(w.m)
				if !row.good {
					require.ErrorIs(t, err, toolresult.ProviderUnavailable)
					require.Contains(t, w.logs.String(), "renewed tokens could not be stored")
					return
				}
				require.NoError(t, err)
				require.Equal(t, 1, w.as.Count(refreshes))
				require.Zero(t, w.as.Count("revoke"))
			})
		})
	}
}

// H2-21 H2-22 H2-23 (cases O-06, O-07): an expires_in that makes no sense costs no
// token, and is neither the end nor eternity.
func TestOddLifetimes_H2_21_H2_22_H2_23_O_06_O_07(t *testing.T) {
	for _, row := range []struct {
		why  string
		in   any
		want time.Duration // 0: as before
	}{
		{"a text", "120", 2 * time.Minute}, {"a float that is whole", 120.0, 2 * time.Minute}, {"a float", 3600.5, 0},
		{"nothing", nil, 0}, {"zero", 0, 0}, {"below zero", -1, 0}, {"a word", "never", 0}, {"empty", "", 0},
		{"twenty digits", 99999999999999999999.0, 366 * 24 * time.Hour}, {"an object", map[string]any{}, 0},
	} {
		t.Run(row.why, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, w *world) {
				c := w.connect("read")
				elapse(2 * time.Hour)
				w.as.Fail(refreshFault(authserver.Fault{Edit: func(m map[string]any) { m["expires_in"] = row.in }}))
				_, err := w.use(w.m)
				require.NoError(t, err)
				r := w.record(c.ID)
				if row.want == 0 {
					row.want = time.Hour // last reported
				}
				require.Equal(t, time.Now().Add(row.want), r.Expires)
				for range 20 {
					_, err = w.use(w.m)
					require.NoError(t, err)
				}
				require.Equal(t, 1, w.as.Count(refreshes), "no refresh for each call")
				elapse(row.want)
				_, err = w.use(w.m)
				require.NoError(t, err, "the rotated token was kept")
				require.Equal(t, 2, w.as.Count(refreshes))
			})
		})
	}
}

// H2-22: nobody ever said how long: the profile does, or the token is used until
// the provider refuses it.
func TestUnknownLifetime_H2_22(t *testing.T) {
	silent := authserver.Fault{Endpoint: "token", Times: -1, Edit: func(m map[string]any) { delete(m, "expires_in") }}
	bubble(t, setup{provider: func(p *connection.Provider) { p.Lifetime = 10 * time.Minute }}, func(t *testing.T, w *world) {
		w.as.Fail(silent)
		require.Equal(t, time.Now().Add(10*time.Minute), w.connect("read").Expires)
	})
	bubble(t, setup{}, func(t *testing.T, w *world) {
		w.as.Fail(silent)
		require.True(t, w.connect("read").Expires.IsZero())
		elapse(1000 * time.Hour)
		r, err := w.resolve(w.m)
		require.NoError(t, err)
		_, err = w.apply(w.m, r.Handle)
		require.NoError(t, err)
		require.Zero(t, w.as.Count(refreshes))
		another, err := w.m.Rejected(t.Context(), r.Handle)
		require.NoError(t, err)
		require.True(t, another)
		_, err = w.apply(w.m, r.Handle)
		require.NoError(t, err)
		require.Equal(t, 1, w.as.Count(refreshes))
	})
}

// H2-23: a lifetime counts from the beginning of the request, and a token of ten
// seconds and less is not renewed for each call.
func TestShortLifetime_H2_23(t *testing.T) {
	bubble(t, setup{as: &authserver.Options{AccessFor: 3 * time.Second}}, func(t *testing.T, w *world) {
		c := w.connect("read")
		for range 10 {
			_, err := w.use(w.m)
			require.NoError(t, err)
		}
		require.Zero(t, w.as.Count(refreshes))
		elapse(3 * time.Second)
		w.as.Fail(refreshFault(authserver.Fault{Delay: 2 * time.Second}))
		began := time.Now()
		_, err := w.use(w.m)
		require.NoError(t, err)
		r := w.record(c.ID)
		require.Equal(t, began.Add(3*time.Second), r.Expires)
		ahead := r.Expires.Sub(r.RefreshAt)
		require.True(t, ahead > 0 && ahead <= 300*time.Millisecond, "a tenth of its life at most: %v", ahead)
	})
}

// H2-24 (case O-05): without a new refresh token the old one stays, and with one
// the old is not used again.
func TestRefreshTokenIsKept_H2_24_O_05(t *testing.T) {
	bubble(t, setup{as: &authserver.Options{Rotation: authserver.Never}}, func(t *testing.T, w *world) {
		c := w.connect("read")
		sealed := w.record(c.ID).Refresh
		for range 3 {
			elapse(2 * time.Hour)
			_, err := w.use(w.m)
			require.NoError(t, err)
		}
		require.Equal(t, sealed, w.record(c.ID).Refresh)
	})
}

// H2-26: after a refresh, scopes that are not named are those of before; fewer
// are fewer, and the call stops before the API.
func TestScopesAfterRefresh_H2_26(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read", "write")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Edit: func(m map[string]any) { delete(m, "scope") }}))
		_, err := w.use(w.m)
		require.NoError(t, err)
		require.Equal(t, []string{"read", "write"}, w.record(c.ID).Scopes)
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Edit: func(m map[string]any) { m["scope"] = "read" }}))
		_, err = w.resolve(w.m, "write")
		require.ErrorIs(t, err, toolresult.InsufficientScope)
		require.Equal(t, []string{"read"}, w.record(c.ID).Scopes)
		require.Equal(t, connection.Active, w.record(c.ID).State)
	})
}

// H2-55: scopes are named when refreshing only if the profile says so, and never
// more than were granted.
func TestScopeOnRefresh_H2_55(t *testing.T) {
	for _, force := range []bool{false, true} {
		bubble(t, setup{provider: func(p *connection.Provider) { p.ScopeOnRefresh = force }}, func(t *testing.T, w *world) {
			w.connect("read", "write")
			elapse(2 * time.Hour)
			_, err := w.use(w.m)
			require.NoError(t, err, "the server refuses a scope that was not granted")
		})
	}
}

// H2-46 C3: invalid_grant is the end until the user consents, and nothing is sent
// any more.
func TestRevokedGrant_H2_46(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		w.as.End("ann")
		elapse(2 * time.Hour)
		for range 20 {
			_, err := w.resolve(w.m, "read")
			require.ErrorIs(t, err, toolresult.ConnectionRequired)
			step := toolresult.AsError(err).Connect
			require.NotNil(t, step, "the way out")
		}
		require.Equal(t, 1, w.as.Count(refreshes))
		r := w.record(c.ID)
		require.Equal(t, connection.Reauthorize, r.State)
		require.Equal(t, connection.ReasonRevoked, r.Reason)
		again := w.connect("read")
		require.Equal(t, c.ID, again.ID)
		_, err := w.use(w.m)
		require.NoError(t, err)
	})
}

// H2-46 C3: those who waited for one renewal that failed each get an error of their
// own, with the way out: what is written into one shows in no other.
func TestARenewalThatFailsForMany_H2_46(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		w.connect("read")
		w.as.End("ann")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Delay: time.Second}))
		var errs [8]error
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = w.resolve(w.m, "read") })
		}
		wg.Wait()
		seen := map[*toolresult.Error]bool{}
		for _, err := range errs {
			require.ErrorIs(t, err, toolresult.ConnectionRequired)
			e := toolresult.AsError(err)
			require.NotNil(t, e.Connect)
			require.False(t, seen[e], "an error of somebody else")
			seen[e] = true
		}
		require.Equal(t, 1, w.as.Count(refreshes))
	})
}

// H2-45 (case O-02): invalid_grant for a token that somebody else has replaced
// meanwhile kills nothing.
func TestSiblingRotated_H2_45_O_02(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(2 * time.Hour)
		// The answer is invalid_grant, and by then a sibling has stored new tokens:
		// a consent of the same user, which takes no lease.
		w.as.Fail(refreshFault(authserver.Fault{Before: true, Delay: 2 * time.Second, Status: 400, Body: `{"error":"invalid_grant"}`}))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.use(w.m)
			require.NoError(t, err)
		})
		elapse(time.Second)
		w.connect("read")
		wg.Wait()
		require.Equal(t, connection.Active, w.record(c.ID).State)
	})
}

// H2-43: tokens of a refresh that lost its lease are stored if the record holds
// what was spent for them.
func TestLateWriter_H2_43(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Delay: 5 * time.Second}))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.use(w.m)
			require.NoError(t, err)
		})
		elapse(time.Second)
		r := w.record(c.ID) // somebody else writes: an unrelated change
		r.Label = "another"
		_, err := w.store.CompareAndSwap(t.Context(), r)
		require.NoError(t, err)
		wg.Wait()
		r = w.record(c.ID)
		require.Equal(t, "another", r.Label)
		require.EqualValues(t, 2, r.Tokens)
		_, err = w.use(w.m)
		require.NoError(t, err)
		require.Equal(t, 1, w.as.Count(refreshes))
		require.Zero(t, w.as.Count("revoke"))
	})
}

// H2-47: a refused registration is the operator's, marks nothing dead, and is not
// tried again for five minutes.
func TestRefusedRegistration_H2_47(t *testing.T) {
	for _, word := range []string{"invalid_client", "unauthorized_client", "unsupported_grant_type"} {
		bubble(t, setup{}, func(t *testing.T, w *world) {
			c := w.connect("read")
			elapse(2 * time.Hour)
			w.as.Fail(refreshFault(authserver.Fault{Before: true, Status: 401, Body: `{"error":"` + word + `"}`}))
			_, err := w.use(w.m)
			require.ErrorIs(t, err, toolresult.ProviderError)
			require.Equal(t, connection.Active, w.record(c.ID).State)
			require.Contains(t, w.logs.String(), `"level":"ERROR"`)
			elapse(4 * time.Minute)
			_, err = w.use(w.m)
			require.ErrorIs(t, err, toolresult.ProviderUnavailable)
			require.Positive(t, toolresult.AsError(err).RetryAfter)
			require.Equal(t, 1, w.as.Count(refreshes))
			elapse(2 * time.Minute)
			_, err = w.use(w.m)
			require.NoError(t, err)
		})
	}
}

// H2-52: what the provider asks to wait is kept in the record, for every process.
func TestRetryAfter_H2_52(t *testing.T) {
	for _, status := range []int{429, 503} {
		bubble(t, setup{}, func(t *testing.T, w *world) {
			w.connect("read")
			other := w.manager()
			elapse(2 * time.Hour)
			w.as.Fail(refreshFault(authserver.Fault{Before: true, Status: status, Header: map[string]string{"Retry-After": "120"}}))
			for _, err := range w.many([]*connection.Manager{w.m, other}, 20) {
				require.ErrorIs(t, err, toolresult.ProviderUnavailable)
				require.Equal(t, 2*time.Minute, toolresult.AsError(err).RetryAfter.Round(time.Second))
			}
			require.Equal(t, 1, w.as.Count(refreshes))
			elapse(2 * time.Minute)
			_, err := w.use(w.m)
			require.NoError(t, err)
		})
	}
}

// H2-52: within the time that is left the old token serves.
func TestOldTokenServesWhileItLives_H2_48_H2_52(t *testing.T) {
	for _, f := range []authserver.Fault{{Before: true, Status: 429}, {Before: true, Status: 503}, {Before: true, Drop: true}} {
		bubble(t, setup{}, func(t *testing.T, w *world) {
			w.connect("read")
			elapse(59*time.Minute + 30*time.Second)
			w.as.Fail(refreshFault(f))
			_, err := w.use(w.m)
			require.NoError(t, err)
			require.Equal(t, 1, w.as.Count(refreshes))
		})
	}
}

// H2-49 H2-50 H2-51 C3: the answer is lost after the server has acted. The old
// token serves while it lives, then there is one retry; a strict server ends the
// grant, with a reason of its own, and a lenient one goes on.
func TestLostAnswer_H2_49_H2_50_H2_51(t *testing.T) {
	for _, row := range []struct {
		why      string
		rotation authserver.Rotation
		fault    authserver.Fault
		good     bool
	}{
		{"strict, 503 after", authserver.Strict, authserver.Fault{Status: 503}, false},
		{"strict, dropped after", authserver.Strict, authserver.Fault{Drop: true}, false},
		{"strict, no JSON after", authserver.Strict, authserver.Fault{Status: 200, Body: "<html>"}, false},
		{"strict, empty after", authserver.Strict, authserver.Fault{Status: 200}, false},
		{"strict, too slow after", authserver.Strict, authserver.Fault{Delay: time.Minute}, false},
		{"strict, 503 before", authserver.Strict, authserver.Fault{Before: true, Status: 503}, true},
		{"strict, dropped before", authserver.Strict, authserver.Fault{Before: true, Drop: true}, true},
		{"lenient, dropped after", authserver.Grace, authserver.Fault{Drop: true}, true},
	} {
		t.Run(row.why, func(t *testing.T) {
			bubble(t, setup{as: &authserver.Options{Rotation: row.rotation}}, func(t *testing.T, w *world) {
				c := w.connect("read")
				elapse(59 * time.Minute)
				w.as.Fail(refreshFault(row.fault))
				for range 10 {
					_, err := w.use(w.m)
					require.NoError(t, err, "the old token lives")
				}
				require.Equal(t, connection.RefreshUnknown, w.record(c.ID).State)
				require.Equal(t, 1, w.as.Count(refreshes))
				require.Zero(t, w.as.Count("reuse"), "a spent token is not sent again while the old access token lives")
				elapse(2 * time.Minute)
				_, err := w.use(w.m)
				require.Equal(t, 2, w.as.Count(refreshes), "one late retry")
				if row.good {
					require.NoError(t, err)
					require.Equal(t, connection.Active, w.record(c.ID).State)
					return
				}
				require.ErrorIs(t, err, toolresult.ConnectionRequired)
				require.ErrorContains(t, err, "answer to a renewal was lost")
				require.Equal(t, connection.ReasonUnknown, w.record(c.ID).Reason)
				for range 5 {
					_, err = w.use(w.m)
					require.Error(t, err)
				}
				require.Equal(t, 2, w.as.Count(refreshes))
			})
		})
	}
}

// H2-50: the process that held the lease died. The next one finds the lease over
// and does as if the answer was lost.
func TestHolderDied_H2_50(t *testing.T) {
	for _, committed := range []bool{false, true} {
		bubble(t, setup{}, func(t *testing.T, w *world) {
			c := w.connect("read")
			elapse(2 * time.Hour)
			r := w.record(c.ID)
			r.State, r.Lease = connection.Refreshing, connection.Lease{Attempt: "dead", Until: time.Now().Add(25 * time.Second)}
			if committed { // its request was acted on
				other := w.manager()
				saved := r.Clone()
				_, err := w.use(other)
				require.NoError(t, err)
				saved.Version = w.record(c.ID).Version
				r = saved
			}
			_, err := w.store.CompareAndSwap(t.Context(), r)
			require.NoError(t, err)
			start := time.Now()
			_, err = w.use(w.m)
			require.GreaterOrEqual(t, time.Since(start), 24*time.Second, "the lease is waited for")
			if committed {
				require.ErrorIs(t, err, toolresult.ConnectionRequired)
				require.Equal(t, connection.ReasonUnknown, w.record(c.ID).Reason)
				return
			}
			require.NoError(t, err)
		})
	}
}

// H2-50 H2-51: while the access token lives, the next process does not send what
// may be spent: a strict server would end the access token too.
func TestHolderDiedEarly_H2_50_H2_51(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(58 * time.Minute)
		r := w.record(c.ID)
		r.State, r.Lease = connection.Refreshing, connection.Lease{Attempt: "dead", Until: time.Now().Add(25 * time.Second)}
		_, err := w.store.CompareAndSwap(t.Context(), r)
		require.NoError(t, err)
		elapse(26 * time.Second)
		for range 5 {
			_, err = w.use(w.m)
			require.NoError(t, err)
		}
		require.Zero(t, w.as.Count(refreshes))
		require.Equal(t, connection.RefreshUnknown, w.record(c.ID).State)
		elapse(2 * time.Minute)
		_, err = w.use(w.m)
		require.NoError(t, err, "it had not been sent")
		require.Equal(t, 1, w.as.Count(refreshes))
	})
}

// H2-49: an outage is not the user's: retries that nobody answers are made
// further and further apart, and only then is the user asked.
func TestOutage_H2_49(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Before: true, Status: 503, Times: -1}))
		for range 60 { // ten minutes
			_, err := w.use(w.m)
			require.ErrorIs(t, err, toolresult.ProviderUnavailable)
			elapse(5 * time.Second)
		}
		require.Less(t, w.as.Count(refreshes), 6)
		w.as.Recover()
		elapse(10 * time.Minute)
		_, err := w.use(w.m)
		require.NoError(t, err, "the connection outlived the outage")

		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Before: true, Status: 503, Times: -1}))
		for range 100 {
			_, err = w.use(w.m)
			elapse(time.Minute)
		}
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "not for ever")
		require.Equal(t, connection.ReasonUnknown, w.record(c.ID).Reason)
	})
}

// H2-54: what some providers say for invalid_grant is in their profile, and what
// nobody knows ends after five times.
func TestOddRefusals_H2_54(t *testing.T) {
	bubble(t, setup{provider: func(p *connection.Provider) { p.DeadCodes = []string{"token_gone"} }}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Before: true, Status: 400, Body: `{"error":"token_gone"}`}))
		_, err := w.use(w.m)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)
		require.Equal(t, connection.ReasonRevoked, w.record(c.ID).Reason)
	})
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Before: true, Status: 400, Body: `{"error":"whatever"}`, Times: -1}))
		for range 100 {
			_, err := w.use(w.m)
			require.Error(t, err)
			elapse(time.Minute)
		}
		require.Equal(t, 5, w.as.Count(refreshes))
		require.Equal(t, connection.ReasonRejected, w.record(c.ID).Reason)
	})
}

// O-03: a refusal in an answer of 200, in the words of one provider.
func TestErrorIn200_H2_28_O_03(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Before: true, Status: 200, Body: `{"error":"bad_refresh_token","error_description":"The refresh token passed is incorrect or expired."}`}))
		_, err := w.use(w.m)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)
		require.Equal(t, connection.Reauthorize, w.record(c.ID).State)
	})
}

// H2-20: a token of another type is not used, and the refresh token that came
// with it is not lost.
func TestOtherTokenType_H2_20(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Edit: func(m map[string]any) { m["token_type"] = "MAC" }}))
		_, err := w.use(w.m)
		require.ErrorIs(t, err, toolresult.ProviderError)
		require.Empty(t, w.record(c.ID).Access)
		elapse(6 * time.Minute)
		w.as.Fail(refreshFault(authserver.Fault{Edit: func(m map[string]any) { m["token_type"] = "bEaReR" }}))
		_, err = w.use(w.m)
		require.NoError(t, err)
	})
}

// H2-53: a provider that ends the old token when it rotates. A rejection of a
// token that was replaced meanwhile renews nothing; of the present one, once.
// O-09: fifty rejections at once are one refresh.
func TestRejected_H2_53_O_09(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		old, err := w.resolve(w.m)
		require.NoError(t, err)
		first, err := w.apply(w.m, old.Handle)
		require.NoError(t, err)
		w.as.EndAccess("ann")
		for range 50 {
			another, err := w.m.Rejected(t.Context(), old.Handle)
			require.NoError(t, err)
			require.True(t, another)
		}
		require.Zero(t, w.as.Count(refreshes), "nothing is sent by being told")
		for _, err := range w.many([]*connection.Manager{w.m, w.manager()}, 50) {
			require.NoError(t, err)
		}
		require.Equal(t, 1, w.as.Count(refreshes))
		another, err := w.m.Rejected(t.Context(), old.Handle)
		require.NoError(t, err)
		require.True(t, another, "of a token that was replaced")
		second, err := w.apply(w.m, old.Handle)
		require.NoError(t, err)
		require.NotEqual(t, first, second)
		another, err = w.m.Rejected(t.Context(), old.Handle)
		require.NoError(t, err)
		require.False(t, another, "again: the provider means something else")
		_, err = w.apply(w.m, old.Handle)
		require.NoError(t, err)
		require.Equal(t, 1, w.as.Count(refreshes), "once in five minutes at most")
		require.Equal(t, connection.Active, w.record(c.ID).State)
	})
}

// Close waits for a renewal that runs, and refuses new ones.
func TestClose_C3(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		m := w.manager()
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Delay: 5 * time.Second}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := m.Resolve(ctx, w.ask("read"))
		require.ErrorIs(t, err, toolresult.Timeout)
		ctx2, cancel2 := context.WithTimeout(context.Background(), time.Second)
		defer cancel2()
		require.ErrorIs(t, m.Close(ctx2), context.DeadlineExceeded)
		require.NoError(t, m.Close(context.Background()))
		require.EqualValues(t, 2, w.record(c.ID).Tokens)
		elapse(2 * time.Hour)
		_, err = w.use(m)
		require.ErrorIs(t, err, toolresult.ProviderUnavailable)
		_, err = w.use(w.m)
		require.NoError(t, err, "another process goes on")
	})
}
