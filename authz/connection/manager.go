package connection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
)

// Options are options of [New]. Zero fields take the values in the comments.
type Options struct {
	// ConnectURL returns the address of the host's own page for a transaction:
	// "https://host.example/connect/" + id. It must be https, or http on
	// loopback. Nil: results name no link, and Begin is refused.
	ConnectURL func(id string) string

	// LinkFor is how long a link can be followed, at most a day. 0: 15 min. Once
	// it was followed, the user has 10 min at the provider.
	LinkFor time.Duration

	// Permit is asked before anybody is sent to a provider for scopes: the
	// administrator's policy beside Provider.Scopes. An error refuses. Nil:
	// everything that is in Provider.Scopes.
	Permit func(ctx context.Context, p authz.Principal, provider string, scopes []string) error

	// Cleanup removes what was stored because of a connection: caches, cursors,
	// subscriptions, ingested material. Each may be called again after an error
	// or a crash, and is asked until it returns nil.
	Cleanup []func(ctx context.Context, c Connection) error

	// Lease is how long one attempt at an issuer may hold a connection. It must
	// be 5 s longer than the longest request to a token endpoint. 0: 15 s
	// longer.
	Lease time.Duration

	// Log is told what operators must know; never a secret. Nil: nobody.
	Log *slog.Logger
}

const (
	stateFor     = 10 * time.Minute // from being sent to the provider to coming back
	defaultLink  = 15 * time.Minute
	leaseMargin  = 5 * time.Second
	defaultSlack = 15 * time.Second
	handleFor    = time.Hour
)

// Manager runs connections: it sends users to providers, renews credentials,
// puts them on requests, and takes connections apart. It is a
// [credential.Broker], is safe for concurrent use, and shares what it knows with
// other processes through its Store alone.
//
// It starts a goroutine for each renewal, so that a caller who gives up does not
// tear up a request that works once; see [Manager.Close].
type Manager struct {
	store     Store
	keys      *credential.Keyring
	providers map[string]*provider
	order     []*provider
	opts      Options
	log       *slog.Logger

	mu      sync.Mutex
	closed  bool
	flights map[flightKey]*flight
	uses    map[credential.Handle]*use
	links   map[linkKey]Link
	running sync.WaitGroup
}

var _ credential.BrokerWithRejection = (*Manager)(nil)

// New returns a manager. keys seals what is stored and is needed, as is each
// provider's profile being whole. opts may be nil.
func New(store Store, keys *credential.Keyring, providers []*Provider, opts *Options) (*Manager, error) {
	m := &Manager{store: store, keys: keys, providers: map[string]*provider{},
		flights: map[flightKey]*flight{}, uses: map[credential.Handle]*use{}, links: map[linkKey]Link{}}
	if opts != nil {
		m.opts = *opts
	}
	if store == nil || keys == nil {
		return nil, errors.New("connection: a store and a keyring are needed: nothing is kept in the clear")
	}
	if _, err := keys.Seal(credential.Place{Tenant: "t", Record: "r", Field: "f"}, nil); err != nil {
		return nil, fmt.Errorf("connection: the keyring cannot seal: %w", err)
	}
	for _, p := range providers {
		checked, err := newProvider(p)
		if err != nil {
			return nil, err
		}
		if m.providers[checked.Name] != nil {
			return nil, fmt.Errorf("connection: two providers are named %q", checked.Name)
		}
		m.providers[checked.Name] = checked
		m.order = append(m.order, checked)
	}
	return m, m.checkOptions()
}

func (m *Manager) checkOptions() error {
	o := &m.opts
	var longest time.Duration
	redirects := map[string]string{}
	for _, p := range m.order {
		for _, c := range []*token.Client{p.token, p.revocation} {
			if c != nil {
				longest = max(longest, c.Timeout())
			}
		}
		if p.Grant != AuthorizationCode {
			continue
		}
		if other := redirects[p.RedirectURI]; other != "" {
			return fmt.Errorf("connection: providers %q and %q share a RedirectURI: each needs its own, so that one cannot answer for another", other, p.Name)
		}
		redirects[p.RedirectURI] = p.Name
	}
	if o.Lease == 0 {
		o.Lease = longest + defaultSlack
	}
	switch {
	case o.Lease < longest+leaseMargin:
		return fmt.Errorf("connection: a lease of %v is too short for a request of %v: it must be %v longer, or two processes will spend one refresh token", o.Lease, longest, leaseMargin)
	case o.LinkFor < 0 || o.LinkFor > 24*time.Hour:
		return errors.New("connection: LinkFor must be from 0, which is 15 min, to a day")
	case o.ConnectURL != nil && !webURL(o.ConnectURL("id"), true):
		return errors.New("connection: ConnectURL must return https, or http on loopback, without query and fragment")
	case o.ConnectURL != nil && !strings.Contains(o.ConnectURL("an-id"), "an-id"):
		return errors.New("connection: ConnectURL must return an address with the id in it")
	}
	if o.LinkFor == 0 {
		o.LinkFor = defaultLink
	}
	if m.log = o.Log; m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Close refuses new renewals and waits for those that run, until ctx ends. A
// renewal that is given up on is taken up by the next process.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		m.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The fields that are sealed.
const (
	fieldAccess   = "access"
	fieldRefresh  = "refresh"
	fieldVerifier = "verifier"
)

// seal seals a secret for a connection; "" seals to nothing.
func (m *Manager) seal(tenant, id, field string, s token.Secret) ([]byte, error) {
	if s.IsZero() {
		return nil, nil
	}
	return m.keys.Seal(credential.Place{Tenant: tenant, Record: id, Field: field}, []byte(s.Reveal()))
}

// unseal is the reverse.
func (m *Manager) unseal(tenant, id, field string, sealed []byte) (token.Secret, error) {
	if len(sealed) == 0 {
		return token.Secret{}, nil
	}
	text, err := m.keys.Open(credential.Place{Tenant: tenant, Record: id, Field: field}, sealed)
	if err != nil {
		return token.Secret{}, errSealed(err)
	}
	return token.NewSecret(string(text)), nil
}

// attrs name a connection in logs.
func attrs(r *Record, more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("tenant", r.Owner.Tenant), slog.String("connection", r.ID), slog.String("provider", r.Provider)}, more...)
}

func (m *Manager) warn(ctx context.Context, what string, r *Record, more ...slog.Attr) {
	m.log.LogAttrs(ctx, slog.LevelWarn, what, attrs(r, more...)...)
}
