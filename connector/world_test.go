package connector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// canary is the provider's key. It must come out nowhere.
const canary = "canary-key-5f1d0c"

// world is one host with one connector over one provider.
type world struct {
	t      testing.TB
	inv    *connector.Invoker
	alice  authz.Principal
	host   *authz.Authority
	store  *operation.Memory
	broker *keys

	mu       sync.Mutex
	requests []string // METHOD path?query, as they arrived
	events   []connector.AuditEvent
}

type setup struct {
	info    connector.Info
	policy  authz.Policy
	caps    []connector.Capability
	handler http.HandlerFunc
	base    string // behind the provider's origin
	opts    connector.Options
	broker  credential.Broker // nil: the world's
}

// inc is the project that alice may use.
var inc = authz.ResourceID{Type: "project", ID: "inc"}

// allowInc allows what concerns the project inc: searches are narrowed to it.
func allowInc(r *authz.Request) (authz.Decision, error) {
	d := authz.Decision{Verdict: authz.Allow, Scope: authz.Only(inc), Revision: "r1"}
	if objects, whole := r.Target.Objects(); !whole && r.Purpose != authz.Discover {
		d.Scope = authz.Only(inc, authz.ResourceID{Type: "ticket", ID: "1"}, authz.ResourceID{Type: "ticket", ID: "4821"})
		if len(objects) == 0 {
			d = authz.Decision{}
		}
	}
	return d, nil
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w, err := tryWorld(t, s)
	require.NoError(t, err)
	return w
}

func tryWorld(t testing.TB, s setup) (*world, error) {
	t.Helper()
	w := &world{t: t, store: &operation.Memory{}, broker: &keys{}}
	w.alice, w.host = authztest.Principal(t, "acme", "alice")
	if s.info.ID == "" {
		s.info = connector.Info{ID: "tickets", Version: "1.0.0", Owner: "team", Endpoint: "test",
			Auth: connector.Auth{Mode: connector.AuthAPIKey}}
	}
	c, err := connector.New(s.info, s.caps...)
	if err != nil {
		return nil, err
	}
	profile, eg := egresstest.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r.Method+" "+r.URL.RequestURI())
		w.mu.Unlock()
		s.handler(rw, r)
	}))
	opts := s.opts
	profile.BaseURL += s.base
	opts.Endpoints, opts.Egress, opts.Credentials, opts.Forgetful = []egress.Profile{profile}, eg, w.broker, true
	if s.broker != nil {
		opts.Credentials = s.broker
	}
	if opts.Operations == nil {
		opts.Operations = w.store
	}
	if opts.Audit == nil {
		opts.Audit = connector.AuditFunc(w.record)
	}
	if s.policy == nil {
		s.policy = authztest.Policy(allowInc)
	}
	w.inv, err = connector.NewInvoker(s.policy, []*authz.Authority{w.host}, []connector.Connector{c}, &opts)
	return w, err
}

func (w *world) record(_ context.Context, e *connector.AuditEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, *e)
	return nil
}

// violation is what the last event says that the connector did wrong.
func (w *world) violation() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[len(w.events)-1].Violation
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

func (w *world) call(capability, args string) *toolresult.Result {
	return w.keyed(capability, "", args)
}

func (w *world) keyed(capability, key, args string) *toolresult.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := w.inv.Invoke(ctx, &connector.InvokeRequest{Principal: w.alice, Capability: capability, Arguments: json.RawMessage(args), Key: key})
	require.NoError(w.t, r.Validate(nil))
	text, err := json.Marshal(r)
	require.NoError(w.t, err)
	require.NotContains(w.t, string(text), canary)
	require.NotContains(w.t, r.Text(nil), canary)
	return r
}

// keys is a broker with one key for everybody of the tenant.
type keys struct {
	mu   sync.Mutex
	gone bool // the account was disconnected
}

func (k *keys) Resolve(_ context.Context, r *credential.ResolveRequest) (credential.Resolved, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone {
		return credential.Resolved{}, toolresult.NewError(toolresult.ConnectionRequired, "connect an account first")
	}
	h := credential.NewHandle()
	return credential.Resolved{Handle: h, Connection: cmp.Or(r.Connection, "conn-1"), Account: "acme-account"}, nil
}

func (k *keys) Apply(_ context.Context, _ credential.Handle, origin string, r *http.Request) error {
	if origin != "http://provider.test:80" {
		return fmt.Errorf("not for %s", origin)
	}
	r.Header.Set("X-Api-Key", canary)
	return nil
}

func (k *keys) Check(context.Context, credential.Handle) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone {
		return toolresult.NewError(toolresult.ConnectionRequired, "the account was disconnected")
	}
	return nil
}

func (k *keys) disconnect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone = true
}

func spec(name string, routes ...connector.Route) connector.Spec {
	return connector.Spec{Name: name, Description: "test", Sensitivity: risk.Internal, Routes: routes}
}

// tickets is a provider with paging by Link and by total.
func tickets(rw http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == "GET" && strings.HasPrefix(r.URL.Path, "/issues/"):
		id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/issues/"), ".json")
		rw.Header().Set("X-Request-Id", "req-"+id)
		fmt.Fprintf(rw, `{"issue":{"id":%s,"subject":"s%s","echo":%q}}`, id, id, r.Header.Get("X-Api-Key"))
	case r.Method == "GET" && r.URL.Path == "/issues.json":
		offset := r.URL.Query().Get("offset")
		if offset == "" || offset == "0" {
			rw.Header().Set("Link", `</issues.json?project_id=inc&offset=2>; rel="next"`)
		}
		fmt.Fprint(rw, `{"issues":[{"id":1,"subject":"a"},{"id":2,"subject":"b"}],"total_count":4}`)
	default:
		rw.WriteHeader(404)
	}
}
