package peers

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRedmineStarts(t *testing.T) {
	base := Redmine(t)
	require.NoError(t, probe(t.Context(), base+"/issues.json", http.Header{"X-Redmine-Api-Key": {alr.TicketKeyNoRight}}, http.StatusOK))
}
