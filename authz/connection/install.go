package connection

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// InstallRequest is an account that nobody consents to in a browser.
type InstallRequest struct {
	Provider string // needed; its grant is ClientCredentials, ServiceAccount or APIKey

	// Owner is whose calls it serves: one principal, or everybody of a tenant
	// if only Tenant is set. What each of them may reach with it is the policy's
	// to say: the provider sees one account.
	Owner authz.PrincipalKey

	// Account and Org name it; needed and optional. If the profile has Confirm,
	// the provider's word replaces both, and an Org that differs is refused.
	Account, Org, Label string

	Scopes []string // that are asked for, or that the key has
	Key    []byte   // of APIKey
}

// Install stores an account of an operator, or replaces the key and scopes of one
// that is there: its generation grows, and handles of before are over.
func (m *Manager) Install(ctx context.Context, req *InstallRequest) (Connection, error) {
	prov, err := m.installable(req)
	if err != nil {
		return Connection{}, err
	}
	account := Account{req.Account, req.Org, req.Label}
	key := token.NewSecret(strings.TrimSpace(string(req.Key)))
	if prov.Confirm != nil && prov.Grant == APIKey {
		if account, err = m.confirm(ctx, prov, key); err != nil || account.ID == "" {
			return Connection{}, toolresult.WrapError(toolresult.ProviderError, "the provider did not say whose key it is: nothing was stored", err)
		}
		if req.Org != "" && account.Org != req.Org {
			return Connection{}, toolresult.NewError(toolresult.PermissionDenied, "the key belongs to another organization: nothing was stored")
		}
	}
	return m.install(ctx, prov, req.Owner, account, req.Scopes, key)
}

func (m *Manager) installable(req *InstallRequest) (*provider, error) {
	if req == nil || m.providers[req.Provider] == nil {
		return nil, toolresult.NewError(toolresult.InvalidInput, "there is no such provider")
	}
	prov := m.providers[req.Provider]
	bad := toolresult.NewError(toolresult.InvalidInput, "the account cannot be installed")
	switch {
	case prov.Grant != APIKey && prov.Grant != ClientCredentials && prov.Grant != ServiceAccount:
		return nil, bad.With("", "accounts of this provider are connected by users")
	case req.Owner.Tenant == "":
		return nil, bad.With("", "a tenant is needed")
	case (req.Owner.Subject == "") != (req.Owner.Issuer == ""):
		return nil, bad.With("", "an owner has both issuer and subject, or neither")
	case req.Account == "":
		return nil, bad.With("", "an account is needed")
	case (prov.Grant == APIKey) != (len(bytes.TrimSpace(req.Key)) > 0):
		return nil, bad.With("", "an API key needs a key, and nothing else has one")
	case bytes.ContainsFunc(bytes.TrimSpace(req.Key), func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, bad.With("", "the key holds a byte that is not visible ASCII: it cannot be sent")
	case !subset(req.Scopes, prov.Scopes):
		return nil, bad.With("", "a scope is not one that the profile permits")
	}
	return prov, nil
}

// install creates or replaces the record.
func (m *Manager) install(ctx context.Context, prov *provider, owner authz.PrincipalKey, account Account, scopes []string, key token.Secret) (Connection, error) {
	tx := &Transaction{Owner: owner, Provider: prov.Name, Issuer: prov.Issuer, TokenEndpoint: prov.Token.BaseURL, ClientID: prov.ClientID, Resource: prov.Resource}
	for {
		old, found, err := m.existing(ctx, tx, account)
		if err != nil {
			return Connection{}, err
		}
		next := consented(prov, tx, account, &token.Answer{Scopes: slices.Clone(scopes)}, old)
		next.Refresh, next.RetryAt, next.Failures = nil, time.Time{}, 0
		next.Expires, next.RefreshAt = time.Time{}, time.Time{}
		if next.Access, err = m.seal(owner.Tenant, next.ID, fieldAccess, key); err != nil {
			return Connection{}, errSealed(err)
		}
		if found {
			next, err = m.swap(ctx, next)
		} else {
			next, err = m.store.Create(ctx, next)
		}
		switch {
		case err == nil:
			return next.Connection, nil
		case !errors.Is(err, ErrVersion) && !errors.Is(err, ErrAccountTaken):
			return Connection{}, errStore(err)
		}
		if err := sleep(ctx, pollFirst); err != nil {
			return Connection{}, toolresult.AsError(err)
		}
	}
}

// adopt makes the connection of a caller whose credential is exchanged for, and
// gets the first one.
func (m *Manager) adopt(ctx context.Context, prov *provider, req *credential.ResolveRequest) (Record, error) {
	if err := m.permitted(ctx, req.Principal, prov, req.Scopes); err != nil {
		return Record{}, err
	}
	key := req.Principal.Key()
	if leaked, err := m.leaking(ctx, key, prov.Name); err != nil || leaked {
		return Record{}, cmpErr(err, errHeld())
	}
	tx := &Transaction{Owner: key, Provider: prov.Name, Issuer: prov.Issuer, TokenEndpoint: prov.Token.BaseURL, ClientID: prov.ClientID, Resource: prov.Resource}
	account := Account{ID: key.Subject, Label: key.Subject}
	next := consented(prov, tx, account, &token.Answer{Scopes: union(prov.Always, req.Scopes)}, Record{})
	next.ID = "conn-" + rand.Text()
	rec, err := m.store.Create(ctx, next)
	if errors.Is(err, ErrAccountTaken) {
		if old, found, err := m.existing(ctx, tx, account); err == nil && found {
			return old, nil
		}
		return Record{}, errBusy()
	}
	if err != nil {
		return Record{}, errStore(err)
	}
	return rec, nil
}
