package check

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A Fixture tells the suite how to make the connector and its provider. New,
// Samples and Double are needed. There is nothing in it to leave a check out:
// what applies follows from the manifest and is probed.
type Fixture struct {
	// New returns a new connector with no state. It is called many times.
	New func() (connector.Connector, error)

	// Double returns a new provider that lives in the process, in the same state
	// each time. t is for test data and logging; nothing it does may outlive t.
	Double func(t testing.TB) Double

	// Samples holds at least one ordinary call for each capability.
	Samples []Sample

	// BasePath is the path of the endpoint below the provider's origin, such as
	// "/api/v4". Empty: none.
	BasePath string

	// Failures are bodies by which this provider says that it failed in an answer
	// with status 200. Nil: it has none.
	Failures []string

	// Released is the contract of the last released version, as package
	// connector/release writes it (testdata/release.json). Nil: none was released.
	Released []byte

	// Host changes the host that the connector runs on: middleware, limits, trust,
	// or an operator's own parts around the suite's. Nil: the suite's.
	Host func(h *Host)

	// Through puts a surface of your own between the suite and the governed path,
	// such as a gateway. Nil: none.
	Through func(next Surface) Surface

	// Webhooks is how the connector receives what its provider sends. Nil: it
	// receives nothing.
	Webhooks *Webhooks

	// Recording is what the provider once answered, for mode InReplay: see
	// [Recorded]. Nil: that mode is inconclusive.
	Recording []byte

	// Real opens the provider's test organisation (modes InSandbox and InLive). Nil:
	// those modes are inconclusive.
	Real func(ctx context.Context, t testing.TB) (Real, error)

	// Compared is what CompareDouble of package connectortest gave when the double
	// was last held against the real system (testdata/double.json). Reports show
	// it. Older than 90 days, it is stale, which is a warning; older than 180, core
	// checks that pass are inconclusive. Nil: the double was never compared, and
	// reports say so.
	Compared []byte

	// Waive names checks that are known to fail. A waiver whose check passes, or
	// whose date has gone by, or that names no check, is a failure itself.
	Waive []Waiver

	// Requirements is the frozen set to be judged by, such as "2026.12". Empty: the
	// newest.
	Requirements string

	// Canaries are further secrets that may be seen nowhere. The suite always
	// plants its own.
	Canaries []string
}

// The callers of every check. Alice and Bob are of two tenants; Carol is of
// Alice's, and so is Dave, who approves what others ask for and calls nothing.
const (
	TenantA = "acme"
	TenantB = "globex"
	Alice   = "alice" // of TenantA
	Carol   = "carol" // of TenantA
	Dave    = "dave"  // of TenantA
	Bob     = "bob"   // of TenantB
)

// A Double is a provider that lives in the process. ServeHTTP is called by many
// goroutines.
type Double interface {
	http.Handler

	// Token returns the credential that acts as a user of a tenant. It is at least
	// 12 bytes, and different for each.
	Token(tenant, user string) string

	// Snapshot returns the whole state as canonical JSON. Two equal snapshots mean
	// that nothing has changed. It is how the suite knows what really happened.
	Snapshot() ([]byte, error)
}

// A Double may implement these too; checks that need one are inconclusive or
// not applicable without it, and say so.
type (
	// DoubleWithAccounts says what the provider calls an account.
	DoubleWithAccounts interface {
		Account(tenant, user string) (account, org string)
	}

	// DoubleWithRevoke makes a credential stop working.
	DoubleWithRevoke interface{ Revoke(tenant, user string) }

	// DoubleWithScopes returns a credential that has these scopes only.
	DoubleWithScopes interface {
		TokenFor(tenant, user string, scopes []string) string
	}

	// DoubleWithChanges changes the items of a tenant behind the connector's
	// back, as another user of the provider would.
	DoubleWithChanges interface {
		Insert(tenant string)
		Remove(tenant string) // the one that is listed first
	}
)

// Real is a test organisation at the real provider.
type Real struct {
	// URL is where it is, without BasePath.
	URL string

	// Token returns the credential of a user of a tenant.
	Token func(tenant, user string) string

	// Snapshot reads the state by a way that is not the connector.
	Snapshot func() ([]byte, error)

	// Sweep deletes what older runs left behind. It is called before and after.
	Sweep func(ctx context.Context, age time.Duration) error
}

// A Sample is one ordinary call of one capability, by Alice. Args is needed;
// whatever else is there makes more checks conclusive.
type Sample struct {
	Capability string

	// Args is JSON. The call must succeed with some data. For a write it is
	// repeated in new providers, so that it works in each.
	Args string

	// Bob is the same call for Bob. Empty: Args.
	Bob string

	// Empty is JSON that matches nothing, for a listing. Missing names something
	// that is not there. Denied names something of Bob's.
	Empty, Missing, Denied string

	// Other is JSON of another ordinary call by Alice, with a different answer.
	Other string

	// Scope is what a policy grants Alice for this call, if that is less than she
	// asks for; Scope is empty if it is what she asks for.
	Scope []authz.ResourceID

	// Foreign adds an item to the provider's answer that Alice is not granted,
	// and that holds the text "foreign-item". Nil: the provider tells nobody's items apart.
	Foreign func(body []byte) []byte

	// Items is how many items a whole listing has. 0: it is not said.
	Items int
}

// A Waiver says why a check fails and until when that is accepted. All are
// needed.
type Waiver struct {
	Check  string
	Reason string
	Issue  string // URL
	Until  time.Time
}

// Host is what a connector runs on.
type Host struct {
	Policy  authz.Policy
	Options connector.Options

	// Accounts is where the host keeps the accounts that people have connected, if
	// it uses package connection.
	Accounts connection.Store
}

// Surface makes calls: the governed path itself, or what stands in front of it.
type Surface interface {
	Invoke(ctx context.Context, req *connector.InvokeRequest) *toolresult.Result
}
