package mcpadapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Neither must come out anywhere: the provider's key, and the text of an error
// that nobody wrote for callers.
const (
	canaryKey  = "canary-key-5f1d0c"
	canaryText = "canary-postgres://u:hunter2@db"
)

// world is one host with a ticket connector over one provider.
type world struct {
	inv        *connector.Invoker
	alice, bob authz.Principal
	log        *bytes.Buffer
	invoker    func(testing.TB, authz.Policy) *connector.Invoker // the same host with another policy

	mu       sync.Mutex
	hidden   map[string]bool // SUBJECT capability: not allowed now
	down     bool            // the policy cannot be asked
	requests []string        // METHOD path, as they arrived at the provider
	arrived  chan struct{}   // gets a value when a request to /slow arrives
	ended    chan struct{}   // closed when that request was given up
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{hidden: map[string]bool{}, log: &bytes.Buffer{}, arrived: make(chan struct{}, 8), ended: make(chan struct{})}
	alice, host := authztest.Principal(t, "acme", "alice")
	w.alice, w.bob = alice, authztest.Caller(t, host, "acme", "bob")
	w.hide("bob", "tickets.create", true)
	w.hide("bob", "tickets.get", true)
	c, err := connector.New(connector.Info{ID: "tickets", Version: "1.0.0", Owner: "team", Endpoint: "test",
		Auth: connector.Auth{Mode: connector.AuthAPIKey}}, capabilities()...)
	require.NoError(t, err)
	profile, eg := egresstest.Serve(t, http.HandlerFunc(w.provider))
	w.invoker = func(t testing.TB, policy authz.Policy) *connector.Invoker {
		inv, err := connector.NewInvoker(policy, []*authz.Authority{host}, []connector.Connector{c},
			&connector.Options{Endpoints: []egress.Profile{profile}, Egress: eg, Credentials: keys{}, Forgetful: true})
		require.NoError(t, err)
		return inv
	}
	w.inv = w.invoker(t, authztest.Policy(w.decide))
	return w
}

func (w *world) hide(who, capability string, hidden bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hidden[who+" "+capability] = hidden
}

func (w *world) decide(r *authz.Request) (authz.Decision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.down:
		return authz.Decision{}, errors.New(canaryText)
	case w.hidden[r.Principal.Key().Subject+" "+r.Action.Capability]:
		return authz.Decision{Verdict: authz.Deny, Revision: "r1", Reason: canaryText}, nil
	}
	return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r1"}, nil
}

func (w *world) count(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// provider answers by the id in the path, so that each meaning has one.
func (w *world) provider(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.requests = append(w.requests, r.Method+" "+r.URL.Path)
	w.mu.Unlock()
	if r.Method == "POST" {
		body, _ := io.ReadAll(r.Body)
		switch {
		case bytes.Contains(body, []byte("lost")):
			panic(http.ErrAbortHandler) // made, and nobody hears of it
		case bytes.Contains(body, []byte("queued")):
			rw.WriteHeader(202)
		case bytes.Contains(body, []byte("refused")):
			rw.WriteHeader(422)
		}
		fmt.Fprint(rw, `{"id":"7","subject":"made"}`)
		return
	}
	switch id := strings.TrimPrefix(r.URL.Path, "/tickets/"); id {
	case "none":
		rw.WriteHeader(404)
	case "broken":
		rw.WriteHeader(500)
		fmt.Fprint(rw, "stack trace")
	case "unauthorized":
		rw.WriteHeader(401)
	case "slow":
		w.arrived <- struct{}{}
		<-r.Context().Done()
		close(w.ended)
	case "/tickets":
		if r.URL.Query().Get("q") == "nothing" {
			fmt.Fprint(rw, `{"items":[]}`)
			return
		}
		if r.URL.Query().Get("page") == "" {
			rw.Header().Set("Link", `</tickets?page=2>; rel="next"`)
		}
		fmt.Fprint(rw, `{"items":[{"id":"1","subject":"a <b>"},{"id":"2","subject":"b"}]}`)
	default:
		fmt.Fprintf(rw, `{"id":%q,"subject":"echo %s"}`, id, r.Header.Get("X-Api-Key"))
	}
}

type (
	Get struct {
		ID string `json:"id" jsonschema:"of the ticket"`
	}
	Search struct {
		Query string `json:"query" jsonschema:"words"`
	}
	Create struct {
		Subject string `json:"subject" jsonschema:"one line"`
	}
	Ticket struct {
		ID      string `json:"id"`
		Subject string `json:"subject"`
	}
)

func capabilities() []connector.Capability {
	spec := func(name string, routes ...connector.Route) connector.Spec {
		return connector.Spec{Name: name, Title: "T " + name, Description: "about " + name, Sensitivity: risk.Internal, Routes: routes}
	}
	one := connector.Route{Pattern: "GET /tickets/{id}", Effect: connector.Reads, WholeConnection: true, Within: []string{"id"}}
	get := connector.Read(spec("tickets.get", one), connector.OnConnection[Get],
		func(ctx context.Context, call *connector.ReadCall, in Get) (*connector.Answer[Ticket], error) {
			call.Progress(connector.Progress{Done: 1, Total: 2, Note: "asking\n"})
			var out Ticket
			_, err := call.Get(ctx, "/tickets/{id}", connector.Params{"id": in.ID}, &out)
			switch {
			case in.ID == "empty":
				return connector.NoMatch[Ticket](), nil
			case in.ID == "panic":
				panic(canaryText)
			case in.ID == "error":
				return nil, errors.New(canaryText)
			case err != nil:
				return nil, err
			}
			call.Progress(connector.Progress{Done: 2, Total: 2})
			a := connector.Found(out)
			if in.ID == "gap" {
				a.Missing = []toolresult.Gap{toolresult.GapRemainingRows}
			}
			return a, nil
		})
	search := connector.List(connector.ListSpec{More: provider.LinkNext(),
		Spec: spec("tickets.search", connector.Route{Pattern: "GET /tickets", Effect: connector.Reads, WholeConnection: true, Params: []string{"q", "page"}})},
		connector.OnConnection[Search], list)
	create := connector.Write(connector.WriteSpec{SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy,
		Spec: spec("tickets.create", connector.Route{Pattern: "POST /tickets", Effect: connector.Changes, WholeConnection: true}, one)},
		connector.OnConnection[Create], connector.Reconcilable(send, reconcile))
	return []connector.Capability{get, search, create}
}

type page struct{ Items []Ticket }

func list(ctx context.Context, call *connector.ReadCall, in Search, p connector.PageRequest) (*connector.Page[Ticket], error) {
	params := connector.Params{"q": in.Query}
	from, later := p.From.Token()
	if later {
		params["page"] = from
	}
	var out page
	if _, err := call.Get(ctx, "/tickets", params, &out); err != nil {
		return nil, err
	}
	next := cursor.End()
	if !later && len(out.Items) > 0 {
		next = cursor.At("2")
	}
	return connector.NewPage(out.Items, next), nil
}

func send(ctx context.Context, call *connector.WriteCall, in Create) (*connector.Receipt[Ticket], error) {
	var out Ticket
	m, err := call.Do(ctx, &connector.HTTPRequest{Route: "POST /tickets", Body: map[string]string{"subject": in.Subject}, Out: &out})
	switch {
	case err != nil:
		return nil, err
	case m.Status == http.StatusAccepted:
		return connector.Accepted[Ticket](out.ID), nil
	}
	return connector.Applied(out, out.ID), nil
}

// reconcile cannot tell: what was lost stays unknown.
func reconcile(context.Context, *connector.ReadCall, Create, operation.Operation) (*connector.Evidence[Ticket], error) {
	return nil, nil
}

// keys is a broker with one key for everybody.
type keys struct{}

func (keys) Resolve(context.Context, *credential.ResolveRequest) (credential.Resolved, error) {
	return credential.Resolved{Handle: credential.NewHandle(), Connection: "conn-1", Account: "acme-account"}, nil
}

func (keys) Apply(_ context.Context, _ credential.Handle, _ string, r *http.Request) error {
	r.Header.Set("X-Api-Key", canaryKey)
	return nil
}

func (keys) Check(context.Context, credential.Handle) error { return nil }

// as is a PrincipalFunc for a host that always has the same caller.
func as(p authz.Principal) mcpadapter.PrincipalFunc {
	return func(context.Context, *http.Request) (authz.Principal, error) { return p, nil }
}

// byToken knows callers by the header Authorization.
func (w *world) byToken(_ context.Context, r *http.Request) (authz.Principal, error) {
	switch r.Header.Get("Authorization") {
	case "Bearer alice":
		return w.alice, nil
	case "Bearer bob":
		return w.bob, nil
	case "Bearer low":
		return authz.Principal{}, toolresult.NewError(toolresult.InsufficientScope, "not these scopes")
	case "Bearer later":
		return authz.Principal{}, toolresult.NewError(toolresult.PolicyUnavailable, "the directory is away")
	}
	return authz.Principal{}, errors.New(canaryText)
}

func (w *world) adapter(t testing.TB, who mcpadapter.PrincipalFunc, opts *mcpadapter.Options) *mcpadapter.Adapter {
	t.Helper()
	if opts == nil {
		opts = &mcpadapter.Options{}
	}
	opts.Logger = slog.New(slog.NewTextHandler(&syncWriter{w: w.log}, nil))
	a, err := mcpadapter.New(w.inv, who, opts)
	require.NoError(t, err)
	return a
}

type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// inMemory connects the SDK's client to an adapter over a pipe.
func inMemory(t testing.TB, a *mcpadapter.Adapter, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	server, client := mcp.NewInMemoryTransports()
	ss, err := a.Connect(ctx, server)
	require.NoError(t, err)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(ctx, client, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cs.Close()
		_ = ss.Wait()
	})
	return cs
}

// decoded is the envelope in a tool's result.
func decoded(t testing.TB, r *mcp.CallToolResult) *toolresult.Result {
	t.Helper()
	text, err := json.Marshal(r.StructuredContent)
	require.NoError(t, err)
	var out toolresult.Result
	require.NoError(t, json.Unmarshal(text, &out))
	require.NoError(t, out.Validate(nil))
	require.Equal(t, out.Status == toolresult.StatusError, r.IsError)
	return &out
}

func names(tools []*mcp.Tool) (out []string) {
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}
