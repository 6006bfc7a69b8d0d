package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mark3labs "github.com/mark3labs/mcp-go/mcp"
	mark3labsserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

// rounds are few in CI, and more where somebody looks at the times.
var rounds = flag.Int("rounds", 1, "how often the sides take turns")

const resource = "http://127.0.0.1/mcp"

type query struct {
	Query string `json:"query" jsonschema:"words"`
}

type args struct {
	Query    string  `json:"query" jsonschema:"words"`
	PageSize int     `json:"page_size" jsonschema:"how many"`
	Cursor   *string `json:"cursor,omitempty" jsonschema:"where to go on"`
}

type item struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"`
}

type answer struct {
	Status string `json:"status"`
	Items  []item `json:"items"`
}

func items() []item {
	out := make([]item, 10)
	for i := range out {
		out[i] = item{"T-1", "hello world", "open"}
	}
	return out
}

// A side is a handler and the request that it is asked again and again.
type side struct {
	handler http.Handler
	header  http.Header
	body    []byte
}

func newSide(h http.Handler, token, method, name, params string) *side {
	if params != "" {
		params += ","
	}
	s := &side{handler: h, header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
	}, body: []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`)}
	if name != "" {
		s.header.Set("Mcp-Name", name)
	}
	if token != "" {
		s.header.Set("Authorization", "Bearer "+token)
	}
	return s
}

func callSide(h http.Handler, token, name string) *side {
	return newSide(h, token, "tools/call", name, `"name":"`+name+`","arguments":{"query":"x","page_size":10}`)
}

func listSide(h http.Handler, token string) *side { return newSide(h, token, "tools/list", "", "") }

func (s *side) request() *http.Request {
	return (&http.Request{Method: "POST", URL: &url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/mcp"}, Host: "127.0.0.1", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: s.header, Body: io.NopCloser(bytes.NewReader(s.body)), ContentLength: int64(len(s.body))}).WithContext(context.Background())
}

// sink is a ResponseWriter that keeps nothing.
type sink struct {
	header http.Header
	status int
	n      int
}

func (w *sink) Header() http.Header { return w.header }

func (w *sink) WriteHeader(status int) { w.status = status }

func (w *sink) Write(p []byte) (int, error) {
	w.n += len(p)
	return len(p), nil
}

func (w *sink) Flush() {}

func (s *side) run() {
	w := &sink{header: http.Header{}}
	s.handler.ServeHTTP(w, s.request())
	if w.status > 299 || w.n < 100 {
		panic(fmt.Sprintf("status %d, %d bytes", w.status, w.n))
	}
}

// check runs the side once and looks at the answer.
func (s *side) check(t testing.TB, says string, times int) {
	rw := httptest.NewRecorder()
	s.handler.ServeHTTP(rw, s.request())
	require.Equal(t, 200, rw.Code, rw.Body.String())
	require.Contains(t, rw.Body.String(), `"result"`)
	require.NotContains(t, rw.Body.String(), `"isError":true`)
	require.GreaterOrEqual(t, strings.Count(rw.Body.String(), says), times, rw.Body.String())
}

// cost is what a run takes: by the clock, and of the processors, which is less
// noisy on a machine that others use as well.
type cost struct{ ns, cpu, allocs, bytes int64 }

// cpu is the processor time of this process.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// measure counts the memory of some runs, and the times of as many as fit into
// a span.
func measure(rounds int, span time.Duration, runs int, sides ...*side) []cost {
	out := make([]cost, len(sides))
	times, cpus := make([][]int64, len(sides)), make([][]int64, len(sides))
	for i, s := range sides {
		out[i].allocs, out[i].bytes = memory(runs, s.run)
	}
	for range rounds {
		for i, s := range sides {
			n, start, used := int64(0), time.Now(), cpu()
			for ; time.Since(start) < span; n++ {
				s.run()
			}
			times[i] = append(times[i], time.Since(start).Nanoseconds()/n)
			cpus[i] = append(cpus[i], (cpu()-used)/n)
		}
	}
	for i := range sides {
		slices.Sort(times[i])
		slices.Sort(cpus[i])
		out[i].ns, out[i].cpu = times[i][len(times[i])/2], cpus[i][len(cpus[i])/2]
	}
	return out
}

// memory counts allocations of one run, and their bytes.
func memory(runs int, f func()) (allocs, size int64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range min(runs, 3) { // what is made once
		f()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs-before.Mallocs) / int64(runs), int64(after.TotalAlloc-before.TotalAlloc) / int64(runs)
}

func ratio(a, b int64) float64 { return float64(a*10000/max(b, 1)) / 10000 }

func report(t *testing.T, name string, ours, base cost) {
	line, err := json.Marshal(struct {
		Name       string  `json:"name"`
		OursNS     int64   `json:"ours_ns"`
		BaseNS     int64   `json:"base_ns"`
		Ratio      float64 `json:"ratio"`
		OursCPU    int64   `json:"ours_cpu_ns"`
		BaseCPU    int64   `json:"base_cpu_ns"`
		CPURatio   float64 `json:"cpu_ratio"`
		Allocs     int64   `json:"allocs"`
		BaseAllocs int64   `json:"base_allocs"`
		Bytes      int64   `json:"bytes"`
		BaseBytes  int64   `json:"base_bytes"`
	}{name, ours.ns, base.ns, ratio(ours.ns, base.ns), ours.cpu, base.cpu, ratio(ours.cpu, base.cpu), ours.allocs, base.allocs, ours.bytes, base.bytes})
	require.NoError(t, err)
	fmt.Fprintln(os.Stdout, string(line))
}

// rules is a policy that shows each tenant one of ten sets of tools.
type rules struct{ all bool }

func (r rules) Decide(_ context.Context, q *authz.Request) (authz.Decision, error) {
	d := authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "1"}
	if !r.all && q.Action.Capability[len(q.Action.Capability)-1] == q.Principal.Key().Tenant[len(q.Principal.Key().Tenant)-1] {
		d.Verdict = authz.Deny
	}
	return d, nil
}

func (rules) Revision(context.Context, string) (string, error) { return "1", nil }

// silent is rules that cannot say whether they changed.
type silent struct{ r rules }

func (s silent) Decide(ctx context.Context, q *authz.Request) (authz.Decision, error) {
	return s.r.Decide(ctx, q)
}

// governed is a host with n listings that need no network, behind a Bearer.
type governed struct {
	as       *bearertest.Server
	inv      *connector.Invoker
	handler  http.Handler
	recorded int
}

func newGoverned(t testing.TB, n int, policy authz.Policy) *governed {
	g := &governed{as: bearertest.New(t)}
	v, err := bearer.NewJWT(g.as.Issuer, g.as.Keys(), bearer.TenantClaim("/sub"), &bearer.JWTOptions{Egress: g.as.Egress()})
	require.NoError(t, err)
	b, err := bearer.New(resource, []*bearer.Verifier{v}, &bearer.Options{Scopes: []string{"mcp"},
		ToolScopes: func(context.Context, authz.Principal, string) []string { return []string{"tickets.read"} }})
	require.NoError(t, err)
	var caps []connector.Capability
	for i := range n {
		caps = append(caps, connector.List(connector.ListSpec{More: provider.NoSignal("nothing is asked"),
			Spec: connector.Spec{Name: toolName(i), Description: "Searches tickets.", Sensitivity: risk.Internal}},
			connector.OnConnection[query], func(context.Context, *connector.ReadCall, query, connector.PageRequest) (*connector.Page[item], error) {
				return connector.NewPage(items(), cursor.End()), nil
			}))
	}
	c, err := connector.New(connector.Info{ID: "bench", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}}, caps...)
	require.NoError(t, err)
	g.inv, err = connector.NewInvoker(policy, []*authz.Authority{b.Authority()}, []connector.Connector{c}, &connector.Options{
		Audit: connector.AuditFunc(func(context.Context, *connector.AuditEvent) error { g.recorded++; return nil }),
	})
	require.NoError(t, err)
	a, err := mcpadapter.New(g.inv, b.Principal, nil)
	require.NoError(t, err)
	g.handler = b.Handler(a.HTTP())
	return g
}

func toolName(i int) string { return "tickets.search_" + strconv.Itoa(1000+i) }

func (g *governed) token(tenant string) string {
	return g.as.Token(resource, tenant, "mcp", "tickets.read")
}

// sdk serves n tools with the official SDK and nothing of ours. raw is without
// its typed handlers.
func sdk(n int, raw bool, schema *mcp.Tool) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	for i := range n {
		tool := &mcp.Tool{Name: toolName(i), Description: "Searches tickets."}
		switch {
		case schema != nil:
			tool.InputSchema, tool.OutputSchema = schema.InputSchema, schema.OutputSchema
			s.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
		case raw:
			tool.InputSchema = json.RawMessage(`{"type":"object"}`)
			s.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				text, err := json.Marshal(answer{"ok", items()})
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, StructuredContent: json.RawMessage(text)}, err
			})
		default:
			mcp.AddTool(s, tool, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, answer, error) {
				return nil, answer{"ok", items()}, nil
			})
		}
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
}

// mcpgo serves the tool with mark3labs/mcp-go, with its typed handlers or, raw,
// without.
func mcpgo(raw bool) http.Handler {
	s := mark3labsserver.NewMCPServer("s", "1", mark3labsserver.WithToolCapabilities(false))
	if raw {
		tool := mark3labs.NewTool(toolName(0), mark3labs.WithDescription("Searches tickets."), mark3labs.WithString("query"), mark3labs.WithNumber("page_size"))
		s.AddTool(tool, func(_ context.Context, r mark3labs.CallToolRequest) (*mark3labs.CallToolResult, error) {
			_ = r.GetString("query", "")
			return mark3labs.NewToolResultStructuredOnly(answer{"ok", items()}), nil
		})
		return mark3labsserver.NewStreamableHTTPServer(s, mark3labsserver.WithStateLess(true))
	}
	tool := mark3labs.NewTool(toolName(0), mark3labs.WithDescription("Searches tickets."), mark3labs.WithInputSchema[args](), mark3labs.WithOutputSchema[answer]())
	s.AddTool(tool, mark3labs.NewStructuredToolHandler(func(context.Context, mark3labs.CallToolRequest, args) (answer, error) {
		return answer{"ok", items()}, nil
	}))
	return mark3labsserver.NewStreamableHTTPServer(s, mark3labsserver.WithStateLess(true))
}

// A governed call, from the token to the record, against ungoverned peers.
func TestPeersCall(t *testing.T) {
	g := newGoverned(t, 1, rules{all: true})
	ours := callSide(g.handler, g.token("acme"), toolName(0))
	base := []*side{callSide(mcpgo(true), "", toolName(0)), callSide(mcpgo(false), "", toolName(0)), callSide(sdk(1, true, nil), "", toolName(0)), callSide(sdk(1, false, nil), "", toolName(0))}
	for _, s := range append(base, ours) {
		s.check(t, "hello world", 20)
	}
	require.Equal(t, 1, g.recorded)
	got := measure(*rounds, 20*time.Millisecond, 20, append(base, ours)...)
	for i, name := range []string{"mcp-go v1.2.1 raw", "mcp-go v1.2.1 typed", "official SDK raw", "official SDK typed"} {
		report(t, "governed tools/call over HTTP, "+name, got[4], got[i])
	}
	require.LessOrEqual(t, got[4].allocs, got[1].allocs, "no more allocations than the leanest typed peer, which governs nothing")
	require.LessOrEqual(t, got[4].bytes, got[2].bytes/4)
}

// BenchmarkCall is for profiles.
func BenchmarkCall(b *testing.B) {
	g := newGoverned(b, 1, rules{all: true})
	for name, s := range map[string]*side{"governed": callSide(g.handler, g.token("acme"), toolName(0)), "mcp-go": callSide(mcpgo(true), "", toolName(0))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.run()
			}
		})
	}
}

// tools/list of 1,000 tools for one principal, at most a tenth of the SDK's
// bytes, and memory for each tenant more.
func TestPeersList(t *testing.T) {
	g := newGoverned(t, 1000, rules{})
	ours := listSide(g.handler, g.token("tenant-x"))
	base := listSide(sdk(1000, false, schemaOf(t, ours)), "")
	ours.check(t, `"tickets.search_`, 1000)
	base.check(t, `"tickets.search_`, 1000)

	s := newGoverned(t, 1000, silent{rules{}})
	asked := listSide(s.handler, s.token("tenant-x"))
	asked.check(t, `"tickets.search_`, 1000)

	got := measure(*rounds, 40*time.Millisecond, 2, ours, asked, base)
	report(t, "tools/list of 1000 tools over HTTP, official SDK with the same schemas", got[0], got[2])
	report(t, "the same, policy asked about all tools each time", got[1], got[2])
	require.LessOrEqual(t, got[0].bytes, got[2].bytes/10)
}

// schemaOf takes the schemas of the first tool of a list.
func schemaOf(t testing.TB, s *side) *mcp.Tool {
	rw := httptest.NewRecorder()
	s.handler.ServeHTTP(rw, s.request())
	_, text, _ := strings.Cut(rw.Body.String(), "data: ")
	var m struct {
		Result struct {
			Tools []struct{ InputSchema, OutputSchema json.RawMessage }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	require.Len(t, m.Result.Tools, 1000)
	return &mcp.Tool{InputSchema: m.Result.Tools[0].InputSchema, OutputSchema: m.Result.Tools[0].OutputSchema}
}

// Memory for a tenant more, with 1,000 tools and 1,000 tenants in ten classes.
func TestPeersMemory(t *testing.T) {
	g := newGoverned(t, 1000, rules{})
	visit := func(from, to int) {
		for i := from; i < to; i++ {
			token := g.token(fmt.Sprintf("tenant-%d", i))
			listSide(g.handler, token).run()
			callSide(g.handler, token, toolName((i+1)%10)).run()
		}
	}
	visit(0, 20) // every class is there
	before := heap()
	visit(20, 1020)
	each := float64(heap()-before) / 1000
	line, err := json.Marshal(struct {
		Name  string  `json:"name"`
		Bytes float64 `json:"bytes_per_tenant"`
	}{"memory for a tenant more, 1000 tools, 10 classes, its token included", each})
	require.NoError(t, err)
	fmt.Fprintln(os.Stdout, string(line))
	require.Less(t, each, 4096.0)
	runtime.KeepAlive(g)
}

func heap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
