package connection

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// use is what a handle stands for.
type use struct {
	life       context.Context // ended: the handle is over
	principal  authz.Principal
	tenant, id string
	generation int64
	run, cap   string
	tokens     int64 // of the last access token that was put on a request
}

// Resolve implements [credential.Broker]. It reads the store, and renews the
// credential if it is due, so that a caller who must consent again is told before
// anything is sent to the API.
func (m *Manager) Resolve(ctx context.Context, req *credential.ResolveRequest) (credential.Resolved, error) {
	if req == nil || req.Principal.IsZero() {
		return credential.Resolved{}, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known")
	}
	expires := time.Now().Add(handleFor)
	if end := req.Principal.Expires(); !end.IsZero() && end.Before(expires) {
		expires = end
	}
	if !time.Now().Before(expires) {
		return credential.Resolved{}, toolresult.NewError(toolresult.AuthenticationRequired, "the caller's identity is over")
	}
	held, err := m.holds(ctx, req.Principal.Key().Tenant)
	if err == nil && held.stop(req.Run, req.Capability, "") {
		err = errHeld()
	}
	var rec Record
	if err == nil {
		rec, err = m.choose(ctx, req)
	}
	if err == nil && held.stop("", "", rec.ID) {
		err = errHeld()
	}
	if err == nil {
		rec, err = m.enough(ctx, rec, req)
	}
	if err != nil {
		return credential.Resolved{}, err
	}
	h := m.keep(ctx, expires, &use{principal: req.Principal, tenant: rec.Owner.Tenant, id: rec.ID, generation: rec.Generation, run: req.Run, cap: req.Capability})
	return credential.Resolved{Handle: h, Connection: rec.ID, Account: rec.Account, Org: rec.Org, Endpoint: m.providers[rec.Provider].Endpoint,
		Generation: rec.Generation, Expires: expires}, nil
}

// keep makes a handle that ends with ctx.
func (m *Manager) keep(ctx context.Context, expires time.Time, u *use) credential.Handle {
	h := credential.NewHandle()
	life, cancel := context.WithDeadline(ctx, expires)
	u.life = life
	m.mu.Lock()
	m.uses[h] = u
	m.mu.Unlock()
	context.AfterFunc(life, func() {
		cancel()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.uses, h)
	})
	return h
}

// choose returns the one connection that the call is for.
func (m *Manager) choose(ctx context.Context, req *credential.ResolveRequest) (Record, error) {
	found, err := m.candidates(ctx, req)
	if err != nil {
		return Record{}, err
	}
	if req.Connection != "" {
		found = slices.DeleteFunc(found, func(r Record) bool { return r.ID != req.Connection })
	}
	usable := slices.DeleteFunc(slices.Clone(found), func(r Record) bool { return !r.State.Usable() })
	switch {
	case len(usable) > 1:
		return Record{}, toolresult.NewError(toolresult.Conflict, "several connected accounts fit this call: choose one")
	case len(usable) == 1:
		return usable[0], nil
	}
	return m.none(ctx, req, found)
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// candidates are the caller's connections, and those that an operator installed
// for the tenant, that serve the call.
func (m *Manager) candidates(ctx context.Context, req *credential.ResolveRequest) (out []Record, err error) {
	key := req.Principal.Key()
	var owners []authz.PrincipalKey
	if slices.ContainsFunc(m.order, func(p *provider) bool { return p.serves(req) }) {
		owners = append(owners, key)
	}
	if slices.ContainsFunc(m.order, func(p *provider) bool { return p.serves(req) && p.installed() }) {
		owners = append(owners, authz.PrincipalKey{Tenant: key.Tenant})
	}
	for _, owner := range owners {
		list, err := m.all(ctx, &Query{Tenant: key.Tenant, Owner: owner, Live: true})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if p := m.providers[r.Provider]; p != nil && p.serves(req) && r.Owner == owner {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// all reads every page of a query.
func (m *Manager) all(ctx context.Context, q *Query) (out []Record, err error) {
	q.Limit = 200
	for {
		page, err := m.store.List(ctx, q)
		if err != nil {
			return nil, errStore(err)
		}
		if out = append(out, page...); len(page) < q.Limit {
			return out, nil
		}
		last := page[len(page)-1]
		q.AfterTenant, q.AfterID = last.Owner.Tenant, last.ID
	}
}

// none says what the caller can do without a usable connection: extend or renew
// the one that there is, connect one, or nothing.
func (m *Manager) none(ctx context.Context, req *credential.ResolveRequest, found []Record) (Record, error) {
	for _, r := range found {
		if r.State == Reauthorize {
			return Record{}, m.withLink(ctx, errReauthorize(r.Reason), req.Principal, &r, req.Scopes)
		}
	}
	if req.Connection != "" {
		return Record{}, errNoAccount() // chosen by the host, and not there
	}
	for _, p := range m.order {
		if !p.serves(req) {
			continue
		}
		switch p.Grant {
		case TokenExchange:
			return m.adopt(ctx, p, req)
		case AuthorizationCode:
			blank := Record{Connection: Connection{Provider: p.Name}}
			return Record{}, m.withLink(ctx, errNoAccount(), req.Principal, &blank, req.Scopes)
		}
	}
	return Record{}, errNoAccount()
}

// enough checks the scopes and sees to a live access token.
func (m *Manager) enough(ctx context.Context, rec Record, req *credential.ResolveRequest) (Record, error) {
	rec, err := m.widen(ctx, rec, req)
	if err == nil {
		err = m.scoped(ctx, &rec, req)
	}
	if err != nil {
		return Record{}, err
	}
	now, _, err := m.ready(ctx, rec, req.Principal)
	if err != nil {
		if errors.Is(err, toolresult.ConnectionRequired) && rec.Owner == req.Principal.Key() {
			err = m.withLink(ctx, toolresult.AsError(err), req.Principal, &rec, req.Scopes)
		}
		return Record{}, err
	}
	return now, m.scoped(ctx, &now, req) // a renewal may have cost a scope
}

// widen asks for more with the next exchange: nobody has to consent to it. The
// provider's answer says what was granted.
func (m *Manager) widen(ctx context.Context, rec Record, req *credential.ResolveRequest) (Record, error) {
	prov := m.providers[rec.Provider]
	missing := lacking(req.Scopes, rec.Scopes)
	if prov.Grant != TokenExchange || len(missing) == 0 {
		return rec, nil
	}
	if err := m.permitted(ctx, req.Principal, prov, missing); err != nil {
		return rec, err
	}
	next := rec.Clone()
	next.Scopes, next.Access, next.Expires, next.RefreshAt = union(rec.Scopes, missing), nil, time.Time{}, time.Time{}
	stored, err := m.swap(ctx, next)
	if errors.Is(err, ErrVersion) {
		return rec, errBusy()
	}
	return stored, err
}

func (m *Manager) scoped(ctx context.Context, rec *Record, req *credential.ResolveRequest) error {
	if m.providers[rec.Provider].Grant == APIKey && len(rec.Scopes) == 0 {
		return nil // keys of this provider have none
	}
	missing := lacking(req.Scopes, rec.Scopes)
	if len(missing) == 0 {
		return nil
	}
	e := toolresult.NewError(toolresult.InsufficientScope, "the account lacks a scope that the capability needs")
	return m.withLink(ctx, e, req.Principal, rec, missing)
}

// lookup returns what a handle stands for, if it is not over.
func (m *Manager) lookup(h credential.Handle) (*use, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.uses[h]
	if u == nil || h.IsZero() || u.life.Err() != nil {
		return nil, errOver()
	}
	if end, ok := u.life.Deadline(); ok && !time.Now().Before(end) {
		return nil, errOver()
	}
	return u, nil
}

// Apply implements [credential.Broker]. It reads the connection anew, and renews
// its credential if that is due.
func (m *Manager) Apply(ctx context.Context, h credential.Handle, origin string, req *http.Request) error {
	u, err := m.lookup(h)
	if err != nil {
		return err
	}
	if err := m.free(ctx, u); err != nil {
		return err
	}
	rec, secret, err := m.access(ctx, u.tenant, u.id, u.principal)
	if err != nil {
		return err
	}
	if rec.Generation != u.generation {
		return errOver()
	}
	if _, err := m.lookup(h); err != nil {
		return err // it ended meanwhile
	}
	if err := m.providers[rec.Provider].put(origin, req, secret.Reveal()); err != nil {
		return err
	}
	m.mu.Lock()
	u.tokens = rec.Tokens
	m.mu.Unlock()
	return nil
}

// Check implements [credential.Broker]. It reads the store: a disconnect in any
// process ends the handle at once.
func (m *Manager) Check(ctx context.Context, h credential.Handle) error {
	u, err := m.lookup(h)
	if err != nil {
		return err
	}
	if err := m.free(ctx, u); err != nil {
		return err
	}
	rec, err := m.store.Get(ctx, u.tenant, u.id)
	switch {
	case err != nil:
		return missing(err)
	case rec.Generation != u.generation || !rec.State.Usable():
		return errOver()
	}
	return nil
}

// Rejected implements [credential.BrokerWithRejection]: the provider answered
// 401 to a request with this credential. The access token is replaced before it
// is used again, unless that has happened already: once in five minutes at most,
// since some providers say 401 where they mean 403. Nothing is sent by Rejected
// itself.
func (m *Manager) Rejected(ctx context.Context, h credential.Handle) (another bool, err error) {
	u, err := m.lookup(h)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	tokens := u.tokens
	m.mu.Unlock()
	for {
		rec, err := m.store.Get(ctx, u.tenant, u.id)
		if err != nil {
			return false, missing(err)
		}
		now := time.Now().UTC().Truncate(time.Microsecond) // as stores keep it: compared below
		p := m.providers[rec.Provider]
		switch {
		case p == nil || p.Grant == APIKey, rec.Generation != u.generation, !rec.State.Usable():
			return false, nil // nothing to replace
		case rec.Tokens != tokens:
			return true, nil // replaced already
		case now.Sub(rec.Rejected) < rejectEvery && !rec.Rejected.IsZero():
			return rejected(&rec), nil // about to be, unless that failed
		}
		rec.Rejected, rec.RefreshAt = now, now
		if _, err = m.swap(ctx, rec); !errors.Is(err, ErrVersion) {
			return err == nil, err
		}
	}
}
