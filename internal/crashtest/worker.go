package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// job is one call. Die is the point at which the process kills itself; 0: it
// does not.
type job struct {
	N                      int
	Capability, Thing, Key string
	Die                    int
}

// answer is what a call was told.
type answer struct {
	N           int
	Disposition toolresult.Disposition
	Code        toolresult.ErrorCode
	Operation   string
	Invalid     string // what is wrong with the result itself
}

// owner makes all changes.
var owner = authz.PrincipalKey{Tenant: "acme", Issuer: "https://id.example", Subject: "alice"}

// openStore opens a handle on the store as a process of its own does.
func openStore(ctx context.Context, kind, dsn string) (*sql.DB, *sqlstore.Store, error) {
	driver, dialect := "sqlite", sqlstore.SQLite
	if kind == "postgres" {
		driver, dialect = "pgx", sqlstore.PostgreSQL
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlstore.Open(ctx, db, dialect, &sqlstore.Options{Plaintext: true})
	if err != nil {
		db.Close()
	}
	return db, s, err
}

// work is a worker's process: jobs come on the standard input, answers go to the
// standard output.
func work() {
	ctx := context.Background()
	_, store, err := openStore(ctx, os.Getenv("STORE"), os.Getenv("DSN"))
	if err != nil {
		fatal(err)
	}
	inv, who, err := newInvoker(os.Getenv("PROVIDER"), mortal{store})
	if err != nil {
		fatal(err)
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	var wg sync.WaitGroup
	for in.Scan() {
		var j job
		if err := json.Unmarshal(in.Bytes(), &j); err != nil {
			fatal(err)
		}
		wg.Go(func() {
			a := perform(ctx, inv, who, j)
			mu.Lock()
			defer mu.Unlock()
			if err := out.Encode(a); err != nil {
				fatal(err)
			}
		})
	}
	wg.Wait()
}

func perform(ctx context.Context, inv *connector.Invoker, who authz.Principal, j job) answer {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, fateKey{}, &fate{die: int64(j.Die)}), 30*time.Second)
	defer cancel()
	args, err := json.Marshal(create{j.Thing})
	if err != nil {
		fatal(err)
	}
	r := inv.Invoke(ctx, &connector.InvokeRequest{Principal: who, Capability: j.Capability, Key: j.Key, Arguments: args})
	a := answer{N: j.N, Disposition: r.Effect.Disposition, Operation: r.Effect.OperationID, Code: toolresult.Code(r.Err())}
	if err := r.Validate(nil); err != nil {
		a.Invalid = err.Error()
	}
	return a
}

// fate counts the points that a call passes, and ends the process at one.
type fate struct{ die, passed int64 }

type fateKey struct{}

func point(ctx context.Context) {
	f, _ := ctx.Value(fateKey{}).(*fate)
	if f != nil && atomic.AddInt64(&f.passed, 1) == f.die {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// mortal is a store before and after whose writes the process may end.
type mortal struct{ operation.StoreWithDurability }

func (m mortal) Create(ctx context.Context, r operation.Record) (operation.Record, error) {
	point(ctx)
	defer point(ctx)
	return m.StoreWithDurability.Create(ctx, r)
}

func (m mortal) CompareAndSwap(ctx context.Context, r operation.Record) (operation.Record, error) {
	point(ctx)
	defer point(ctx)
	return m.StoreWithDurability.CompareAndSwap(ctx, r)
}

// policy allows everything that is asked for.
type policy struct{}

func (policy) Decide(_ context.Context, r *authz.Request) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow, Scope: r.Target.Scope(), Revision: "1"}, nil
}

func newInvoker(base string, store operation.Store) (*connector.Invoker, authz.Principal, error) {
	host := authz.NewAuthority("crashtest")
	who, err := host.Principal(authz.Identity{Tenant: owner.Tenant, Issuer: owner.Issuer, Subject: owner.Subject, Expires: time.Now().Add(24 * time.Hour)})
	if err != nil {
		return nil, who, err
	}
	c, err := connector.New(connector.Info{ID: "things", Version: "1.0.0", Owner: "crashtest", Endpoint: "provider", Auth: connector.Auth{Mode: connector.AuthNone}},
		creating("things.create", "marked", connector.Idempotency{Field: "/key", Answer: "/items/0/key"}),
		creating("things.create_keyed", "keyed", connector.Idempotency{Field: "/key", Answer: "/items/0/key", Header: "Idempotency-Key", Window: time.Hour}))
	if err != nil {
		return nil, who, err
	}
	inv, err := connector.NewInvoker(policy{}, []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{
		Operations: store,
		Endpoints:  []egress.Profile{{Name: "provider", BaseURL: base, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
		Audit:      connector.AuditFunc(func(ctx context.Context, _ *connector.AuditEvent) error { point(ctx); return nil }),
	})
	return inv, who, err
}

type create struct {
	Thing string `json:"thing" jsonschema:"name of the thing"`
}

type item struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// creating is a capability that makes a thing, and finds it by its key.
func creating(name, kind string, how connector.Idempotency) connector.Capability {
	post := connector.Route{Pattern: "POST /" + kind + "/{thing}", Effect: connector.Changes, Touches: []string{"thing:{thing}"}}
	if how.Header != "" {
		post.Headers = []string{how.Header}
	}
	get := connector.Route{Pattern: "GET /" + kind + "/{thing}", Effect: connector.Reads, Touches: []string{"thing:{thing}"}}
	send := func(ctx context.Context, c *connector.WriteCall, in create) (*connector.Receipt[item], error) {
		key := c.Operation().UUID()
		req := &connector.HTTPRequest{Route: post.Pattern, Params: connector.Params{"thing": in.Thing}, Body: map[string]string{"key": key}}
		if how.Header != "" {
			req.Header = map[string][]string{how.Header: {key}}
		}
		var out item
		req.Out = &out
		if _, err := c.Do(ctx, req); err != nil {
			return nil, err
		}
		return connector.Applied(out, out.ID), nil
	}
	look := func(ctx context.Context, c *connector.ReadCall, in create, op operation.Operation) (*connector.Evidence[item], error) {
		var out struct{ Items []item }
		if _, err := c.Get(ctx, "/"+kind+"/{thing}", connector.Params{"thing": in.Thing}, &out); err != nil {
			return nil, err
		}
		if len(out.Items) == 0 {
			return connector.DidNotHappen[item](), nil
		}
		if out.Items[0].Key != op.UUID() {
			return nil, fmt.Errorf("another change of %s", in.Thing)
		}
		return connector.Happened(out.Items[0], out.Items[0].ID), nil
	}
	return connector.Write(connector.WriteSpec{
		Spec: connector.Spec{Name: name, Description: "Makes a thing.", Sensitivity: risk.Internal, Routes: []connector.Route{post, get},
			Limits: connector.Limits{Timeout: 2 * time.Second}},
		SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy, Idempotency: how, Settle: 2 * time.Second,
	}, connector.ByArgs(func(in create) authz.ResourceID { return authz.ResourceID{Type: "thing", ID: in.Thing} }), connector.Reconcilable(send, look))
}
