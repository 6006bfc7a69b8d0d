package connection

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

const (
	confirmFor = 20 * time.Second // asking whose account it is
	storeTries = 5
)

// connect asks the provider whose account the tokens are for, and stores them.
// Tokens that are not stored are revoked.
func (m *Manager) connect(ctx context.Context, prov *provider, tx *Transaction, a *token.Answer) (Record, string) {
	if !a.Usable {
		m.discard(ctx, prov, Record{}, a)
		return Record{}, failedRefused
	}
	account, err := m.confirm(ctx, prov, a.Access)
	if err != nil || account.ID == "" {
		m.log.LogAttrs(ctx, slog.LevelWarn, "an account was not confirmed", slog.String("tenant", tx.Owner.Tenant), slog.String("provider", prov.Name))
		m.discard(ctx, prov, Record{}, a)
		return Record{}, failedConfirm
	}
	if tx.Org != "" && account.Org != tx.Org {
		m.discard(ctx, prov, Record{}, a)
		return Record{}, failedOrg
	}
	if !a.Scoped {
		a.Scopes = tx.Scopes // RFC 6749 section 5.1: as asked for
	}
	rec, word := m.save(ctx, prov, tx, account, a)
	if word != "" {
		m.discard(ctx, prov, rec, a)
	}
	return rec, word
}

// confirm asks the provider, and only reads.
func (m *Manager) confirm(ctx context.Context, prov *provider, access token.Secret) (account Account, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmFor)
	defer cancel()
	err = prov.session(ctx, access, egress.Reads, func(ctx context.Context, c *http.Client, base string) (err error) {
		account, err = prov.Confirm(ctx, c, base)
		return err
	})
	return account, err
}

// save makes a record, or swaps the tokens of the one that there is.
func (m *Manager) save(ctx context.Context, prov *provider, tx *Transaction, account Account, a *token.Answer) (rec Record, word string) {
	for try := range storeTries {
		if try > 0 && sleep(ctx, pollFirst) != nil {
			break
		}
		old, found, err := m.existing(ctx, tx, account)
		switch {
		case err != nil:
			continue
		case found && tx.Connection != "" && (old.Generation != tx.Generation || !old.State.Usable() && old.State != Reauthorize):
			return old, failedOver
		case found && (old.Account != account.ID || old.Org != account.Org):
			return old, failedAccount
		case tx.Connection != "" && !found:
			return Record{}, failedOver
		}
		next := consented(prov, tx, account, a, old)
		if err := m.setTokens(prov, &next, a, time.Time{}); err != nil {
			return old, failedInternal
		}
		next.NoRefresh = prov.ExpectRefresh && len(next.Refresh) == 0
		if found {
			rec, err = m.swap(ctx, next)
		} else {
			rec, err = m.store.Create(ctx, next)
		}
		if err == nil {
			m.replaced(ctx, prov, old, a)
			return rec, ""
		}
	}
	return rec, failedInternal
}

// existing is the record that a consent is about: the one that is extended, or
// the one that the owner has of the account. A disconnected one is not.
func (m *Manager) existing(ctx context.Context, tx *Transaction, account Account) (Record, bool, error) {
	if tx.Connection != "" {
		rec, err := m.store.Get(ctx, tx.Owner.Tenant, tx.Connection)
		return rec, err == nil, err
	}
	list, err := m.all(ctx, &Query{Tenant: tx.Owner.Tenant, Owner: tx.Owner, Provider: tx.Provider, Live: true})
	for _, r := range list {
		if r.Account == account.ID && r.Org == account.Org && (r.State.Usable() || r.State == Reauthorize) {
			return r, true, err
		}
	}
	return Record{}, false, err
}

// consented is old, or a new record, as of a consent. What was granted before at
// an issuer that grants one by one is gone with the old tokens.
func consented(prov *provider, tx *Transaction, account Account, a *token.Answer, old Record) Record {
	next := old.Clone()
	now := time.Now()
	if next.ID == "" {
		next.ID, next.Owner, next.Provider, next.Created, next.Updated = "conn-"+rand.Text(), tx.Owner, tx.Provider, now, now
	}
	if len(a.Refresh.Reveal()) == 0 && (old.Issuer != tx.Issuer || old.TokenEndpoint != tx.TokenEndpoint || old.ClientID != tx.ClientID) {
		next.Refresh = nil // of another issuer or client
	}
	next.Issuer, next.TokenEndpoint, next.ClientID, next.Resource = tx.Issuer, tx.TokenEndpoint, tx.ClientID, tx.Resource
	next.Account, next.Org, next.Label = account.ID, account.Org, account.Label
	next.Scopes = union(a.Scopes)
	next.State, next.Reason, next.Lease, next.Attempt, next.Rejected = Active, "", Lease{}, "", time.Time{}
	next.Generation++
	return next
}

// replaced revokes what a new consent replaced, where that does not end the new
// tokens too.
func (m *Manager) replaced(ctx context.Context, prov *provider, old Record, a *token.Answer) {
	if prov.revocation == nil || prov.RevokesGrant || a.Refresh.IsZero() || len(old.Refresh) == 0 || old.TokenEndpoint != prov.Token.BaseURL {
		return
	}
	s, err := m.unseal(old.Owner.Tenant, old.ID, fieldRefresh, old.Refresh)
	if err != nil || s.Reveal() == a.Refresh.Reveal() {
		return
	}
	if err := prov.revocation.Revoke(ctx, s, "refresh_token"); err != nil {
		m.warn(ctx, "the tokens of an earlier consent could not be revoked", &old)
	}
}

// discard revokes tokens that are not kept. now is the record that they were
// for, if there is one. Where revoking one token ends the whole grant, and the
// record lives, nothing is revoked: it would take the record's own tokens along.
func (m *Manager) discard(ctx context.Context, prov *provider, now Record, a *token.Answer) {
	if prov.revocation == nil || prov.RevokesGrant && now.State.Usable() {
		return
	}
	s, hint := a.Refresh, "refresh_token"
	if s.IsZero() {
		s, hint = a.Access, "access_token"
	}
	if err := prov.revocation.Revoke(ctx, s, hint); err == nil {
		return
	}
	m.warn(ctx, "tokens that are not kept could not be revoked", &now)
	if now.State == Disconnecting {
		m.remember(ctx, now, a)
	}
}

// remember puts tokens that could not be revoked into a connection that is being
// taken apart, so that its revocation covers them. They serve no call there.
func (m *Manager) remember(ctx context.Context, now Record, a *token.Answer) {
	var err error
	if now.Access, err = m.seal(now.Owner.Tenant, now.ID, fieldAccess, a.Access); err != nil {
		return
	}
	if !a.Refresh.IsZero() {
		if now.Refresh, err = m.seal(now.Owner.Tenant, now.ID, fieldRefresh, a.Refresh); err != nil {
			return
		}
	}
	now.Disconnection.Remote = StepPending
	if _, err = m.swap(ctx, now); err != nil && !errors.Is(err, ErrVersion) {
		m.warn(ctx, "tokens that are still to be revoked could not be noted", &now)
	}
}
