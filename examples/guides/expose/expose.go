// Package expose is the host of the guide: one connector behind the governed
// path, and that on three surfaces.
package expose

import (
	"context"
	_ "embed"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/cedarpolicy"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	bookings "github.com/drawbridge-sdk/drawbridge/examples/guides/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

//go:embed policy.cedar
var policyText []byte

// Invoker puts the connector behind the governed path. opts have the ledger, the
// audit and the way to the provider, whose key the broker puts on the wire.
func Invoker(trusted *authz.Authority, rooms egress.Profile, key func(context.Context) ([]byte, error), opts connector.Options) (*connector.Invoker, error) {
	policy, err := cedarpolicy.New(map[string][]byte{"policy.cedar": policyText}, &cedarpolicy.Options{Candidates: catalogue})
	if err != nil {
		return nil, err
	}
	c, err := bookings.New(rooms.Name)
	if err != nil {
		return nil, err
	}
	opts.Endpoints = []egress.Profile{rooms}
	opts.Credentials, err = credential.NewStatic("acme", rooms.BaseURL, key, nil)
	if err != nil {
		return nil, err
	}
	return connector.NewInvoker(policy, []*authz.Authority{trusted}, []connector.Connector{c}, &opts)
}

// catalogue lists the objects that a grant can be about, from whatever the
// integrator has.
func catalogue(_ context.Context, _ authz.Principal, _, typ string) ([]authz.Object, error) {
	if typ != "room" {
		return nil, cedarpolicy.ErrUnlisted
	}
	return []authz.Object{{ResourceID: authz.ResourceID{Type: "room", ID: "r-12"}}, {ResourceID: authz.ResourceID{Type: "room", ID: "r-14"}}}, nil
}

// Terminal is a server over stdio: one caller, whom the operating system knows.
func Terminal(inv *connector.Invoker, host *authz.Authority, user string) (*mcpadapter.Adapter, error) {
	who := func(context.Context, *http.Request) (authz.Principal, error) {
		return host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: user})
	}
	return mcpadapter.New(inv, who, &mcpadapter.Options{Name: "rooms", Version: "1.0.0"})
}

// Serve serves MCP over HTTP on a listener until ctx ends, and then lets the
// calls that are under way finish. session says who sent a request; guarded by
// access tokens it is the Principal method of a bearer.Bearer.
func Serve(ctx context.Context, l net.Listener, inv *connector.Invoker, session mcpadapter.PrincipalFunc) error {
	a, err := mcpadapter.New(inv, session, &mcpadapter.Options{Name: "rooms", Version: "1.0.0"})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", a.HTTP())
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(a.Shutdown(drain), srv.Shutdown(drain))
}

// Turn runs the calls in a model's answer, and returns what to send back.
// conversation is the host's own id of it.
func Turn(ctx context.Context, inv *connector.Invoker, who authz.Principal, conversation string, answer []byte) (*functioncall.Turn, error) {
	return functioncall.Dispatch(ctx, inv, who, functioncall.AnthropicMessages, answer, &functioncall.Options{
		Run:         conversation,
		OperationID: func(_ context.Context, c *functioncall.Call) string { return conversation + "/" + c.ID },
	})
}
