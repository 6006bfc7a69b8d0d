package cache_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cache"
	"github.com/drawbridge-sdk/drawbridge/connector/cache/generation"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a provider: what is in it, and how often it was asked.
type desk struct {
	mu    sync.Mutex
	texts map[string]string
	asked int
}

func (d *desk) read(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.texts[id]
}

func (d *desk) write(id, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.texts[id] = text
}

func (d *desk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// rights is a policy that is changed while it is asked.
type rights struct {
	mu       sync.Mutex
	revision int
	gone     map[string]bool // subject and id
}

func (p *rights) revoke(subject, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone[subject+" "+id] = true
}

func (p *rights) Decide(_ context.Context, r *authz.Request) (authz.Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	objects, _ := r.Target.Objects()
	for _, o := range objects {
		if p.gone[r.Principal.Key().Subject+" "+o.ID] {
			return authz.Decision{Verdict: authz.Deny, Revision: "1"}, nil
		}
	}
	return authz.Decision{Verdict: authz.Allow, Scope: r.Target.Scope(), Revision: fmt.Sprint(p.revision)}, nil
}

type get struct {
	ID string `json:"id"`
}

type set struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func ticket(id string) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: id} }

// replica is one process: a cache, an invoker, and what the process shares.
type replica struct {
	cache *cache.Cache
	inv   *connector.Invoker
	host  *authz.Authority
}

type world struct {
	desk  *desk
	right *rights
	lost  bool // answers to writes are lost
}

func newWorld() *world {
	return &world{desk: &desk{texts: map[string]string{"1": "one", "2": "two"}}, right: &rights{gone: map[string]bool{}}}
}

func (w *world) replica(t testing.TB, gens generation.Store, ledger operation.Store, o *cache.Options) *replica {
	t.Helper()
	c, err := cache.New("desk", gens, o)
	require.NoError(t, err)
	read := connector.Read(connector.Spec{Name: "desk.get", Description: "Gets a ticket.", Sensitivity: risk.Internal},
		connector.ByArgs(func(in get) authz.ResourceID { return ticket(in.ID) }),
		func(ctx context.Context, call *connector.ReadCall, in get) (*connector.Answer[set], error) {
			found, err := cache.Get(ctx, c, call, cache.Read{Name: "get", Arguments: in, Objects: []authz.ResourceID{ticket(in.ID)}, Narrow: true},
				func(context.Context) (set, error) { return set{in.ID, w.desk.read(in.ID)}, nil })
			if err != nil {
				return nil, err
			}
			return connector.Found(found.Value), nil
		})
	write := connector.Write(connector.WriteSpec{Spec: connector.Spec{Name: "desk.set", Description: "Sets a ticket.", Sensitivity: risk.Internal},
		SideEffect: risk.ReversibleWrite, Approval: connector.ApprovalByPolicy},
		connector.ByArgs(func(in set) authz.ResourceID { return ticket(in.ID) }), connector.Reconcilable(
			func(ctx context.Context, c *connector.WriteCall, in set) (*connector.Receipt[set], error) {
				if err := c.Dispatch(ctx); err != nil {
					return nil, err
				}
				w.desk.write(in.ID, in.Text)
				if w.lost {
					return nil, errors.New("the answer was lost")
				}
				return connector.Applied(in, in.ID), nil
			},
			func(context.Context, *connector.ReadCall, set, operation.Operation) (*connector.Evidence[set], error) {
				return nil, errors.New("nobody knows")
			}))
	conn, err := connector.New(connector.Info{ID: "desk", Version: "1.0.0", Owner: "test", Auth: connector.Auth{Mode: connector.AuthNone}}, read, write)
	require.NoError(t, err)
	host := authz.NewAuthority("test")
	inv, err := connector.NewInvoker(w.right, []*authz.Authority{host}, []connector.Connector{conn}, &connector.Options{Operations: ledger, Audit: c.Audit(nil)})
	require.NoError(t, err)
	return &replica{c, inv, host}
}

func (r *replica) as(t testing.TB, tenant, subject string) authz.Principal {
	t.Helper()
	p, err := r.host.Principal(authz.Identity{Tenant: tenant, Issuer: "https://id.example", Subject: subject})
	require.NoError(t, err)
	return p
}

func (r *replica) get(t testing.TB, tenant, subject, id string) *toolresult.Result {
	t.Helper()
	return r.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: r.as(t, tenant, subject), Capability: "desk.get", Arguments: []byte(`{"id":"` + id + `"}`)})
}

func (r *replica) set(t testing.TB, key, id, text string) *toolresult.Result {
	t.Helper()
	return r.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: r.as(t, "acme", "alice"), Capability: "desk.set", Key: key, Arguments: []byte(`{"id":"` + id + `","text":"` + text + `"}`)})
}

func sees(t testing.TB, r *toolresult.Result, text string) {
	t.Helper()
	require.NoError(t, r.Err())
	require.Contains(t, string(r.Data), `"text":"`+text+`"`)
}

// onPostgreSQL returns the handle of a process of its own.
func onPostgreSQL(t testing.TB, dsn string) *sqlstore.Store {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	s, err := sqlstore.Open(t.Context(), db, sqlstore.PostgreSQL, &sqlstore.Options{Plaintext: true})
	require.NoError(t, err)
	return s
}

// P4, A8: two replicas over one PostgreSQL: nobody sees another's entries, what
// was revoked is not given out, and what was written on one replica is read on
// the other, from the next call on.
func TestTwoReplicas_P4_A8(t *testing.T) {
	dsn := peers.PostgreSQL(t)
	w := newWorld()
	sa, sb := onPostgreSQL(t, dsn), onPostgreSQL(t, dsn)
	a, b := w.replica(t, sa.Generations(), sa, nil), w.replica(t, sb.Generations(), sb, nil)
	both := []*replica{a, b}

	t.Run("a hit asks nobody", func(t *testing.T) {
		for range 3 {
			for _, r := range both {
				sees(t, r.get(t, "acme", "alice", "1"), "one")
			}
		}
		require.Equal(t, 2, w.desk.count(), "once for each replica")
	})
	t.Run("A8: another principal, another tenant: another entry", func(t *testing.T) {
		before := w.desk.count()
		sees(t, a.get(t, "acme", "bob", "1"), "one")
		sees(t, a.get(t, "globex", "alice", "1"), "one")
		require.Equal(t, before+2, w.desk.count())
	})
	t.Run("own write: read on the other replica at once", func(t *testing.T) {
		for i, r := range []*replica{a, b, a, b} {
			text := fmt.Sprint("version ", i)
			require.NoError(t, r.set(t, fmt.Sprint("key-of-write-", i), "1", text).Err())
			for _, reader := range both {
				sees(t, reader.get(t, "acme", "alice", "1"), text)
				sees(t, reader.get(t, "acme", "alice", "1"), text)
				sees(t, reader.get(t, "acme", "bob", "1"), text)
			}
		}
	})
	t.Run("what another object's write does not change stays", func(t *testing.T) {
		sees(t, b.get(t, "acme", "alice", "1"), "version 3")
		before := w.desk.count()
		require.NoError(t, a.set(t, "key-of-write-of-two", "2", "zwei").Err())
		sees(t, b.get(t, "acme", "alice", "1"), "version 3")
		require.Equal(t, before, w.desk.count())
	})
	t.Run("an event is told on one replica and holds on the other", func(t *testing.T) {
		w.desk.write("1", "changed outside")
		sees(t, b.get(t, "acme", "alice", "1"), "version 3") // the control: nobody told
		require.NoError(t, a.cache.Changed(t.Context(), "acme", ticket("1")))
		sees(t, b.get(t, "acme", "alice", "1"), "changed outside")
		w.desk.write("1", "all of it")
		require.NoError(t, a.cache.Changed(t.Context(), "acme"))
		sees(t, b.get(t, "acme", "alice", "1"), "all of it")
	})
	t.Run("another tenant's event changes nothing here", func(t *testing.T) {
		before := w.desk.count()
		require.NoError(t, a.cache.Changed(t.Context(), "globex", ticket("1")))
		sees(t, b.get(t, "acme", "alice", "1"), "all of it")
		require.Equal(t, before, w.desk.count())
	})
	t.Run("a disconnection on one replica holds on the other", func(t *testing.T) {
		w.desk.write("1", "after")
		require.NoError(t, a.cache.Purge(t.Context(), "acme", ""))
		require.Zero(t, a.cache.Bytes())
		sees(t, b.get(t, "acme", "alice", "1"), "after")
	})
	t.Run("a write whose answer was lost closes the cache for its object", func(t *testing.T) {
		w.lost = true
		r := a.set(t, "key-of-the-lost-write", "1", "perhaps")
		require.ErrorIs(t, r.Err(), toolresult.OutcomeUnknown)
		w.lost = false
		before := w.desk.count()
		sees(t, b.get(t, "acme", "alice", "1"), "perhaps")
		sees(t, b.get(t, "acme", "alice", "1"), "perhaps")
		require.Equal(t, before+2, w.desk.count(), "nothing is kept while nobody knows")
		require.NoError(t, a.cache.Changed(t.Context(), "acme", ticket("1")), "somebody has found out")
		sees(t, b.get(t, "acme", "alice", "1"), "perhaps")
		sees(t, b.get(t, "acme", "alice", "1"), "perhaps")
		require.Equal(t, before+3, w.desk.count())
	})
	t.Run("revocation beats what is kept", func(t *testing.T) {
		for _, r := range both {
			sees(t, r.get(t, "acme", "alice", "1"), "perhaps")
		}
		w.right.revoke("alice", "1")
		for _, r := range both {
			require.ErrorIs(t, r.get(t, "acme", "alice", "1").Err(), toolresult.PermissionDenied)
			sees(t, r.get(t, "acme", "bob", "1"), "perhaps")
		}
	})
}

// call is what a handler has, of a grant that a test makes.
type call struct {
	grant authz.Grant
	conn  connector.Connection
}

func (c call) Principal() authz.Principal       { return c.grant.Principal() }
func (c call) Grant() authz.Grant               { return c.grant }
func (c call) Connection() connector.Connection { return c.conn }

// maker makes grants of one authority.
type maker struct {
	right *rights
	host  *authz.Authority
}

func newMaker() *maker { return &maker{&rights{gone: map[string]bool{}}, authz.NewAuthority("test")} }

func (m *maker) call(t testing.TB, id authz.Identity, conn string, target authz.Target) call {
	t.Helper()
	p, err := m.host.Principal(id)
	require.NoError(t, err)
	g, err := authz.Authorize(t.Context(), m.right, &authz.Request{Principal: p, Action: authz.Action{Connector: "desk", Capability: "desk.get", Version: "1", Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal}}, Target: target})
	require.NoError(t, err)
	return call{g, connector.Connection{ID: conn}}
}

var alice = authz.Identity{Tenant: "acme", Issuer: "https://id.example", Subject: "alice"}

func on(ids ...string) authz.Target {
	var list []authz.Object
	for _, id := range ids {
		list = append(list, authz.Object{ResourceID: ticket(id)})
	}
	return authz.On(list...)
}

// load counts how often it is asked.
func load(n *int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { *n++; return *n, nil }
}

func ask(t testing.TB, c *cache.Cache, who call, r cache.Read, n *int) (int, error) {
	t.Helper()
	f, err := cache.Get(t.Context(), c, who, r, load(n))
	return f.Value, err
}

// A8: nothing that makes a grant another one shares an entry with it.
func TestKeysAreMadeFromTheGrant_P4_A8(t *testing.T) {
	m := newMaker()
	c, err := cache.New("desk", &generation.Memory{}, &cache.Options{Public: []string{"public"}})
	require.NoError(t, err)
	with := func(change func(i *authz.Identity)) authz.Identity {
		i := alice
		change(&i)
		return i
	}
	base := m.call(t, alice, "c1", on("1"))
	r := cache.Read{Name: "get", Arguments: get{"1"}}
	n := 0
	first, err := ask(t, c, base, r, &n)
	require.NoError(t, err)
	again, err := ask(t, c, m.call(t, alice, "c1", on("1")), r, &n)
	require.NoError(t, err)
	require.Equal(t, first, again, "the control: another call with the same grant")
	delegated := func(d authz.Delegation) authz.Identity { return with(func(i *authz.Identity) { i.Delegation = &d }) }
	for why, other := range map[string]call{
		"another subject":           m.call(t, with(func(i *authz.Identity) { i.Subject = "bob" }), "c1", on("1")),
		"another tenant":            m.call(t, with(func(i *authz.Identity) { i.Tenant = "globex" }), "c1", on("1")),
		"another issuer":            m.call(t, with(func(i *authz.Identity) { i.Issuer = "https://id.example/" }), "c1", on("1")),
		"names that run together":   m.call(t, with(func(i *authz.Identity) { i.Issuer, i.Subject = "https://id.exampl", "ealice" }), "c1", on("1")),
		"another client":            m.call(t, with(func(i *authz.Identity) { i.Client = "cli" }), "c1", on("1")),
		"other scopes of the token": m.call(t, with(func(i *authz.Identity) { i.Scopes = []string{"read"} }), "c1", on("1")),
		"somebody who acts for her": m.call(t, delegated(authz.Delegation{Actor: "agent", Scopes: []string{"a"}}), "c1", on("1")),
		"with less":                 m.call(t, delegated(authz.Delegation{Actor: "agent", Scopes: []string{"b"}}), "c1", on("1")),
		"another account":           m.call(t, alice, "c2", on("1")),
		"a wider scope":             m.call(t, alice, "c1", on("1", "2")),
		"another scope":             m.call(t, alice, "c1", on("2")),
		"the whole connection":      m.call(t, alice, "c1", authz.OnConnection()),
	} {
		before := n
		_, err := ask(t, c, other, r, &n)
		require.NoError(t, err)
		require.Equal(t, before+1, n, why)
	}
	for why, other := range map[string]cache.Read{
		"another name":      {Name: "list", Arguments: get{"1"}},
		"other arguments":   {Name: "get", Arguments: get{"2"}},
		"objects are named": {Name: "get", Arguments: get{"1"}, Objects: []authz.ResourceID{ticket("1")}},
	} {
		before := n
		_, err := ask(t, c, base, other, &n)
		require.NoError(t, err)
		require.Equal(t, before+1, n, why)
	}
	m.right.revision++
	before := n
	_, err = ask(t, c, m.call(t, alice, "c1", on("1")), r, &n)
	require.NoError(t, err)
	require.Equal(t, before+1, n, "another policy")

	public := cache.Read{Name: "public"}
	before = n
	for _, who := range []call{base, m.call(t, with(func(i *authz.Identity) { i.Subject = "bob" }), "c2", on("1"))} {
		_, err = ask(t, c, who, public, &n)
		require.NoError(t, err)
	}
	require.Equal(t, before+1, n, "declared public by the operator: one entry")
	_, err = ask(t, c, m.call(t, with(func(i *authz.Identity) { i.Tenant = "globex" }), "c1", on("1")), public, &n)
	require.NoError(t, err)
	require.Equal(t, before+2, n, "and one for each tenant")
}

// P4: a hit is no authorization.
func TestVisibilityIsCheckedAgain_P4(t *testing.T) {
	m := newMaker()
	c, err := cache.New("desk", &generation.Memory{}, &cache.Options{Public: []string{"get"}})
	require.NoError(t, err)
	n := 0
	r := cache.Read{Name: "get", Objects: []authz.ResourceID{ticket("1")}}
	kept := m.call(t, alice, "c1", on("1"))
	_, err = ask(t, c, kept, r, &n)
	require.NoError(t, err)
	m.right.revoke("alice", "1")
	_, err = ask(t, c, kept, r, &n)
	require.ErrorIs(t, err, toolresult.PermissionDenied, "a grant that was made before the revocation")
	require.Equal(t, 1, n)
	bob := alice
	bob.Subject = "bob"
	_, err = ask(t, c, m.call(t, bob, "c1", on("2")), r, &n)
	require.ErrorIs(t, err, toolresult.PermissionDenied, "an object that is not in the grant is not read either")
	_, err = ask(t, c, call{}, r, &n)
	require.ErrorIs(t, err, toolresult.ContractViolation, "no grant")
	_, err = ask(t, c, m.call(t, bob, "c1", on("1")), cache.Read{}, &n)
	require.ErrorIs(t, err, toolresult.ContractViolation, "no name")
	_, err = ask(t, c, m.call(t, bob, "c1", on("1")), cache.Read{Name: "x", Arguments: make(chan int)}, &n)
	require.ErrorIs(t, err, toolresult.ContractViolation, "arguments that are no JSON")
	require.Equal(t, 1, n)
}

// sick is a store of generations that does not answer.
type sick struct{ generation.Memory }

func (*sick) Current(context.Context, []generation.Mark) ([]generation.State, error) {
	return nil, errors.New("sick")
}

func (*sick) Advance(context.Context, []generation.Mark, time.Time) error { return errors.New("sick") }

// P4: what cannot be checked is neither given out nor kept, and closes writes.
func TestStoreThatDoesNotAnswer_P4(t *testing.T) {
	w := newWorld()
	var ledger operation.Memory
	r := w.replica(t, &sick{}, forgetful{&ledger}, nil)
	for range 3 {
		sees(t, r.get(t, "acme", "alice", "1"), "one")
	}
	require.Equal(t, 3, w.desk.count())
	require.Zero(t, r.cache.Bytes())
	res := r.set(t, "key-of-a-write", "1", "eins")
	require.Error(t, res.Err())
	require.NotEqual(t, toolresult.EffectApplied, res.Effect.Disposition)
	require.Equal(t, "one", w.desk.read("1"), "it was not sent")
	require.Error(t, r.cache.Changed(t.Context(), "acme"))
	require.Error(t, r.cache.Purge(t.Context(), "acme", "c1"))
}

// forgetful is a ledger in memory that says it is durable.
type forgetful struct{ *operation.Memory }

func (forgetful) Durable() bool { return true }

// P4: entries end with the time to live, with the grant, and within the bytes.
func TestEnds_P4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaker()
		c, err := cache.New("desk", &generation.Memory{}, &cache.Options{TTL: time.Minute})
		require.NoError(t, err)
		n := 0
		who := m.call(t, alice, "c1", on("1"))
		for _, after := range []time.Duration{0, 59 * time.Second, time.Second, 59 * time.Second} {
			time.Sleep(after)
			_, err := ask(t, c, who, cache.Read{Name: "get"}, &n)
			require.NoError(t, err)
		}
		require.Equal(t, 2, n)
		short := alice
		short.Expires = time.Now().Add(10 * time.Second)
		who = m.call(t, short, "c1", on("1"))
		n = 0
		for range 2 {
			_, err := ask(t, c, who, cache.Read{Name: "short"}, &n)
			require.NoError(t, err)
		}
		require.Equal(t, 1, n)
		time.Sleep(10 * time.Second)
		long := m.call(t, alice, "c1", on("1")) // the same key: how long an identity lasts is not in it
		_, err = ask(t, c, long, cache.Read{Name: "short"}, &n)
		require.NoError(t, err)
		require.Equal(t, 2, n)
	})
}

func TestBounds_P4(t *testing.T) {
	m := newMaker()
	const limit = 64 << 10
	c, err := cache.New("desk", &generation.Memory{}, &cache.Options{Bytes: limit})
	require.NoError(t, err)
	who := m.call(t, alice, "c1", on("1"))
	for i := range 1000 {
		_, err := cache.Get(t.Context(), c, who, cache.Read{Name: fmt.Sprint(i)}, func(context.Context) (string, error) { return strings.Repeat("x", 1000), nil })
		require.NoError(t, err)
	}
	require.LessOrEqual(t, c.Bytes(), int64(limit))
	require.Positive(t, c.Bytes())
	before := c.Bytes()
	n := 0
	for range 2 {
		f, err := cache.Get(t.Context(), c, who, cache.Read{Name: "huge"}, func(context.Context) (string, error) { n++; return strings.Repeat("x", limit/8), nil })
		require.NoError(t, err)
		require.Len(t, f.Value, limit/8)
	}
	require.Equal(t, 2, n, "one that would displace much is not kept")
	require.Equal(t, before, c.Bytes())
}

// Nobody shares a value with the cache, and errors are not kept.
func TestValuesAreOwn_P4(t *testing.T) {
	m := newMaker()
	c, err := cache.New("desk", &generation.Memory{}, nil)
	require.NoError(t, err)
	who := m.call(t, alice, "c1", on("1"))
	r := cache.Read{Name: "list"}
	_, err = cache.Get(t.Context(), c, who, r, func(context.Context) ([]string, error) {
		return nil, toolresult.NewError(toolresult.RateLimited, "slow down")
	})
	require.ErrorIs(t, err, toolresult.RateLimited)
	mine := []string{"a"}
	for i := range 3 {
		f, err := cache.Get(t.Context(), c, who, r, func(context.Context) ([]string, error) { return mine, nil })
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, f.Value)
		require.Equal(t, i > 0, f.Hit)
		f.Value[0] = "spoilt"
	}
	require.Equal(t, "a", mine[0])
	_, err = cache.Get(t.Context(), c, who, r, func(context.Context) (int, error) { return 0, nil })
	require.ErrorIs(t, err, toolresult.ContractViolation, "the same read as another type")
	_, err = cache.Get(t.Context(), c, who, cache.Read{Name: "chan"}, func(context.Context) (chan int, error) { return make(chan int), nil })
	require.ErrorIs(t, err, toolresult.ContractViolation)
}

// P4: what was read while it changed is not believed later.
func TestReadWhileItChanges_P4(t *testing.T) {
	m := newMaker()
	c, err := cache.New("desk", &generation.Memory{}, nil)
	require.NoError(t, err)
	who := m.call(t, alice, "c1", on("1"))
	value := "old"
	get := func(during func()) string {
		f, err := cache.Get(t.Context(), c, who, cache.Read{Name: "get", Objects: []authz.ResourceID{ticket("1")}, Narrow: true}, func(context.Context) (string, error) {
			v := value
			during()
			return v, nil
		})
		require.NoError(t, err)
		return f.Value
	}
	require.Equal(t, "old", get(func() {
		value = "new"
		require.NoError(t, c.Changed(t.Context(), "acme", ticket("1")))
	}))
	require.Equal(t, "new", get(func() {}))
}

func TestNewRefuses(t *testing.T) {
	for why, make := range map[string]func() (*cache.Cache, error){
		"no connector":   func() (*cache.Cache, error) { return cache.New("", &generation.Memory{}, nil) },
		"no generations": func() (*cache.Cache, error) { return cache.New("desk", nil, nil) },
		"a day": func() (*cache.Cache, error) {
			return cache.New("desk", &generation.Memory{}, &cache.Options{TTL: 24 * time.Hour})
		},
		"less than none": func() (*cache.Cache, error) {
			return cache.New("desk", &generation.Memory{}, &cache.Options{Bytes: -1})
		},
	} {
		_, err := make()
		require.ErrorIs(t, err, cache.ErrOptions, why)
	}
}

// P4: what is public was read through somebody's account, and ends with it in
// every replica, whoever asks; and another account that ended before does not keep
// it from anybody.
func TestPublicEndsWithItsConnection_P4(t *testing.T) {
	m, gens := newMaker(), &generation.Memory{}
	var replicas [2]*cache.Cache
	for i := range replicas {
		var err error
		replicas[i], err = cache.New("desk", gens, &cache.Options{Public: []string{"public"}})
		require.NoError(t, err)
	}
	bob := alice
	bob.Subject = "bob"
	a, b := m.call(t, alice, "c1", on("1")), m.call(t, bob, "c2", on("1"))
	public := cache.Read{Name: "public"}
	n := 0
	get := func(who call) int {
		v, err := ask(t, replicas[0], who, public, &n)
		require.NoError(t, err)
		return v
	}
	require.Equal(t, 1, get(a))
	require.Equal(t, 1, get(b), "the control: it is public")
	require.NoError(t, replicas[1].Purge(t.Context(), "acme", "c2"))
	require.Equal(t, 1, get(b), "bob's account has nothing to do with it")
	require.NoError(t, replicas[1].Purge(t.Context(), "acme", "c1"))
	require.Equal(t, 2, get(b), "alice's account is disconnected, and with it ends what was read through it")
	require.Equal(t, 2, get(a))
	require.NoError(t, replicas[1].Changed(t.Context(), "acme"))
	require.Equal(t, 3, get(a))
}
