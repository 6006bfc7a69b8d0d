package credential

import (
	"context"
	"net/http"
)

// StaticOptions are options of NewStatic.
type StaticOptions struct{}

// Static is a Broker.
type Static struct{}

// NewStatic returns a Broker with one key for one origin.
func NewStatic(tenant, origin string, secret func(context.Context) ([]byte, error), opts *StaticOptions) (*Static, error) {
	return nil, nil
}

// Resolve implements [Broker].
func (s *Static) Resolve(ctx context.Context, req *ResolveRequest) (Resolved, error) {
	return Resolved{}, nil
}

// Apply implements [Broker].
func (s *Static) Apply(ctx context.Context, h Handle, origin string, req *http.Request) error {
	return nil
}

// Check implements [Broker].
func (s *Static) Check(ctx context.Context, h Handle) error { return nil }
