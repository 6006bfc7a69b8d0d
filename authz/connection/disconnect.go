package connection

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	revokeFirst = 5 * time.Second // after a revocation that failed
	revokeMost  = 15 * time.Minute
	farewellFor = 20 * time.Second
)

// Disconnect takes a connection of p apart: no new calls first, then revocation
// at the provider, then clean-up. It returns how far it got; what is left is
// resumed by [Manager.Resume] or by calling it again. An error says that calls
// may still be possible.
func (m *Manager) Disconnect(ctx context.Context, p authz.Principal, id string) (Connection, error) {
	if p.IsZero() {
		return Connection{}, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known")
	}
	rec, err := m.store.Get(ctx, p.Key().Tenant, id)
	switch {
	case err != nil:
		return Connection{}, missing(err)
	case rec.Owner != p.Key():
		return Connection{}, errNoAccount()
	}
	return m.takeApart(ctx, rec.Owner.Tenant, id, ReasonUser)
}

// DisconnectFor is Disconnect by an administrator, whose right to it the host has
// checked. An empty id means all connections of the owner; an owner with a
// tenant only means what was installed for the tenant.
func (m *Manager) DisconnectFor(ctx context.Context, owner authz.PrincipalKey, id string) ([]Connection, error) {
	if owner.Tenant == "" {
		return nil, toolresult.NewError(toolresult.InvalidInput, "a tenant is needed")
	}
	list, err := m.all(ctx, &Query{Tenant: owner.Tenant, Owner: owner, Live: true})
	if err != nil {
		return nil, err
	}
	var out []Connection
	var failed error
	for _, r := range list {
		if id != "" && r.ID != id || r.Owner != owner {
			continue
		}
		c, err := m.takeApart(ctx, owner.Tenant, r.ID, ReasonAdmin)
		if err != nil {
			failed = err // the others go on
			continue
		}
		out = append(out, c)
	}
	if failed == nil && id != "" && len(out) == 0 {
		failed = errNoAccount()
	}
	return out, failed
}

// Connections returns the connections of p that are not over, for a page of
// theirs, oldest first.
func (m *Manager) Connections(ctx context.Context, p authz.Principal) ([]Connection, error) {
	if p.IsZero() {
		return nil, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known")
	}
	list, err := m.all(ctx, &Query{Tenant: p.Key().Tenant, Owner: p.Key(), Live: true})
	if err != nil {
		return nil, err
	}
	var out []Connection
	for _, r := range list {
		out = append(out, r.Connection)
	}
	slices.SortFunc(out, func(a, b Connection) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// Sweep removes what is over: transactions a day after their end, and
// disconnected connections after keep, which is how long somebody may ask what
// became of them. Those of a leak stay.
func (m *Manager) Sweep(ctx context.Context, keep time.Duration) (removed int, err error) {
	a, err := m.store.SweepTransactions(ctx, time.Now().AddDate(0, 0, -1))
	if err != nil {
		return 0, errStore(err)
	}
	b, err := m.store.SweepRecords(ctx, time.Now().Add(-keep))
	if err != nil {
		return a, errStore(err)
	}
	return a + b, nil
}

// Resume goes on with disconnects that are not finished, at most limit of them,
// and says how many it finished. A host calls it now and then, from any number of
// processes.
func (m *Manager) Resume(ctx context.Context, limit int) (int, error) {
	list, err := m.store.List(ctx, &Query{All: true, State: Disconnecting, Due: time.Now(), Limit: limit})
	if err != nil {
		return 0, errStore(err)
	}
	finished := 0
	for _, r := range list {
		if ctx.Err() != nil {
			break
		}
		next := m.goOn(context.WithoutCancel(ctx), r)
		if next.State == Disconnected {
			finished++
		}
	}
	return finished, nil
}

// takeApart stops the connection here, and then does what it can of the rest.
func (m *Manager) takeApart(ctx context.Context, tenant, id string, why Reason) (Connection, error) {
	rec, err := m.stop(ctx, tenant, id, why)
	if err != nil || rec.State == Disconnected {
		return rec.Connection, err
	}
	return m.goOn(context.WithoutCancel(ctx), rec).Connection, nil
}

// stop makes the connection unusable. From here on nothing makes it usable
// again: a refresh that is under way loses its swap, and handles die with the
// generation.
func (m *Manager) stop(ctx context.Context, tenant, id string, why Reason) (Record, error) {
	for {
		rec, err := m.store.Get(ctx, tenant, id)
		switch {
		case err != nil:
			return Record{}, missing(err)
		case rec.State == Disconnected || rec.State == Disconnecting && (rec.Reason == ReasonLeak || why != ReasonLeak):
			return rec, nil
		}
		if rec.State != Disconnecting {
			rec.Generation++
			rec.Failures, rec.RetryAt = 0, time.Time{}
			rec.Disconnection = Disconnection{Local: StepDone, Remote: StepPending, Content: StepPending}
			if rec.State != Refreshing {
				rec.Lease = Lease{}
			}
			// The answer to a refresh that is under way is waited for, since what
			// it brings has to be revoked too; its lease is left as it is.
		}
		rec.State, rec.Reason = Disconnecting, why
		stored, err := m.swap(ctx, rec)
		if err == nil {
			return stored, nil
		}
		if !errors.Is(err, ErrVersion) {
			return Record{}, err
		}
	}
}

// goOn does the parts that are left, under a lease, and returns the record as it
// stands. A part that fails is noted and tried again later.
func (m *Manager) goOn(ctx context.Context, rec Record) Record {
	now := time.Now()
	if now.Before(rec.Lease.Until) || now.Before(rec.RetryAt) {
		return rec // somebody is at it, or it is not time yet
	}
	held := rec.Clone()
	held.Lease = Lease{Attempt: rand.Text(), Until: now.Add(m.opts.Lease + farewellFor)}
	held, err := m.swap(ctx, held)
	if err != nil {
		return rec
	}
	next := held.Clone()
	if !next.Disconnection.Remote.Over() {
		next.Disconnection.Remote = m.revoke(ctx, &next)
	}
	if !next.Disconnection.Content.Over() {
		next.Disconnection.Content = m.clean(ctx, next.Connection)
	}
	next.Lease = Lease{}
	if d := next.Disconnection; d.Remote.Over() && d.Content.Over() {
		next.State = Disconnected
	} else {
		next.Failures++
		next.RetryAt = maxTime(next.RetryAt, time.Now().Add(backOff(next.Failures, revokeFirst, revokeMost)))
	}
	if next.Disconnection.Remote.Over() {
		next.Access, next.Refresh = nil, nil
	}
	stored, err := m.swap(ctx, next)
	if err != nil {
		return held // the parts are done again: each can be
	}
	m.log.LogAttrs(ctx, slog.LevelInfo, "a connection is being taken apart", attrs(&stored,
		slog.String("remote", string(stored.Disconnection.Remote)), slog.String("content", string(stored.Disconnection.Content)))...)
	return stored
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// revoke revokes at the provider: the refresh token first, since a grant that
// keeps it lives on.
func (m *Manager) revoke(ctx context.Context, rec *Record) Step {
	prov := m.providers[rec.Provider]
	if prov == nil || prov.Grant != APIKey && rec.TokenEndpoint != prov.Token.BaseURL {
		m.warn(ctx, "a connection cannot be revoked: its provider's profile is gone or another", rec)
		return StepFailed
	}
	access, err := m.unseal(rec.Owner.Tenant, rec.ID, fieldAccess, rec.Access)
	var refresh token.Secret
	if err == nil {
		refresh, err = m.unseal(rec.Owner.Tenant, rec.ID, fieldRefresh, rec.Refresh)
	}
	if err != nil {
		m.warn(ctx, "a connection cannot be revoked: its tokens cannot be opened", rec)
		return StepFailed
	}
	m.farewell(ctx, prov, rec, access)
	if prov.revocation == nil {
		return StepUnsupported
	}
	for _, t := range []struct {
		secret token.Secret
		hint   string
	}{{refresh, "refresh_token"}, {access, "access_token"}} {
		if step := m.revokeOne(ctx, prov, rec, t.secret, t.hint); step != StepDone {
			return step
		}
	}
	return StepDone
}

func (m *Manager) revokeOne(ctx context.Context, prov *provider, rec *Record, s token.Secret, hint string) Step {
	if s.IsZero() {
		return StepDone
	}
	err := prov.revocation.Revoke(ctx, s, hint)
	var f *token.Failure
	switch {
	case err == nil:
		return StepDone
	case errors.As(err, &f) && f.Code == "unsupported_token_type" && hint == "access_token":
		return StepDone // one that the server keeps no record of ends by itself, and its refresh token is gone
	case f != nil && f.RetryAfter > 0:
		rec.RetryAt = time.Now().Add(f.RetryAfter)
	}
	m.warn(ctx, "a token could not be revoked", rec, slog.String("failure", err.Error()))
	return StepFailed
}

// farewell lets the profile take down what it set up. Revocation does not wait
// for it.
func (m *Manager) farewell(ctx context.Context, prov *provider, rec *Record, access token.Secret) {
	if prov.Farewell == nil || access.IsZero() || rec.Reason == ReasonLeak || !rec.Expires.IsZero() && !time.Now().Before(rec.Expires) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewellFor)
	defer cancel()
	if err := prov.session(ctx, access, egress.Changes, func(ctx context.Context, c *http.Client, base string) error { return prov.Farewell(ctx, c, base) }); err != nil {
		m.warn(ctx, "what was set up at the provider could not be taken down", rec)
	}
}

// clean runs every hook, also after one that fails.
func (m *Manager) clean(ctx context.Context, c Connection) Step {
	step := StepDone
	for _, hook := range m.opts.Cleanup {
		if err := hook(ctx, c.clone()); err != nil {
			m.log.WarnContext(ctx, "clean-up after a connection failed", "tenant", c.Owner.Tenant, "connection", c.ID)
			step = StepFailed
		}
	}
	return step
}
