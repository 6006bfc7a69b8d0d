package rules_test

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/rules"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var update = flag.Bool("update", false, "write testdata/answers.golden anew; then read the difference")

// captured are answers of real servers, taken on 2026-11-30.
type captured struct {
	Server, Name string
	Status       int
	Header       []string
	Body         string
}

func answers(t testing.TB) (out []captured) {
	t.Helper()
	f, err := os.Open("testdata/answers.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(z).Decode(&out))
	return out
}

var setOf = map[string]provider.Rules{"alertmanager": rules.Alertmanager, "gitea": rules.Gitea, "kubernetes": rules.Kubernetes, "loki": rules.Loki,
	"prometheus": rules.Prometheus, "redmine": rules.Redmine, "rt": rules.HTTP, "stripe": rules.Stripe, "victorialogs": rules.HTTP}

// E3, E5: what the sets say about every captured answer. The table was read line by
// line; none of the failures is unclassified.
func TestCapturedAnswers_E3_E5(t *testing.T) {
	var table strings.Builder
	bodies := 0
	for _, a := range answers(t) {
		server := strings.Split(strings.ReplaceAll(a.Server, "stripe-mock", "stripe"), "-")[0]
		set, ok := setOf[server]
		require.True(t, ok, a.Server)
		bodies++
		v := provider.Classify(set, &provider.Response{Method: "GET", Status: a.Status, Header: headers(a.Header...), Body: []byte(a.Body)})
		if !v.OK {
			require.NotEqual(t, toolresult.ProviderError, v.Code, "%s/%s is not classified", a.Server, a.Name)
		}
		verdict := "ok"
		if !v.OK {
			verdict = fmt.Sprintf("%-21s %-11s %3.0fs %-18s %.70s", v.Code, v.Effect, v.RetryAfter.Seconds(), v.ProviderCode, v.Text)
		}
		fmt.Fprintln(&table, strings.TrimSpace(fmt.Sprintf("%-20s %-36s %3d %s", a.Server, a.Name, a.Status, verdict)))
	}
	require.GreaterOrEqual(t, bodies, 212)
	if *update {
		require.NoError(t, os.WriteFile("testdata/answers.golden", []byte(table.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/answers.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), table.String())
}
