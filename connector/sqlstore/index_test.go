package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest/ingesttest"
)

func testIndex_P6(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	ingesttest.Run(t, func(t testing.TB) ingest.Index { return p.open(t, nil).Index() })
	x := p.open(t, nil).Index()
	f := ingest.Feed{Tenant: "sealed", Connection: "c1", Name: "wiki"}
	_, err := x.Apply(t.Context(), f, &ingest.Batch{At: time.Now(), Items: []ingest.Item{{Object: authz.ResourceID{Type: "page", ID: "1"}, Version: 1, Title: canary, Text: canary, Access: &ingest.Access{Readers: []string{"r"}}}}})
	require.NoError(t, err)
	rows := func(ask string) (out string) { // everything that is there, as text
		list, err := p.db(t).Query(ask)
		require.NoError(t, err)
		defer list.Close()
		for list.Next() {
			var a []byte
			require.NoError(t, list.Scan(&a))
			out += string(a)
		}
		return out
	}
	require.NotContains(t, rows("SELECT body FROM drawbridge_index_objects WHERE tenant = 'sealed'")+rows("SELECT title FROM drawbridge_index_objects WHERE tenant = 'sealed'"), canary, "R10")
	for _, word := range ingest.Words(canary) {
		require.NotContains(t, rows("SELECT word FROM drawbridge_index_words WHERE tenant = 'sealed'"), word, "R10")
	}
	_, err = x.Apply(t.Context(), f, &ingest.Batch{At: time.Now(), Items: []ingest.Item{{Object: authz.ResourceID{Type: "page", ID: "1"}, Version: 2, Deleted: true}}})
	require.NoError(t, err)
	require.Empty(t, rows("SELECT body FROM drawbridge_index_objects WHERE tenant = 'sealed'")+rows("SELECT word FROM drawbridge_index_words WHERE tenant = 'sealed'")+rows("SELECT reader FROM drawbridge_index_readers WHERE tenant = 'sealed'"), "a tombstone holds nothing")
}
