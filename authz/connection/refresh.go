package connection

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"net/url"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	aheadMost     = 5 * time.Minute        // an access token is replaced this long before its end, or a tenth of its life
	pollFirst     = 10 * time.Millisecond  // between looks at a lease of another process
	pollMost      = 250 * time.Millisecond //
	backOffFirst  = time.Second            // after a failure that says nothing about the grant
	backOffMost   = 5 * time.Minute        //
	backOffConfig = 5 * time.Minute        // after our registration was refused
	lateFirst     = 30 * time.Second       // after a late retry that nobody answered
	maxLate       = 6                      // unanswered attempts before the user is asked
	maxRefused    = 5                      // answers in no known words before the user is asked
	rejectEvery   = 5 * time.Minute        // a rejection replaces an access token this often at most
)

// flightKey is what one renewal is for.
type flightKey struct {
	memoryKey
	whose string
}

// flight is one renewal in this process, which all who need it wait for.
type flight struct {
	done chan struct{}
	rec  Record
	err  error
}

// access returns the record with an access token that can be used now, renewing
// it if it is due. The record is read anew.
func (m *Manager) access(ctx context.Context, tenant, id string, p authz.Principal) (Record, token.Secret, error) {
	rec, err := m.store.Get(ctx, tenant, id)
	if err != nil {
		return Record{}, token.Secret{}, missing(err)
	}
	return m.ready(ctx, rec, p)
}

// ready is access for a record that was just read.
func (m *Manager) ready(ctx context.Context, rec Record, p authz.Principal) (Record, token.Secret, error) {
	if rec = m.seen(rec, p); !due(&rec, time.Now()) || !rec.State.Usable() {
		return m.open(rec)
	}
	next, err := m.renew(ctx, rec, p)
	if err != nil {
		return Record{}, token.Secret{}, err
	}
	return m.open(next)
}

// missing makes an account that is not there, or is somebody else's, one answer.
func missing(err error) error {
	if errors.Is(err, toolresult.NotFound) {
		return errNoAccount()
	}
	return errStore(err)
}

// open returns the access token of a record that needs no renewal, or had it.
func (m *Manager) open(rec Record) (Record, token.Secret, error) {
	if rec.State == Reauthorize {
		return Record{}, token.Secret{}, errReauthorize(rec.Reason)
	}
	if !rec.State.Usable() {
		return Record{}, token.Secret{}, errNoAccount()
	}
	s, err := m.unseal(rec.Owner.Tenant, rec.ID, fieldAccess, rec.Access)
	if err == nil && s.IsZero() {
		err = errBusy()
	}
	return rec, s, err
}

// due reports whether the access token should be replaced. One whose end nobody
// knows is replaced when the provider refuses it.
func due(r *Record, now time.Time) bool {
	switch {
	case len(r.Access) == 0:
		return true
	case r.RefreshAt.IsZero():
		return false
	}
	return !now.Before(r.RefreshAt)
}

// alive reports whether the access token that is there can still be used.
func alive(r *Record, now time.Time) bool {
	return len(r.Access) > 0 && (r.Expires.IsZero() || now.Before(r.Expires)) && !rejected(r)
}

// rejected reports whether the provider refused the present token.
func rejected(r *Record) bool { return !r.Rejected.IsZero() && r.Rejected.Equal(r.RefreshAt) }

// renew waits for the one renewal of this process, or starts it. It ends with
// ctx; the renewal does not.
func (m *Manager) renew(ctx context.Context, rec Record, p authz.Principal) (Record, error) {
	key := flightKey{keyOf(rec), rec.For}
	m.mu.Lock()
	f := m.flights[key]
	if f == nil && m.closed {
		m.mu.Unlock()
		return Record{}, toolresult.NewError(toolresult.ProviderUnavailable, "the host is shutting down")
	}
	if f == nil {
		f = &flight{done: make(chan struct{}), err: toolresult.NewError(toolresult.Internal, "a renewal ended without an answer")}
		m.flights[key] = f
		m.running.Add(1)
		go m.fly(context.WithoutCancel(ctx), key, f, p)
	}
	m.mu.Unlock()
	select {
	case <-f.done:
		return f.rec, f.err
	case <-ctx.Done():
		return Record{}, toolresult.AsError(ctx.Err())
	}
}

// fly runs one renewal. Whatever becomes of it, nobody waits for ever.
func (m *Manager) fly(ctx context.Context, key flightKey, f *flight, p authz.Principal) {
	defer func() {
		m.mu.Lock()
		delete(m.flights, key)
		m.mu.Unlock()
		close(f.done)
		m.running.Done()
	}()
	ctx, cancel := context.WithTimeout(ctx, 2*m.opts.Lease)
	defer cancel()
	f.rec, f.err = m.settle(ctx, key, p)
}

// settle brings a connection to where its access token can be used: it renews
// it, or finds that somebody else did. It never sends before it holds the lease.
func (m *Manager) settle(ctx context.Context, key flightKey, p authz.Principal) (Record, error) {
	for wait := pollFirst; ; wait = min(2*wait, pollMost) {
		rec, err := m.store.Get(ctx, key.tenant, key.id)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Record{}, missing(err)
		}
		rec = m.seen(rec, p)
		now := time.Now()
		switch {
		case rec.State == Reauthorize:
			return Record{}, errReauthorize(rec.Reason)
		case !rec.State.Usable():
			return Record{}, errNoAccount()
		case !due(&rec, now):
			return rec, nil // somebody was quicker
		case now.Before(rec.Lease.Until):
			if err := sleep(ctx, wait); err != nil {
				return usableOr(rec, errBusy())
			}
			continue
		case now.Before(rec.RetryAt):
			return usableOr(rec, toolresult.NewError(toolresult.ProviderUnavailable, "the account's credential cannot be renewed now").WithRetryAfter(rec.RetryAt.Sub(now)))
		case (rec.State == RefreshUnknown || rec.State == Refreshing) && alive(&rec, now) && len(rec.Refresh) > 0:
			// Somebody's answer was lost, or its process died. A strict issuer
			// ends this token when the spent one is sent again, so: late.
			return m.postpone(ctx, rec)
		}
		next, again, err := m.attempt(ctx, rec, p)
		if !again {
			return next, err
		}
	}
}

// usableOr returns the record if its token still lives, else the error.
func usableOr(rec Record, err error) (Record, error) {
	if alive(&rec, time.Now()) {
		return rec, nil
	}
	return Record{}, err
}

// postpone notes that a refresh's answer is not coming, and moves the retry to
// the end of the access token.
func (m *Manager) postpone(ctx context.Context, rec Record) (Record, error) {
	next := rec.Clone()
	next.State, next.Lease = RefreshUnknown, Lease{}
	next.RefreshAt, next.Reason = next.Expires, ReasonUnknown
	stored, err := m.swap(ctx, next)
	switch {
	case err == nil:
		m.warn(ctx, "the answer to a refresh was lost; the access token is used while it lives", &stored)
		return stored, nil
	case errors.Is(err, ErrVersion):
		return rec, nil
	}
	return Record{}, err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d + mathrand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// swap writes a record and names what the store says.
func (m *Manager) swap(ctx context.Context, rec Record) (Record, error) {
	rec.Updated = time.Now()
	next, err := m.store.CompareAndSwap(ctx, rec)
	if err == nil || errors.Is(err, ErrVersion) || errors.Is(err, ErrAccountTaken) {
		return next, err
	}
	return Record{}, errStore(err)
}

// attempt takes the lease, sends once, and stores what came of it. again says
// that somebody else was first.
func (m *Manager) attempt(ctx context.Context, rec Record, p authz.Principal) (next Record, again bool, err error) {
	prov := m.providers[rec.Provider]
	switch {
	case prov == nil || !prov.fixes(rec.Issuer, rec.TokenEndpoint, rec.ClientID, rec.Resource):
		return Record{}, false, toolresult.NewError(toolresult.ProviderError, "the provider's profile is not the one under which the account was connected: an operator must correct it, or the account be connected again")
	case !prov.mints() && len(rec.Refresh) == 0:
		return m.over(ctx, rec, ReasonNoRefresh)
	}
	refresh, err := m.unseal(rec.Owner.Tenant, rec.ID, fieldRefresh, rec.Refresh)
	if err != nil {
		return Record{}, false, err // before the lease: nothing is known to be wrong
	}
	form, end, err := m.form(ctx, prov, &rec, refresh, p)
	if err != nil {
		return Record{}, false, err
	}
	held := rec.Clone()
	held.Lease = Lease{Attempt: rand.Text(), Until: time.Now().Add(m.opts.Lease)}
	if held.State != Active && !prov.mints() {
		held.Late = true // its answer was lost once: this is the retry
	}
	held.State = Refreshing
	if held, err = m.swap(ctx, held); err != nil {
		return Record{}, errors.Is(err, ErrVersion), err
	}
	sendCtx, cancel := context.WithTimeout(ctx, prov.token.Timeout())
	defer cancel()
	answer, err := prov.token.Post(sendCtx, form)
	var f *token.Failure
	if errors.As(err, &f) {
		return m.failed(ctx, prov, held, f)
	}
	if prov.mints() {
		answer.Refresh = token.Secret{} // RFC 6749 section 4.4.3: there should be none
	}
	answer.Usable = prov.fits(answer)
	return m.commit(ctx, prov, held, answer, end)
}

// form is what is sent. end bounds the life of what comes back; zero: nothing
// does.
func (m *Manager) form(ctx context.Context, prov *provider, rec *Record, refresh token.Secret, p authz.Principal) (form url.Values, end time.Time, err error) {
	form = url.Values{}
	if prov.Resource != "" {
		form.Set("resource", rec.Resource)
	}
	switch prov.Grant {
	case AuthorizationCode:
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", refresh.Reveal())
		if prov.ScopeOnRefresh && len(rec.Scopes) > 0 {
			form.Set("scope", prov.scopeText(rec.Scopes))
		}
		return form, end, nil
	case ClientCredentials:
		form.Set("grant_type", "client_credentials")
	case ServiceAccount:
		err = m.assert(prov, rec, form)
	case TokenExchange:
		end, err = m.exchange(ctx, prov, form, p)
	}
	if len(rec.Scopes) > 0 && prov.Grant != ServiceAccount {
		form.Set("scope", prov.scopeText(rec.Scopes))
	}
	return form, end, err
}

// commit stores new tokens. Nobody sees them before they are durable, and a
// store that fails is asked again while the lease is ours.
func (m *Manager) commit(ctx context.Context, prov *provider, held Record, a *token.Answer, end time.Time) (Record, bool, error) {
	for wait := pollFirst; ; wait *= 2 {
		next, err := m.renewed(prov, held, a, end)
		if err != nil {
			return Record{}, false, err
		}
		stored, err := m.swap(ctx, next)
		switch {
		case err == nil:
			return m.afterCommit(ctx, stored, a)
		case errors.Is(err, ErrVersion):
			return m.late(ctx, prov, held, a, end)
		}
		if time.Now().Add(wait).After(held.Lease.Until) || sleep(ctx, wait) != nil {
			m.log.LogAttrs(ctx, slog.LevelError, "renewed tokens could not be stored and are lost", attrs(&held)...)
			return Record{}, false, err
		}
	}
}

func (m *Manager) afterCommit(ctx context.Context, stored Record, a *token.Answer) (Record, bool, error) {
	if !a.Usable {
		m.warn(ctx, "the provider gave a token of a type that is no bearer token", &stored)
		return Record{}, false, toolresult.NewError(toolresult.ProviderError, "the provider gave a token of a type that cannot be used")
	}
	return stored, false, nil
}

// renewed is the record with new tokens.
func (m *Manager) renewed(prov *provider, held Record, a *token.Answer, end time.Time) (Record, error) {
	next := held.Clone()
	if err := m.setTokens(prov, &next, a, end); err != nil {
		return Record{}, err
	}
	if a.Scoped {
		next.Scopes = slices.Clone(a.Scopes) // authoritative, even if smaller; absent: as granted before
	}
	next.State, next.Reason, next.Attempt, next.Lease = Active, "", held.Lease.Attempt, Lease{}
	if !a.Usable {
		next.RetryAt = time.Now().Add(backOffConfig)
	}
	return next, nil
}

// setTokens seals the tokens of an answer into a record and sets its times. A
// refresh token that did not come leaves the old one.
func (m *Manager) setTokens(prov *provider, r *Record, a *token.Answer, end time.Time) (err error) {
	access := a.Access
	if !a.Usable {
		access = token.Secret{}
	}
	if r.Access, err = m.seal(r.Owner.Tenant, r.ID, fieldAccess, access); err != nil {
		return errSealed(err)
	}
	if !a.Refresh.IsZero() {
		if r.Refresh, err = m.seal(r.Owner.Tenant, r.ID, fieldRefresh, a.Refresh); err != nil {
			return errSealed(err)
		}
	}
	r.Tokens++
	r.RetryAt, r.Failures, r.Late = time.Time{}, 0, false
	if a.Lifetime > 0 {
		r.Lifetime = a.Lifetime
	}
	life := a.Lifetime
	if life == 0 {
		life = r.Lifetime
	}
	if life == 0 {
		life = prov.Lifetime
	}
	r.Expires, r.RefreshAt = time.Time{}, time.Time{}
	if life > 0 {
		r.Expires = a.Sent.Add(life)
	}
	if !end.IsZero() && (r.Expires.IsZero() || end.Before(r.Expires)) {
		r.Expires = end
	}
	if r.RefreshAt = r.Expires; !r.Expires.IsZero() && (prov.mints() || len(r.Refresh) > 0) {
		ahead := min(aheadMost, r.Expires.Sub(a.Sent)/10)
		if ahead > 1 {
			ahead -= mathrand.N(ahead / 2) // connections that were made together are not renewed together
		}
		r.RefreshAt = r.Expires.Add(-ahead)
	}
	return nil
}

// late decides about tokens whose lease was lost meanwhile. They are stored if
// the record still holds what was spent for them, and else revoked.
func (m *Manager) late(ctx context.Context, prov *provider, held Record, a *token.Answer, end time.Time) (Record, bool, error) {
	for {
		now, err := m.store.Get(ctx, held.Owner.Tenant, held.ID)
		switch {
		case err != nil:
			return Record{}, false, missing(err)
		case now.Attempt == held.Lease.Attempt:
			return now, false, nil // it was stored after all
		case now.Generation != held.Generation || now.Tokens != held.Tokens || now.For != held.For || !now.State.Usable():
			m.discard(ctx, prov, now, a)
			return Record{}, true, nil
		}
		if now.Lease.Attempt != "" && now.Lease.Attempt != held.Lease.Attempt {
			m.warn(ctx, "a refresh outlived its lease", &held)
		}
		now.Lease.Attempt = held.Lease.Attempt
		next, err := m.renewed(prov, now, a, end)
		if err != nil {
			return Record{}, false, err
		}
		stored, err := m.swap(ctx, next)
		if err == nil {
			return m.afterCommit(ctx, stored, a)
		}
		if !errors.Is(err, ErrVersion) {
			return Record{}, false, err
		}
	}
}

// failed stores what a request without tokens means.
func (m *Manager) failed(ctx context.Context, prov *provider, held Record, f *token.Failure) (Record, bool, error) {
	if f.Kind == token.Dead && !prov.mints() {
		return m.dead(ctx, held, f)
	}
	next := held.Clone()
	next.Lease, next.State = Lease{}, Active
	next.Failures++
	wait := backOff(next.Failures, backOffFirst, backOffMost)
	switch {
	case prov.mints():
	case f.Kind == token.Unknown:
		return m.unknown(ctx, next, f)
	case held.Late && f.Kind != token.Misconfigured && f.Kind != token.Refused:
		next.State, next.Late = RefreshUnknown, false // not sent, or not acted on: the retry is still to be made
	case held.Late:
		next.State = RefreshUnknown
	}
	if f.Kind == token.Dead { // of what we made ourselves
		f = &token.Failure{Kind: token.Misconfigured, Code: f.Code, Status: f.Status, RetryAfter: f.RetryAfter}
	}
	if f.Kind == token.Misconfigured && prov.Grant != TokenExchange {
		wait = max(wait, backOffConfig)
		m.log.LogAttrs(ctx, slog.LevelError, "the provider refuses this host's registration", attrs(&held, slog.String("failure", f.Error()))...)
	}
	if f.Kind == token.Refused && next.Failures >= maxRefused && !prov.mints() {
		return m.over(ctx, next, ReasonRejected)
	}
	next.RetryAt = time.Now().Add(max(wait, f.RetryAfter))
	return m.give(ctx, next, f)
}

// give stores a record after a failure. The old token serves while it lives.
func (m *Manager) give(ctx context.Context, next Record, f *token.Failure) (Record, bool, error) {
	stored, err := m.swap(ctx, next)
	if errors.Is(err, ErrVersion) {
		return Record{}, true, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	m.warn(ctx, "a renewal failed", &stored, slog.String("failure", f.Error()))
	wait := time.Until(stored.RetryAt)
	rec, err := usableOr(stored, errIssuer(f).WithRetryAfter(max(0, wait)))
	return rec, false, err
}

// unknown keeps the refresh token of a request whose answer was lost: nobody
// knows whether it is spent. The access token is used while it lives, then there
// is one late retry. Retries that nobody answers say nothing new, and are made
// further and further apart.
func (m *Manager) unknown(ctx context.Context, next Record, f *token.Failure) (Record, bool, error) {
	now := time.Now()
	if next.Failures >= maxLate && next.Late {
		return m.over(ctx, next, ReasonUnknown)
	}
	next.State, next.Reason = RefreshUnknown, ReasonUnknown
	switch {
	case next.Late:
		next.RetryAt = now.Add(max(f.RetryAfter, backOff(next.Failures-1, lateFirst, 8*lateFirst)))
	case alive(&next, now):
		next.RefreshAt, next.RetryAt = next.Expires, now.Add(f.RetryAfter)
	default:
		next.RetryAt = now.Add(max(f.RetryAfter, backOffFirst))
	}
	return m.give(ctx, next, f)
}

// dead handles invalid_grant: read again before believing it.
func (m *Manager) dead(ctx context.Context, held Record, f *token.Failure) (Record, bool, error) {
	now, err := m.store.Get(ctx, held.Owner.Tenant, held.ID)
	if err != nil {
		return Record{}, false, missing(err)
	}
	if now.Tokens != held.Tokens || now.Generation != held.Generation || !now.State.Usable() {
		return Record{}, true, nil // a sibling rotated it: not dead
	}
	reason := ReasonRevoked
	if held.Late {
		reason = ReasonUnknown
	}
	now.Lease = Lease{}
	return m.over(ctx, now, reason)
}

// over ends a connection until the user consents again: nothing is sent for it
// any more.
func (m *Manager) over(ctx context.Context, rec Record, reason Reason) (Record, bool, error) {
	next := rec.Clone()
	next.State, next.Reason, next.Lease = Reauthorize, reason, Lease{}
	stored, err := m.swap(ctx, next)
	if errors.Is(err, ErrVersion) {
		return Record{}, true, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	m.warn(ctx, "the user must connect the account again", &stored, slog.String("reason", string(reason)))
	return Record{}, false, errReauthorize(reason)
}

// backOff doubles from first to most.
func backOff(failures int, first, most time.Duration) time.Duration {
	d := first
	for range min(max(failures-1, 0), 20) {
		if d = 2 * d; d >= most {
			return most
		}
	}
	return d
}
