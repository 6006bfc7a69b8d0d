// Package connectortest tells the author of a connector which of the SDK's
// promises it breaks, without an account at the provider, in about a second:
//
//	func TestConnector(t *testing.T) {
//		connectortest.Test(t, connectortest.Fixture{
//			New:    func() (connector.Connector, error) { return tickets.New("tickets") },
//			Double: func(t testing.TB) connectortest.Double { return newDouble() },
//			Samples: []connectortest.Sample{
//				{Capability: "tickets.get", Args: `{"id":"T-1"}`, Missing: `{"id":"T-404"}`},
//				{Capability: "tickets.create", Args: `{"title":"hello"}`},
//			},
//		})
//	}
//
// # What it does not do
//
// A green contract against a double is proven against the double only, and each
// result says so. Whether the provider really honours an idempotency key only the
// provider can show: mode sandbox.
package connectortest
