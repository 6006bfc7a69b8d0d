// Package connectortest tells the author of a connector which of the SDK's
// promises it breaks: without an account at the provider, in about a second, one
// sentence for each promise, with the exchange that shows it.
//
// # From an empty folder to a green contract
//
// Write the connector (see package connector), and beside it a test with a
// double: the provider, as far as the connector uses it, as an [http.Handler].
//
//	func TestContract(t *testing.T) {
//		connectortest.Test(t, connectortest.Fixture{
//			New:    func() (connector.Connector, error) { return tickets.New("tickets") },
//			Double: func(t testing.TB) connectortest.Double { return newDouble() },
//			Samples: []connectortest.Sample{
//				{Capability: "get_ticket", Args: `{"id":"a-1"}`, Bob: `{"id":"b-1"}`, Missing: `{"id":"a-404"}`},
//				{Capability: "create_ticket", Args: `{"title":"hello"}`},
//			},
//		})
//	}
//
// The double has two tenants, [check.TenantA] with Alice and Carol, and
// [check.TenantB] with Bob. Give each a few items, listings at least five. Token
// returns the credential of one of them, which the suite puts where
// Info.Auth.Scheme says; the double refuses every other with 401, and shows each
// tenant its own items only. Snapshot returns the whole state as JSON: it is how
// the suite knows what really happened. Answer as the provider's documentation
// says, failures included: 404 for what is not there, 403 or 404 for what is
// somebody else's.
//
// There is a sample for each capability, of a call that works. Then:
//
//	go test -run TestContract
//
// A red check says what was promised, what was seen, and the requests. The first
// thing to look at is always "the ordinary call does not work": as long as it
// does not, everything else is inconclusive. Then fill in what inconclusive
// checks ask for (Sample.Missing, Empty, Denied, Bob; DoubleWithChanges).
//
// What the suite found in connectors that worked, so look there first: an argument
// that names something needs a pattern ("a/b" for a name is INVALID_INPUT, and not
// a request that egress refuses); provenance and errors quote no argument that the
// policy was not asked about; what may not be seen reads like what is not there,
// in code and in words (Info.Rules); a vendor's client may take an empty body for
// an answer, and its decoding errors are the provider's (toolresult.ProviderError).
//
// # A report to show
//
//	go test -run TestContract -connectortest.report=DIR
//
// writes DIR/<connector>/report.html, report.json and junit.xml; [ReportVariable]
// does so for a run over several packages. See package report.
//
// # Verdicts
//
// Only pass and not applicable are green. Not applicable follows from what the
// manifest declares and from probes; there is no switch to leave a check out. A
// check that could not look is inconclusive, which is red: a missing prerequisite
// is no success. A known failure gets a [Waiver], with a reason, an issue and a
// date; the report then says partial.
//
// # Where the provider is
//
// A double is the default. Every result names the mode that it was found in, and
// a contract that was only ever proven against a double is no more than that.
//
//	-connectortest.mode=replay     answers that [Record] kept (Fixture.Recording): has the shape changed?
//	-connectortest.mode=sandbox    the provider's test organisation (Fixture.Real), with the faults in front of it
//	-connectortest.mode=live       a real account, reads only, at most five requests a second;
//	                               needs CONNECTORTEST_LIVE=<id of the connector>
//
// In double and replay, time is virtual.
//
// [CompareDouble] holds the double against the real system. What it gives goes to
// testdata/double.json and Fixture.Compared, is shown in every report, is stale
// after 90 days, and after 180 core checks that pass are inconclusive: by then the
// double may be a story about a provider that is no more.
//
// # What is tested
//
// The connector on a host as an operator has it: the governed path, a policy, a
// broker of credentials, a ledger, audit. Fixture.Host puts an operator's own
// parts into it and Fixture.Through a gateway in front; the suite then tests
// those as well. [Checks] lists the promises. Which of them count is a frozen
// list ([Newest]); newer checks run, are shown, and do not count yet.
//
// A connector that receives webhooks says so in Fixture.Webhooks: its endpoint,
// and how the provider signs. Eight checks then deliver to it: without a
// signature, in other bytes, late, twice, out of order, without an end, for
// somebody else, and while a secret is replaced.
//
// The random walk combines changes, repetitions, failures and restarts. Its seeds
// are fixed; what it finds is shrunk to the steps that matter, and is named with
// its seed.
//
// Package fault has the faults, for tests of one's own.
//
// # What it does not do
//
// It cannot know what the provider does: whether it honours an idempotency key,
// only mode sandbox can show. It does not look for secrets in compressed text, nor
// in what a connector writes to a log that is not its call's. It does not measure speed. A vendor's client that
// takes no *http.Client cannot be tested, and cannot be governed either.
package connectortest
