// Package host puts a host together out of connectors and the systems that they
// talk to, for the examples and their tests:
//
//	c, err := tickets.New("tickets", nil)
//	h, err := host.Open(policy, []connector.Connector{c}, []host.System{
//		{Endpoint: "tickets", Connector: "tickets", Provider: providers.NewRedmine(nil), Header: "X-Redmine-API-Key", Key: key},
//	}, nil)
//	defer h.Close()
//	alice, err := h.Principal("alice")
//	r := h.Invoker.Invoke(ctx, &connector.InvokeRequest{Principal: alice, Capability: "search_tickets", Arguments: args})
//
// An embedded provider is served on a port of the loopback interface that the
// system chooses. A real one is reached by its URL, and nothing else differs.
//
// # What it does not do
//
// It is no way to run a host: keys are given in clear, endpoints are plaintext
// on private networks, and writes are remembered in memory unless the options
// name another store. Who is calling is taken from whoever calls Principal.
package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Tenant is the tenant of every principal and of every key.
const Tenant = "acme"

// System is a provider and the way to it.
type System struct {
	// Endpoint names the egress profile, as the connector was given it.
	Endpoint string

	// Provider is an embedded provider. Nil: URL is the base URL of a server
	// that runs elsewhere, on a private network.
	Provider http.Handler
	URL      string

	// Connector is the ID of the connector that the key is for. Key is empty if
	// the system asks for none. Header carries it; empty: Authorization, as a
	// bearer token.
	Connector, Key, Header string

	// Account and Org are the provider's names for the account; both may be
	// empty.
	Account, Org string
}

// Host is a host and its authority. It is safe for concurrent use.
type Host struct {
	Invoker   *connector.Invoker
	Authority *authz.Authority

	servers []*http.Server
	serving sync.WaitGroup
}

// Open starts the embedded providers and joins everything. opts are the
// invoker's, to whose endpoints and credentials those of the systems are added;
// nil is a ledger in memory and no audit. The caller closes the host.
func Open(policy authz.Policy, connectors []connector.Connector, systems []System, opts *connector.Options) (_ *Host, err error) {
	h := &Host{Authority: authz.NewAuthority("example host")}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	o := connector.Options{Forgetful: true}
	if opts != nil {
		o = *opts
	}
	var keys []credential.Broker
	for _, s := range systems {
		p, err := h.reach(s)
		if err != nil {
			return nil, fmt.Errorf("host: %s: %w", s.Endpoint, err)
		}
		o.Endpoints = append(o.Endpoints, p)
		if s.Key == "" {
			continue
		}
		key, err := keyFor(s, p.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("host: %s: %w", s.Endpoint, err)
		}
		keys = append(keys, key)
	}
	if o.Credentials != nil {
		keys = append(keys, o.Credentials)
	}
	o.Credentials = credential.Join(keys...)
	h.Invoker, err = connector.NewInvoker(policy, []*authz.Authority{h.Authority}, connectors, &o)
	return h, err
}

// Private is where a system may be: here, or on a network of one's own.
func Private() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.0.0/16")}
}

// reach serves an embedded provider, and describes the way to a system.
func (h *Host) reach(s System) (egress.Profile, error) {
	p := egress.Profile{Name: s.Endpoint, BaseURL: s.URL, Plaintext: true, Private: Private()}
	switch {
	case (s.Provider == nil) == (s.URL == ""):
		return p, errors.New("want one of Provider and URL")
	case s.Provider == nil:
		return p, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return p, err
	}
	srv := &http.Server{Handler: s.Provider, ReadHeaderTimeout: 10 * time.Second}
	h.servers = append(h.servers, srv)
	h.serving.Go(func() { _ = srv.Serve(l) }) // until Close
	p.BaseURL = "http://" + l.Addr().String()
	return p, nil
}

func keyFor(s System, base string) (*credential.Static, error) {
	origin, err := egress.New(egress.Profile{Name: s.Endpoint, BaseURL: base, Plaintext: true, Private: Private()}, nil)
	if err != nil {
		return nil, err
	}
	secret := func(context.Context) ([]byte, error) { return []byte(s.Key), nil }
	return credential.NewStatic(Tenant, origin.Origin(), secret, &credential.StaticOptions{
		Header: s.Header, Connector: s.Connector, Connection: s.Endpoint, Account: s.Account, Org: s.Org})
}

// Principal is a caller that somebody else has verified.
func (h *Host) Principal(subject string) (authz.Principal, error) {
	return h.Authority.Principal(authz.Identity{Tenant: Tenant, Issuer: "https://issuer.example.test", Subject: subject})
}

// Close ends the embedded providers and waits for them. It may be called twice.
func (h *Host) Close() error {
	var errs []error
	for _, s := range h.servers {
		errs = append(errs, s.Close())
	}
	h.serving.Wait()
	return errors.Join(errs...)
}
