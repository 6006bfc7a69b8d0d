package expose_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/connector/double"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/expose"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the host of the guide over the double.
func world(t testing.TB) (*connector.Invoker, *authz.Authority, authz.Principal) {
	rooms := double.New()
	profile, eg := egresstest.Serve(t, rooms)
	host := authz.NewAuthority("this terminal")
	inv, err := expose.Invoker(host, profile, key, connector.Options{Egress: eg, Forgetful: true})
	require.NoError(t, err)
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	require.NoError(t, err)
	return inv, host, alice
}

func key(context.Context) ([]byte, error) { return []byte(double.New().Token("acme", "agents")), nil }

const book = `{"room":"r-12","title":"review","start":"2026-12-01T09:00:00Z","end":"2026-12-01T10:00:00Z"}`

// Over stdio: what a client sees, and a room that may be read and not booked.
func TestStdio_M1(t *testing.T) {
	inv, host, _ := world(t)
	a, err := expose.Terminal(inv, host, "alice")
	require.NoError(t, err)
	near, far := mcp.NewInMemoryTransports()
	server, err := a.Connect(t.Context(), near)
	require.NoError(t, err)
	defer server.Close()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), far, nil)
	require.NoError(t, err)
	defer client.Close()
	use(t, client)
}

// use is what a client does on either transport.
func use(t *testing.T, client *mcp.ClientSession) {
	tools, err := client.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	require.ElementsMatch(t, []string{"list_bookings", "book_room", mcpadapter.StatusTool}, names)
	call := func(name, args string, meta mcp.Meta) (string, bool) {
		r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args), Meta: meta})
		require.NoError(t, err)
		text, err := json.Marshal(r.StructuredContent)
		require.NoError(t, err)
		return string(text), r.IsError
	}
	text, failed := call("list_bookings", `{"room":"r-12"}`, nil)
	require.False(t, failed, text)
	require.Contains(t, text, "acme meeting 0")
	text, failed = call("book_room", book, nil)
	require.True(t, failed, "without a key of the runtime nothing is sent")
	require.Contains(t, text, "INVALID_INPUT")
	text, failed = call("book_room", book, mcp.Meta{mcpadapter.OperationMeta: "task-17/book"})
	require.False(t, failed, text)
	require.Contains(t, text, `"disposition":"applied"`)
	text, failed = call("book_room", strings.Replace(book, "r-12", "r-14", 1), mcp.Meta{mcpadapter.OperationMeta: "task-17/other"})
	require.True(t, failed)
	require.Contains(t, text, "PERMISSION_DENIED")
}

// Over HTTP, and an orderly end of it.
func TestHTTP_M1(t *testing.T) {
	inv, host, _ := world(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	session := func(context.Context, *http.Request) (authz.Principal, error) {
		return host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- expose.Serve(ctx, l, inv, session) }()
	wire := &http.Transport{}
	defer wire.CloseIdleConnections()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + l.Addr().String() + "/mcp", HTTPClient: &http.Client{Transport: wire}, DisableStandaloneSSE: true}, nil)
	require.NoError(t, err)
	use(t, client)
	require.NoError(t, client.Close())
	stop()
	require.NoError(t, <-ended)
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// What a model is offered, and what came of its call.
func Example_functionCalling() {
	ctx := context.Background()
	rooms := httptest.NewServer(double.New())
	defer rooms.Close()
	host := authz.NewAuthority("this runtime")
	inv, err := expose.Invoker(host, egress.Profile{Name: "rooms", BaseURL: rooms.URL, Plaintext: true, Private: loopback}, key, connector.Options{Forgetful: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	if err != nil {
		fmt.Println(err)
		return
	}

	defs, err := functioncall.Definitions(ctx, inv, alice, functioncall.AnthropicMessages, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(defs.Tools), "tools") // put them into the request

	answer := []byte(`{"content":[{"type":"tool_use","id":"toolu_1","name":"book_room","input":` + book + `}]}`)
	turn, err := expose.Turn(ctx, inv, alice, "conversation-9", answer)
	if err != nil {
		fmt.Println(err)
		return
	}
	// append turn.Outputs to the conversation, and send it again
	for _, o := range turn.Outcomes {
		fmt.Println(o.Call.ID, o.Call.Capability, o.Result.Meaning(), o.Result.Effect.Disposition)
	}
	// Output:
	// 3 tools
	// toolu_1 book_room complete applied
}
