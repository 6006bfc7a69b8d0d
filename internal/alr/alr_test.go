package alr

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSameBytesTwice(t *testing.T) {
	var a, b bytes.Buffer
	require.NoError(t, WriteOpenMetrics(&a))
	require.NoError(t, WriteOpenMetrics(&b))
	require.Equal(t, a.String(), b.String())
	require.Contains(t, a.String(), `http_requests_total{code="200",namespace="prod",service="order-service"} 1485 1777429200`+"\n")
	require.True(t, strings.HasSuffix(a.String(), "# EOF\n"))
}

func TestTheStory(t *testing.T) {
	for _, f := range Families() {
		for _, s := range f.Series {
			require.Len(t, s.Samples, 181, f.Name)
			require.Equal(t, Start().UnixMilli(), s.Samples[0].T)
			require.Equal(t, End().UnixMilli(), s.Samples[180].T)
			for i := 1; i < len(s.Labels); i++ {
				require.Less(t, s.Labels[i-1].Name, s.Labels[i].Name, "labels are sorted")
			}
		}
	}
	lines := Logs(Namespace)
	require.Len(t, lines, 184)
	for i := 1; i < len(lines); i++ {
		require.Less(t, lines[i-1].T, lines[i].T, "no two lines at the same time")
	}
	require.Equal(t, Deployed(), Deployments()[0].States[0].At)
	require.Equal(t, AlertID, Alerts()[len(Alerts())-1].ID)
}

// What is the other tenant's must be recognizable, and nothing else may be.
func TestOnlyTheOtherTenantHoldsTheCanary(t *testing.T) {
	require.NotContains(t, fmt.Sprint(Logs(Namespace)), Canary)
	require.Contains(t, fmt.Sprint(Logs(OtherNamespace)), Canary)
	require.Empty(t, Logs("nobody"))
	for _, a := range Alerts() {
		require.Equal(t, a.Namespace == OtherNamespace, strings.Contains(fmt.Sprint(a), Canary), a.ID)
	}
	for _, r := range Runbooks() {
		require.Equal(t, r.Namespace == OtherNamespace, strings.Contains(fmt.Sprint(r), Canary), r.ID)
	}
	for _, d := range Deployments() {
		require.Equal(t, d.Owner == "other", strings.Contains(fmt.Sprint(d), Canary), d.Number)
	}
}
