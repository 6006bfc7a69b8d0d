package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/metrics"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is in everything that a caller can say.
const canary = "alice-canary-4711"

// hostile makes a request and a call that say the canary wherever they can, and
// returns all that operators see of them.
func hostile(t *testing.T) (traces, exposition string) {
	t.Helper()
	c, err := metrics.New("metrics")
	require.NoError(t, err)
	var spans bytes.Buffer
	tel, err := Open(t.Context(), &Options{Instance: "a", Release: "1.0.0", Connectors: []connector.Connector{c}, Traces: &spans})
	require.NoError(t, err)
	sink := tel.Audit(connector.AuditFunc(func(context.Context, *connector.AuditEvent) error { return nil }))
	h := tel.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"prometheus_query_range", canary} {
			e := &connector.AuditEvent{Principal: authz.PrincipalKey{Tenant: canary, Issuer: canary, Subject: canary}, Actor: canary,
				Action: authz.Action{Connector: canary, Capability: name, Version: canary}, Target: []authz.ResourceID{{Type: canary, ID: canary}},
				Verdict: authz.Verdict(77), Reason: canary, Arguments: canary, Connection: canary, Key: canary, Run: canary,
				Result: toolresult.Record{CallID: canary, Status: toolresult.StatusError, Code: toolresult.ErrorCode(canary), DataRef: canary}}
			require.NoError(t, sink.Record(r.Context(), e))
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	for _, method := range []string{http.MethodPost, canary} {
		r := httptest.NewRequest(http.MethodPost, "/mcp/"+canary+"?"+canary+"=1", strings.NewReader(canary))
		r.Method = method
		for name, value := range map[string]string{"Mcp-Method": canary, "Mcp-Name": canary, "Authorization": "Bearer " + canary, "User-Agent": canary,
			"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Tracestate": "k=" + canary, "Baggage": "k=" + canary} {
			r.Header.Set(name, value)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	shown := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(shown, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.NoError(t, tel.Close(t.Context()))
	return spans.String(), shown.Body.String()
}

// R10: nothing that a caller says is in a span or a metric, not even as the name
// of a tool.
func TestNothingOfCallers_R10(t *testing.T) {
	traces, exposition := hostile(t)
	require.NotContains(t, traces, canary)
	require.NotContains(t, exposition, canary)
	require.Contains(t, traces, "4bf92f3577b34da6a3ce929d0e0e4736", "the caller's trace goes on")
	require.Contains(t, exposition, `drawbridge_capability="prometheus_query_range"`)
}

// What is seen is in the list, and the list is the table of the README.
func TestAttributesAreListed(t *testing.T) {
	traces, exposition := hostile(t)
	listed := map[string]bool{}
	for _, a := range Attributes() {
		listed[a.Key] = true
	}
	type attribute struct{ Key string }
	var span struct{ Attributes, Resource []attribute }
	seen := 0
	for d := json.NewDecoder(strings.NewReader(traces)); d.More(); {
		require.NoError(t, d.Decode(&span))
		for _, a := range slices.Concat(span.Attributes, span.Resource) {
			require.True(t, listed[a.Key], a.Key)
			seen++
		}
	}
	require.Positive(t, seen)
	for _, label := range regexp.MustCompile(`[{,]([a-z_]+)="`).FindAllStringSubmatch(exposition, -1) {
		ok := label[1] == "le" || slices.ContainsFunc(Attributes(), func(a Attribute) bool { return strings.ReplaceAll(a.Key, ".", "_") == label[1] })
		require.True(t, ok, label[1])
	}
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	table := ""
	for _, a := range Attributes() {
		table += fmt.Sprintf("| `%s` | %s | %s |\n", a.Key, a.On, a.Values)
	}
	require.True(t, strings.HasSuffix(string(readme), "|---|---|---|\n"+table), "the table at the end of README.md is to be:\n%s", table)
}

// The status of an answer is what was written first; a stream is flushed.
func TestStatusWriter(t *testing.T) {
	rec := httptest.NewRecorder()
	s := &statusWriter{ResponseWriter: rec, status: http.StatusOK}
	_, err := s.Write([]byte("x"))
	require.NoError(t, err)
	s.WriteHeader(http.StatusTeapot)
	s.Flush()
	require.Equal(t, http.StatusOK, s.status)
	require.True(t, rec.Flushed)
}
