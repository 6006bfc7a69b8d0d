package connectortest_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/internal/mutants"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// odd is the desk with another Invoke.
type odd struct {
	connector.ConnectorWithTarget
	invoke   func(context.Context, *connector.Call) (*toolresult.Result, error)
	manifest func() connector.Manifest
}

func (o odd) Invoke(ctx context.Context, c *connector.Call) (*toolresult.Result, error) {
	return o.invoke(ctx, c)
}

func (o odd) Manifest() connector.Manifest {
	if o.manifest != nil {
		return o.manifest()
	}
	return o.ConnectorWithTarget.Manifest()
}

func (o odd) Lookup(ctx context.Context, c *connector.Call) (*toolresult.Result, error) {
	return o.invoke(ctx, c)
}

func withInvoke(t *testing.T, f func(context.Context, *connector.Call) (*toolresult.Result, error)) connectortest.Fixture {
	t.Helper()
	fixture := desk("")
	alive := fixture.New
	fixture.New = func() (connector.Connector, error) {
		c, err := alive()
		if err != nil {
			return nil, err
		}
		return odd{ConnectorWithTarget: c.(connector.ConnectorWithTarget), invoke: f}, nil
	}
	return fixture
}

// Whatever a connector's code does, the suite ends, says so, and nothing that
// looks at calls is green.
func TestHostileConnectors(t *testing.T) {
	for name, invoke := range map[string]func(context.Context, *connector.Call) (*toolresult.Result, error){
		"never returns":        func(context.Context, *connector.Call) (*toolresult.Result, error) { select {} },
		"leaves":               func(context.Context, *connector.Call) (*toolresult.Result, error) { runtime.Goexit(); return nil, nil },
		"an error that panics": func(context.Context, *connector.Call) (*toolresult.Result, error) { return nil, panicking{} },
		"endless goroutines": func(context.Context, *connector.Call) (*toolresult.Result, error) {
			for range 10 {
				go func() { select {} }()
			}
			return nil, errors.New("no")
		},
		"a lie about a change": func(_ context.Context, c *connector.Call) (*toolresult.Result, error) {
			op, _ := c.Operation()
			return toolresult.Applied(c.ID(), op.ID, []byte(`{}`)), nil
		},
		"a result that contradicts itself": func(_ context.Context, c *connector.Call) (*toolresult.Result, error) {
			return &toolresult.Result{CallID: c.ID(), Status: "fine", Data: []byte(`{]`)}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := withInvoke(t, invoke)
			s, err := check.Open(t, &f, check.InDouble)
			require.NoError(t, err)
			for _, c := range connectortest.Checks() {
				if !c.Static && (strings.HasPrefix(c.ID, "manifest/") || strings.HasPrefix(c.ID, "authz/") || strings.HasPrefix(c.ID, "schema/")) {
					r := check.Do(t, s, &c)
					require.False(t, r.Verdict.Green(), "%s: %v", c.ID, r.Verdict)
				}
			}
		})
	}
}

// A check that may end at its first finding says the same with fewer requests, and
// what several checks look at is made to happen once and counts for each.
func TestWhatIsSavedChangesNoVerdict(t *testing.T) {
	one := func(id string) *check.Check {
		list := connectortest.Checks()
		return &list[slices.IndexFunc(list, func(c check.Check) bool { return c.ID == id })]
	}
	f := desk("500-as-ok")
	s, err := check.Open(t, &f, check.InDouble)
	require.NoError(t, err)
	whole := check.Do(t, s, one("errors/5xx-is-not-success"))
	s.Brief = true
	brief := check.Do(t, s, one("errors/5xx-is-not-success"))
	require.Equal(t, check.Fail, whole.Verdict)
	require.Equal(t, check.Fail, brief.Verdict)
	require.Equal(t, whole.Findings[0], brief.Findings[0])
	require.Less(t, brief.Requests, whole.Requests)

	f = desk("audit-leak")
	s, err = check.Open(t, &f, check.InDouble)
	require.NoError(t, err)
	first, second := check.Do(t, s, one("leak/logs")), check.Do(t, s, one("leak/audit"))
	require.Equal(t, check.Pass, first.Verdict)
	require.Equal(t, check.Fail, second.Verdict, "what others share is looked at by each")
	require.Equal(t, first.Requests, second.Requests)
	require.NotEmpty(t, second.Transcript)
}

type panicking struct{}

func (panicking) Error() string { panic("no text") }

// A constructor or a manifest that panics is an error of the fixture.
func TestPanicsBeforeTheFirstCall(t *testing.T) {
	for name, change := range map[string]func(*connectortest.Fixture){
		"New": func(f *connectortest.Fixture) { f.New = func() (connector.Connector, error) { panic("no") } },
		"failed": func(f *connectortest.Fixture) {
			f.New = func() (connector.Connector, error) { return nil, errors.New("no key") }
		},
		"Manifest": func(f *connectortest.Fixture) {
			f.New = func() (connector.Connector, error) {
				return odd{manifest: func() connector.Manifest { panic("no") }}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := desk("")
			change(&f)
			_, err := check.Open(t, &f, check.InDouble)
			require.ErrorContains(t, err, "connectortest: there is no connector")
		})
	}
}

type badDouble struct {
	connectortest.Double
	serve    func(http.ResponseWriter, *http.Request)
	snapshot func() ([]byte, error)
}

func (b badDouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.serve != nil {
		b.serve(w, r)
		return
	}
	b.Double.ServeHTTP(w, r)
}

func (b badDouble) Snapshot() ([]byte, error) {
	if b.snapshot != nil {
		return b.snapshot()
	}
	return b.Double.Snapshot()
}

// A double that is wrong is not the connector's fault, and never a pass.
func TestHostileDoubles(t *testing.T) {
	with := func(b badDouble) connectortest.Fixture {
		f := desk("")
		f.Double = func(t testing.TB) connectortest.Double { b.Double = mutants.NewDesk(t); return b }
		return f
	}
	t.Run("panics", func(t *testing.T) {
		f := with(badDouble{serve: func(http.ResponseWriter, *http.Request) { panic("double") }})
		_, err := check.Open(t, &f, check.InDouble)
		require.ErrorContains(t, err, "the double panicked")
	})
	t.Run("answers nothing", func(t *testing.T) {
		f := with(badDouble{serve: func(http.ResponseWriter, *http.Request) {}})
		s, err := check.Open(t, &f, check.InDouble)
		require.NoError(t, err)
		for _, c := range connectortest.Checks() {
			if c.ID == "errors/5xx-is-not-success" || c.ID == "cursor/complete" {
				require.Equal(t, check.Inconclusive, check.Do(t, s, &c).Verdict)
			}
		}
	})
	t.Run("no snapshot", func(t *testing.T) {
		f := with(badDouble{snapshot: func() ([]byte, error) { return nil, errors.New("none") }})
		s, err := check.Open(t, &f, check.InDouble)
		require.NoError(t, err)
		for _, c := range connectortest.Checks() {
			if c.ID == "approval/required" || c.ID == "audit/intent-before-write" {
				require.Equal(t, check.Inconclusive, check.Do(t, s, &c).Verdict, c.ID)
			}
		}
	})
}
