package bookings_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	bookings "github.com/drawbridge-sdk/drawbridge/examples/guides/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/connector/double"
)

// The connector of the guide keeps the contract. T1.
func TestContract_T1(t *testing.T) {
	const times = `,"start":"2026-12-01T09:00:00Z","end":"2026-12-01T10:00:00Z"}`
	connectortest.Test(t, connectortest.Fixture{
		New:    func() (connector.Connector, error) { return bookings.New("rooms") },
		Double: func(testing.TB) connectortest.Double { return double.New() },
		Samples: []connectortest.Sample{
			{Capability: "list_bookings", Args: `{"room":"r-12"}`, Empty: `{"room":"r-14"}`, Missing: `{"room":"r-404"}`, Denied: `{"room":"r-99"}`, Items: 6},
			{Capability: "book_room", Args: `{"room":"r-12","title":"review"` + times, Other: `{"room":"r-14","title":"retro"` + times,
				Missing: `{"room":"r-404","title":"review"` + times, Denied: `{"room":"r-99","title":"review"` + times},
		},
	})
}

func TestItIsShort(t *testing.T) {
	text, err := os.ReadFile("bookings.go")
	require.NoError(t, err)
	require.Less(t, len(text), 7000, "a guide is read at one sitting")
}
