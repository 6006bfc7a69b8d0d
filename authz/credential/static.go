package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// StaticOptions are options of [NewStatic]. The zero value is a bearer token
// for every connector of the tenant.
type StaticOptions struct {
	// Header is the name of the header that carries the key, such as
	// "X-Redmine-API-Key". Empty: "Authorization: Bearer <key>" (RFC 6750
	// section 2.1), and Prefix must be empty.
	Header string
	// Prefix stands before the key in Header, such as "Token "; may be empty.
	Prefix string

	// Connector is the only connector that the key is for; empty: all that
	// send to its origin.
	Connector string
	// Mode is the only mode of authentication that the key is for; empty: all.
	Mode string
	// Scopes are the provider scopes that the key has. A capability that
	// needs others is refused with INSUFFICIENT_SCOPE. Nil: keys of this
	// provider have no scopes, and none are asked for.
	Scopes []string

	// Connection names the account within the tenant; "static" if empty.
	// Account and Org are the provider's names for it, and Endpoint the
	// egress profile; all three may be empty.
	Connection, Account, Org, Endpoint string

	// Lifetime is how long a handle lives at most, if its call and the
	// identity of its principal last so long; an hour if it is 0.
	Lifetime time.Duration
}

// Static is a [Broker] with one key for one origin, for providers where the
// operator's key serves every principal of one tenant. It is safe for
// concurrent use. The zero Static has no key and refuses everything. Use
// [Join] for several.
type Static struct {
	tenant string
	place  Placement
	secret func(context.Context) ([]byte, error)
	opts   StaticOptions

	mu       sync.Mutex
	disabled bool
	uses     map[Handle]context.Context // ended: the handle is over
}

// NewStatic returns a broker with one key of one tenant for one origin
// ("https://api.example.com"; the port may be left out). The secret is called
// for each request, concurrently, so that it can be read from a file that
// rotates; what it returns is not kept. Its errors must not quote the key. It
// must not be a literal in the program.
//
// It refuses an empty tenant, an origin with anything but scheme, host and
// port, a nil secret, and a header that is no field name (RFC 9110 section
// 5.1) or that frames the message.
func NewStatic(tenant, origin string, secret func(context.Context) ([]byte, error), opts *StaticOptions) (*Static, error) {
	s := &Static{tenant: tenant, secret: secret, uses: map[Handle]context.Context{}}
	if opts != nil {
		s.opts = *opts
		s.opts.Scopes = slices.Clone(opts.Scopes)
	}
	if tenant == "" || secret == nil {
		return nil, errors.New("credential: a static key needs a tenant and a function that reads it")
	}
	o := &s.opts
	var err error
	if s.place, err = NewPlacement(origin, &PlacementOptions{Header: o.Header, Prefix: o.Prefix}); err != nil {
		return nil, err
	}
	if o.Lifetime < 0 {
		return nil, fmt.Errorf("credential: the lifetime is %v", o.Lifetime)
	}
	if o.Lifetime == 0 {
		o.Lifetime = time.Hour
	}
	if o.Connection == "" {
		o.Connection = "static"
	}
	return s, nil
}

// serves reports whether the key is for the request's tenant, connector, mode
// and connection.
func (s *Static) serves(req *ResolveRequest) bool {
	return req.Principal.Key().Tenant == s.tenant &&
		(s.opts.Connector == "" || s.opts.Connector == req.Connector) &&
		(s.opts.Mode == "" || s.opts.Mode == req.Mode) &&
		(req.Connection == "" || req.Connection == s.opts.Connection)
}

// Resolve implements [Broker]. It does not read the key.
func (s *Static) Resolve(ctx context.Context, req *ResolveRequest) (Resolved, error) {
	if s.secret == nil {
		return Resolved{}, errNoAccount()
	}
	expires, err := checkRequest(ctx, req, time.Now().Add(s.opts.Lifetime))
	if err != nil {
		return Resolved{}, err
	}
	if !s.serves(req) {
		return Resolved{}, errNoAccount()
	}
	if s.opts.Scopes != nil && slices.ContainsFunc(req.Scopes, func(scope string) bool { return !slices.Contains(s.opts.Scopes, scope) }) {
		return Resolved{}, toolresult.NewError(toolresult.InsufficientScope, "the key of this account lacks a scope that the capability needs")
	}
	h := NewHandle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disabled {
		return Resolved{}, errNoAccount()
	}
	life, cancel := context.WithDeadline(ctx, expires)
	s.uses[h] = life
	context.AfterFunc(life, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.uses, h)
	})
	o := &s.opts
	return Resolved{Handle: h, Connection: o.Connection, Account: o.Account, Org: o.Org, Endpoint: o.Endpoint, Expires: expires}, nil
}

// checkRequest returns when a handle for req ends, at limit at the latest.
func checkRequest(ctx context.Context, req *ResolveRequest, limit time.Time) (time.Time, error) {
	if req == nil || req.Principal.IsZero() {
		return time.Time{}, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known")
	}
	if end := req.Principal.Expires(); !end.IsZero() && end.Before(limit) {
		limit = end
	}
	if !time.Now().Before(limit) {
		return time.Time{}, toolresult.NewError(toolresult.AuthenticationRequired, "the caller's identity is over")
	}
	return limit, toolresultOf(ctx.Err())
}

// toolresultOf gives a context's error its code, and nil for nil.
func toolresultOf(err error) error {
	if err == nil {
		return nil
	}
	return toolresult.AsError(err)
}

// Apply implements [Broker]. It reads the key, and refuses one that could break
// out of its header.
func (s *Static) Apply(ctx context.Context, h Handle, origin string, req *http.Request) error {
	if err := s.Check(ctx, h); err != nil {
		return err
	}
	if !s.place.Serves(origin, req) {
		return toolresult.NewError(toolresult.EgressDenied, "the credential is for another origin")
	}
	key, err := s.secret(ctx)
	if err != nil {
		return toolresult.WrapError(toolresult.ProviderUnavailable, "the credential cannot be read now", err)
	}
	if err := s.Check(ctx, h); err != nil {
		return err // it ended while the key was read
	}
	return s.place.Put(origin, req, key)
}

// Check implements [Broker].
func (s *Static) Check(_ context.Context, h Handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	life, ok := s.uses[h]
	if !ok || s.disabled || life.Err() != nil {
		return errOver()
	}
	if end, ok := life.Deadline(); ok && !time.Now().Before(end) {
		return errOver()
	}
	return nil
}

// Disable ends every handle, those of running calls included, and refuses new
// ones for good: for a key that may have leaked. It revokes nothing at the
// provider. A request that is already on its way is not stopped.
func (s *Static) Disable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disabled = true
}

func errNoAccount() error {
	return toolresult.NewError(toolresult.ConnectionRequired, "there is no usable account for this call")
}

func errOver() error {
	return toolresult.NewError(toolresult.ConnectionRequired, "the credential of this call is over")
}
