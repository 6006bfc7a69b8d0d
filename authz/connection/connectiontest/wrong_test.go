package connectiontest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// wrong are stores with one fault each. T2: every group of clauses is proven able
// to fail.
var wrong = map[string]func(m *connection.Memory) connection.Store{
	"blind": func(m *connection.Memory) connection.Store { return blind{m} },
	"deaf":  func(m *connection.Memory) connection.Store { return deaf{m} },
	"nosy":  func(m *connection.Memory) connection.Store { return nosy{m} },
	"twice": func(m *connection.Memory) connection.Store { return twice{m} },
	"sieve": func(m *connection.Memory) connection.Store { return sieve{m} },
	"hasty": func(m *connection.Memory) connection.Store { return hasty{m} },
	"lossy": func(m *connection.Memory) connection.Store { return lossy{m} },
}

// blind does not look at versions.
type blind struct{ *connection.Memory }

func (b blind) CompareAndSwap(ctx context.Context, r connection.Record) (connection.Record, error) {
	old, err := b.Get(ctx, r.Owner.Tenant, r.ID)
	if err != nil {
		return connection.Record{}, connection.ErrVersion
	}
	r.Version = old.Version
	return b.Memory.CompareAndSwap(ctx, r)
}

// deaf keeps an account as often as it is connected.
type deaf struct{ *connection.Memory }

func (d deaf) Create(ctx context.Context, r connection.Record) (connection.Record, error) {
	account := r.Account
	r.Account += r.ID
	got, err := d.Memory.Create(ctx, r)
	got.Account = account
	return got, err
}

// nosy looks into other tenants.
type nosy struct{ *connection.Memory }

func (n nosy) Get(ctx context.Context, tenant, id string) (connection.Record, error) {
	list, _ := n.List(ctx, &connection.Query{All: true, Limit: 1000})
	for _, r := range list {
		if r.ID == id {
			return r, nil
		}
	}
	return connection.Record{}, toolresult.NewError(toolresult.NotFound, "no such connection")
}

// twice lets a transaction be taken twice.
type twice struct{ *connection.Memory }

func (w twice) SwapTransaction(ctx context.Context, t connection.Transaction) (connection.Transaction, error) {
	old, err := w.Transaction(ctx, t.Owner.Tenant, t.ID)
	if err != nil {
		return connection.Transaction{}, connection.ErrVersion
	}
	t.Version = old.Version
	return w.Memory.SwapTransaction(ctx, t)
}

// sieve forgets holds.
type sieve struct{ *connection.Memory }

func (sieve) AddHold(context.Context, connection.Hold) error { return nil }

// hasty sweeps everything.
type hasty struct{ *connection.Memory }

func (h hasty) SweepTransactions(ctx context.Context, _ time.Time) (int, error) {
	return h.Memory.SweepTransactions(ctx, time.Now().AddDate(100, 0, 0))
}

// lossy loses a field.
type lossy struct{ *connection.Memory }

func (l lossy) Create(ctx context.Context, r connection.Record) (connection.Record, error) {
	r.Late = false
	return l.Memory.Create(ctx, r)
}

// The store in memory passes; as a child of TestWrongStoresFail, a wrong one is
// in its place.
func TestRun(t *testing.T) {
	var s connection.Store = &connection.Memory{}
	if make := wrong[os.Getenv("CONNECTIONTEST_WRONG")]; make != nil {
		s = make(&connection.Memory{})
	}
	Run(t, func(testing.TB) connection.Store { return s })
}

// T2: each wrong store fails the suite.
func TestWrongStoresFail_T2(t *testing.T) {
	for name := range wrong {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestRun$")
		cmd.Env = append(os.Environ(), "CONNECTIONTEST_WRONG="+name)
		out, err := cmd.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok && exit.ExitCode() == 1, "%s passes the suite: %s", name, out)
		require.True(t, strings.Contains(string(out), "--- FAIL: TestRun/"), "%s", out)
	}
}
