// Command quickstart is a whole host in one file: a connector for metrics, a
// policy, and an MCP client that asks three questions.
//
//	go run ./examples/quickstart                        # a small Prometheus is inside
//	go run ./examples/quickstart -prometheus http://127.0.0.1:9090
//	go run ./examples/quickstart -stdio                 # serve an MCP client of yours
//
// It ends with status 0 only if the answers are what they have to be.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/cedarpolicy"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/metrics"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

//go:embed policy.cedar
var policyText []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	prometheus := flag.String("prometheus", "", "base URL of a real Prometheus; the default is an embedded one")
	stdio := flag.Bool("stdio", false, "serve an MCP client over stdin and stdout")
	flag.Parse()
	if err := run(ctx, *prometheus, *stdio, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, prometheus string, stdio bool, out io.Writer) error {
	if prometheus == "" {
		base, stop, err := embedded()
		if err != nil {
			return err
		}
		defer stop()
		prometheus = base
	}
	adapter, err := host(prometheus)
	if err != nil {
		return err
	}
	if stdio {
		return adapter.ServeStdio(ctx)
	}
	return show(ctx, adapter, out)
}

// host puts a connector behind an invoker and the invoker on MCP.
func host(prometheus string) (*mcpadapter.Adapter, error) {
	// The administrator says where the provider is. Nobody else can.
	endpoint := egress.Profile{Name: "prometheus", BaseURL: prometheus, Plaintext: true,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}}
	c, err := metrics.New("prometheus")
	if err != nil {
		return nil, err
	}
	policy, err := cedarpolicy.New(map[string][]byte{"policy.cedar": policyText}, &cedarpolicy.Options{Groups: groups, Candidates: services})
	if err != nil {
		return nil, err
	}
	// The operating system knows who sits at this terminal; a server on a
	// network verifies a token instead.
	terminal := authz.NewAuthority("this terminal")
	inv, err := connector.NewInvoker(policy, []*authz.Authority{terminal}, []connector.Connector{c}, &connector.Options{Endpoints: []egress.Profile{endpoint}})
	if err != nil {
		return nil, err
	}
	who := func(context.Context, *http.Request) (authz.Principal, error) {
		return terminal.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	}
	return mcpadapter.New(inv, who, &mcpadapter.Options{Name: "quickstart", Version: "1.0.0"})
}

// groups and services are facts that the integrator looks up, in its directory
// and in its catalogue of services.
func groups(_ context.Context, p authz.Principal) ([]string, error) {
	if p.Key().Subject == "alice" {
		return []string{"on-call"}, nil
	}
	return nil, nil
}

func services(_ context.Context, _ authz.Principal, _, typ string) ([]authz.Object, error) {
	if typ != "service" {
		return nil, cedarpolicy.ErrUnlisted
	}
	return []authz.Object{{ResourceID: authz.ResourceID{Type: "service", ID: "prod/order-service"}}}, nil
}

// question is one call, and what its answer has to be.
type question struct {
	title, args string
	meaning     toolresult.Meaning
	code        toolresult.ErrorCode
}

const window = `"start":"2026-04-29T02:35:00Z","end":"2026-04-29T02:50:00Z"`

var questions = []question{
	{"An allowed read", `{"namespace":"prod","service":"order-service","metric":"latency_p95",` + window + `}`, toolresult.MeaningComplete, ""},
	{"An answer that says what is missing", `{"namespace":"prod","service":"order-service","metric":"requests","max_series":1,` + window + `}`, toolresult.MeaningGaps, ""},
	{"Another tenant's service", `{"namespace":"secret","service":"ledger","metric":"latency_p95",` + window + `}`, toolresult.MeaningFailed, toolresult.PermissionDenied},
}

// show asks the questions as an MCP client.
func show(ctx context.Context, adapter *mcpadapter.Adapter, out io.Writer) error {
	serverSide, clientSide := mcp.NewInMemoryTransports()
	server, err := adapter.Connect(ctx, serverSide)
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "quickstart-client", Version: "1.0.0"}, nil).Connect(ctx, clientSide, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	tools, err := client.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	for _, t := range tools.Tools {
		fmt.Fprintf(out, "tool %s: %s\n", t.Name, t.Description)
	}
	for i, q := range questions {
		fmt.Fprintf(out, "\n%d. %s\n   %s\n", i+1, q.title, q.args)
		if err := q.ask(ctx, client, out); err != nil {
			return fmt.Errorf("question %d: %w", i+1, err)
		}
	}
	return nil
}

func (q question) ask(ctx context.Context, client *mcp.ClientSession, out io.Writer) error {
	res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "prometheus_query_range", Arguments: json.RawMessage(q.args)})
	if err != nil {
		return err
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return err
	}
	var r toolresult.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	describe(out, &r)
	if r.Meaning() != q.meaning || toolresult.Code(r.Err()) != q.code {
		return errors.New("the answer is not what it has to be: " + r.Meaning().String())
	}
	return nil
}

func describe(out io.Writer, r *toolresult.Result) {
	fmt.Fprintf(out, "   => %s", r.Meaning())
	if len(r.Coverage.Missing) > 0 {
		fmt.Fprintf(out, ", missing: %v", r.Coverage.Missing)
	}
	if r.Error != nil {
		fmt.Fprintf(out, ": %s; next step: %s, by: %s", r.Error, r.Error.Code.Info().Next, r.Error.Code.Info().Actor)
	}
	fmt.Fprintln(out)
	var series []metrics.Series
	if json.Unmarshal(r.Data, &series) != nil {
		return
	}
	for _, s := range series {
		fmt.Fprintf(out, "      %v %d points:", s.Labels, len(s.Points))
		for _, p := range s.Points {
			v, err := strconv.ParseFloat(p.Value, 64)
			if err != nil {
				fmt.Fprint(out, " ", p.Value)
				continue
			}
			fmt.Fprintf(out, " %.3g", v)
		}
		fmt.Fprintln(out)
	}
}

// embedded serves a small Prometheus on a port of this machine.
func embedded() (base string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: providers.NewPrometheus(&providers.PrometheusOptions{V3: true})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	return "http://" + l.Addr().String(), func() { _ = srv.Close(); <-done }, nil
}
