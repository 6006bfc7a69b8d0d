package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// faulty is a provider on a real socket. It serves "/warm" well, so that there
// is a kept-alive connection, and fails everything else in one way. A create is
// applied before it fails: that is where it hurts.
type faulty struct {
	fault func(http.ResponseWriter, *http.Request)

	mu      sync.Mutex
	arrived int             // requests other than /warm
	effects map[string]bool // by key, or by number where there is none
}

func (f *faulty) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/warm" {
		fmt.Fprint(rw, `{}`)
		return
	}
	f.mu.Lock()
	f.arrived++
	if r.Method == "POST" {
		k := r.Header.Get("Idempotency-Key")
		if k == "" {
			k = fmt.Sprint(f.arrived)
		}
		f.effects[k] = true
	}
	f.mu.Unlock()
	f.fault(rw, r)
}

func (f *faulty) counts() (arrived, effects int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.arrived, len(f.effects)
}

type thing struct {
	ID int `json:"id"`
}

type noArgs struct{}

// faultyCaps are a read, a write with a key that the provider enforces, and a
// write without.
func faultyCaps() []connector.Capability {
	warm := connector.Route{Pattern: "GET /warm", Effect: connector.Reads, Unscoped: "a health check"}
	get := connector.Route{Pattern: "GET /things", Effect: connector.Reads, WholeConnection: true}
	put := connector.Route{Pattern: "POST /things", Effect: connector.Changes, WholeConnection: true}
	send := func(ctx context.Context, c *connector.WriteCall, _ noArgs) (*connector.Receipt[thing], error) {
		if _, err := c.Reader().Get(ctx, "/warm", nil, nil); err != nil {
			return nil, err
		}
		var out thing
		_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /things", Body: map[string]any{"a": 1}, Out: &out})
		if err != nil {
			return nil, err
		}
		return connector.Applied(out, "7"), nil
	}
	cannotTell := func(context.Context, *connector.ReadCall, noArgs, operation.Operation) (*connector.Evidence[thing], error) {
		return nil, nil
	}
	limits := connector.Limits{Timeout: 5 * time.Second}
	write := func(name string, idem connector.Idempotency) connector.Capability {
		s := connector.WriteSpec{Spec: spec(name, warm, put), SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy, Idempotency: idem}
		s.Limits = limits
		return connector.Write(s, connector.OnConnection, connector.Reconcilable(send, cannotTell))
	}
	readSpec := spec("t.read", warm, get)
	readSpec.Limits = limits
	return []connector.Capability{
		connector.Read(readSpec, connector.OnConnection, func(ctx context.Context, c *connector.ReadCall, _ noArgs) (*connector.Answer[thing], error) {
			if _, err := c.Get(ctx, "/warm", nil, nil); err != nil {
				return nil, err
			}
			var out thing
			if _, err := c.Get(ctx, "/things", nil, &out); err != nil {
				return nil, err
			}
			return connector.Found(out), nil
		}),
		write("t.keyed", connector.Idempotency{Header: "Idempotency-Key", Window: 24 * time.Hour}),
		write("t.unkeyed", connector.Idempotency{}),
	}
}

func faultyInvoker(t *testing.T, profile egress.Profile) (*connector.Invoker, authz.Principal) {
	t.Helper()
	profile.Name, profile.Private = "faulty", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	profile.Limits.Headers = 150 * time.Millisecond
	c, err := connector.New(connector.Info{ID: "things", Version: "1", Owner: "o", Endpoint: "faulty", Auth: connector.Auth{Mode: connector.AuthNone}}, faultyCaps()...)
	require.NoError(t, err)
	alice, host := authztest.Principal(t, "acme", "alice")
	inv, err := connector.NewInvoker(authztest.AllowScope(authz.WholeConnection()), []*authz.Authority{host}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{profile}, Forgetful: true})
	require.NoError(t, err)
	return inv, alice
}

type verdict struct {
	code      toolresult.ErrorCode // empty: success
	effect    toolresult.Disposition
	retryable bool
}

// TestFailurePoints_E3_W3_W5 is the table of what an answer, or the lack of one,
// means to a read, to a write whose key the provider enforces, and to one
// without: on the real net/http stack, with a connection that was used before.
func TestFailurePoints_E3_W3_W5(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(code)
			fmt.Fprint(rw, `{"id":7}`)
		}
	}
	raw := func(text string, linger bool) func(http.ResponseWriter, *http.Request) {
		return func(rw http.ResponseWriter, _ *http.Request) {
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			if tcp, ok := conn.(*net.TCPConn); ok && !linger {
				_ = tcp.SetLinger(0) // a reset, not an end
			}
			fmt.Fprint(conn, text)
		}
	}
	halfBody := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"id\":"
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client goes
		<-r.Context().Done()
	}
	none, unknown, no := toolresult.EffectNone, toolresult.EffectUnknown, toolresult.EffectNotApplied
	lost := verdict{toolresult.OutcomeUnknown, unknown, false}
	for _, row := range []struct {
		why         string
		fault       func(http.ResponseWriter, *http.Request)
		read, write verdict
		reaches     bool // the request arrives at the provider
	}{
		{"dial refused", nil, verdict{toolresult.ProviderUnavailable, none, true}, verdict{toolresult.ProviderUnavailable, none, true}, false},
		{"TLS failure", nil, verdict{toolresult.ProviderUnavailable, none, true}, verdict{toolresult.ProviderUnavailable, none, true}, false},
		{"reset before headers", raw("", false), verdict{toolresult.ProviderUnavailable, none, true}, lost, true},
		{"reset mid-body", raw(halfBody, false), verdict{toolresult.ProviderError, none, false}, lost, true},
		{"header timeout", hang, verdict{toolresult.Timeout, none, true}, lost, true},
		{"EOF", raw("", true), verdict{toolresult.ProviderUnavailable, none, true}, lost, true},
		{"202", status(202), verdict{toolresult.ProviderUnavailable, none, true}, verdict{"", toolresult.EffectPending, false}, true},
		{"408", status(408), verdict{toolresult.Timeout, none, true}, lost, true},
		{"409", status(409), verdict{toolresult.Conflict, none, false}, verdict{toolresult.Conflict, no, false}, true},
		{"429", status(429), verdict{toolresult.RateLimited, none, true}, verdict{toolresult.RateLimited, no, true}, true},
		{"500", status(500), verdict{toolresult.ProviderError, none, false}, lost, true},
		{"502", status(502), verdict{toolresult.ProviderUnavailable, none, true}, lost, true},
		{"503", status(503), verdict{toolresult.ProviderUnavailable, none, true}, lost, true},
		{"504", status(504), verdict{toolresult.ProviderUnavailable, none, true}, lost, true},
		{"200", status(200), verdict{"", none, false}, verdict{"", toolresult.EffectApplied, false}, true},
	} {
		for _, capability := range []string{"t.read", "t.keyed", "t.unkeyed"} {
			t.Run(row.why+"/"+capability, func(t *testing.T) {
				f := &faulty{fault: row.fault, effects: map[string]bool{}}
				srv, profile := serveFaulty(t, row.why, f)
				defer srv()
				inv, alice := faultyInvoker(t, profile)
				want := row.write
				req := &connector.InvokeRequest{Principal: alice, Capability: capability, Key: "key-0123456789abcdef"}
				if capability == "t.read" {
					want, req.Key = row.read, ""
				}
				r := inv.Invoke(t.Context(), req)
				requireVerdict(t, want, r)
				arrived, effects := f.counts()
				expected := 0
				if row.reaches {
					expected = 1
				}
				if capability == "t.read" {
					// A read on a kept-alive connection that turns out to be dead is
					// sent once more, on a new one.
					require.GreaterOrEqual(t, arrived, expected)
					require.LessOrEqual(t, arrived, 2*expected)
					require.Zero(t, effects)
					return
				}
				require.Equal(t, expected, arrived, "the provider's own count")
				require.Equal(t, expected, effects)
				inv.Invoke(t.Context(), req)
				again, effects := f.counts()
				require.LessOrEqual(t, effects, 1, "a repeat never makes a second effect")
				if capability == "t.unkeyed" {
					require.Equal(t, arrived, again, "without a key nothing is repeated")
				}
			})
		}
	}
}

func requireVerdict(t *testing.T, want verdict, r *toolresult.Result) {
	t.Helper()
	text, _ := json.Marshal(r)
	if want.code == "" {
		require.NoError(t, r.Err())
	} else {
		require.NotNil(t, r.Error, string(text))
		require.Equal(t, want.code, r.Error.Code, string(text))
		require.Equal(t, want.retryable, r.Error.Retryable, string(text))
	}
	require.Equal(t, want.effect, r.Effect.Disposition, string(text))
	require.NoError(t, r.Validate(nil))
}

// serveFaulty starts the provider, or what stands in its place.
func serveFaulty(t *testing.T, why string, f *faulty) (stop func(), p egress.Profile) {
	t.Helper()
	switch why {
	case "dial refused":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := l.Addr().String()
		require.NoError(t, l.Close())
		return func() {}, egress.Profile{BaseURL: "http://" + addr, Plaintext: true}
	case "TLS failure":
		srv := httptest.NewTLSServer(f) // of an authority that nobody trusts
		return srv.Close, egress.Profile{BaseURL: srv.URL}
	}
	srv := httptest.NewServer(f)
	require.True(t, strings.HasPrefix(srv.URL, "http://127.0.0.1:"))
	return func() { srv.CloseClientConnections(); srv.Close() }, egress.Profile{BaseURL: srv.URL, Plaintext: true}
}
