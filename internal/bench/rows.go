package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/cedarpolicy"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
)

// entries are the rows in the order of the table.
func entries() []entry {
	const handler = "the handler between validations"
	return []entry{
		{name: "governed read, fixed policy", bare: handler, open: func(string) (row, error) { return governedRead(fixed{}) }},
		{name: "governed read, 11 Cedar policies", bare: handler, open: plain(governedReadCedar)},
		{name: "governed write, ledger in memory", bare: "POST by net/http", open: plain(writeInMemory)},
		{name: "governed write, ledger in SQLite", bare: "POST by net/http, three transactions by hand", open: writeInSQLite},
		{name: "egress round trip, loopback", bare: "net/http, kept alive", open: plain(roundTrip)},
		{name: "governed tools/call in memory", bare: "the MCP SDK's typed AddTool", open: plain(governedCall)},
		{name: "tools/list over HTTP, 20 tools", bare: "the MCP SDK's server", open: plain(listing)},
		{name: "decision, 10 Cedar policies", bare: "cedar-go", open: func(string) (row, error) { return cedarDecision(10) }},
		{name: "decision, 1000 Cedar policies", bare: "cedar-go", open: func(string) (row, error) { return cedarDecision(1000) }},
		{name: "cursor sealed and opened", bare: "AES-GCM and JSON by hand", open: plain(cursors)},
		{name: "result encoded, 10 rows", bare: "a struct by encoding/json", open: plain(encoded)},
		{name: "result decoded, 10 rows", bare: "a struct by encoding/json", open: plain(decoded)},
		{name: "skills read and checked, 64", bare: "their front matter by yaml", open: plain(skills)},
		{name: "webhook of 4 KiB: verify, store, acknowledge", bare: "HMAC and INSERT by hand", open: received},
		{name: "sandboxed start, thread mode", bare: "os/exec", open: func(dir string) (row, error) { return start(threadMode, dir) }, slow: true},
		{name: "sandboxed start, re-exec mode", bare: "os/exec", open: func(dir string) (row, error) { return start(reexecMode, dir) }, slow: true},
		{name: "contract of a connector, harness run", bare: "the test binary alone", open: contract, slow: true},
	}
}

// plain is for a row that needs no directory.
func plain(open func() (row, error)) func(string) (row, error) {
	return func(string) (row, error) { return open() }
}

type search struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

type item struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State string `json:"state"`
}

func find(in search) []item {
	out := make([]item, 10)
	for i := range out {
		out[i] = item{"T-4821", in.Query, "open"}
	}
	return out
}

// fixed is a policy that costs nothing, so that the path is what is measured.
type fixed struct{}

func (fixed) Decide(_ context.Context, r *authz.Request) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow, Scope: r.Target.Scope(), Revision: "1"}, nil
}

// governedRead compares a call through the invoker with the same handler behind
// nothing but validation of its input and output.
func governedRead(policy authz.Policy) (row, error) {
	handler := func(_ context.Context, _ *connector.ReadCall, in search) (*connector.Answer[[]item], error) {
		return connector.Found(find(in)), nil
	}
	object := connector.ByArgs(func(search) authz.ResourceID { return authz.ResourceID{Type: "project", ID: "inc"} })
	c, err := connector.New(connector.Info{ID: "bench", Version: "1", Owner: "bench", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Read(connector.Spec{Name: "bench.find", Sensitivity: risk.Internal}, object, handler))
	if err != nil {
		return row{}, err
	}
	host := authz.NewAuthority("bench")
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	if err != nil {
		return row{}, err
	}
	inv, err := connector.NewInvoker(policy, []*authz.Authority{host}, []connector.Connector{c}, nil)
	if err != nil {
		return row{}, err
	}
	args := json.RawMessage(`{"query":"timeout","limit":10}`)
	req := &connector.InvokeRequest{Principal: alice, Capability: "bench.find", Arguments: args, CallID: "c1"}
	if r := inv.Invoke(context.Background(), req); r.Err() != nil {
		return row{}, r.Err()
	}
	base, err := bareHandler(args)
	ctx := context.Background()
	return row{func() { inv.Invoke(ctx, req) }, base}, err
}

func bareHandler(args json.RawMessage) (func(), error) {
	in, err := schema.Input(reflect.TypeFor[search](), nil)
	if err != nil {
		return nil, err
	}
	out, err := schema.Output(reflect.TypeFor[[]item](), nil)
	if err != nil {
		return nil, err
	}
	run := func() error {
		prepared, err := in.Prepare(args)
		if err != nil {
			return err
		}
		var s search
		if err := schema.Decode(prepared, &s); err != nil {
			return err
		}
		data, err := json.Marshal(find(s))
		if err != nil {
			return err
		}
		return out.Check(data)
	}
	return func() {
		if err := run(); err != nil {
			panic(err)
		}
	}, run()
}

// policies writes n policies, half of them for other actions. One of them
// allows what is asked.
func policies(n int) []byte {
	var b bytes.Buffer
	for i := range n - 1 {
		action := "bench.find"
		if i%2 == 0 {
			action = fmt.Sprintf("other.%d", i)
		}
		fmt.Fprintf(&b, "permit(principal in Group::\"acme/team%d\", action == Action::%q, resource == project::\"acme/bench/p%d\") when { context.purpose == \"execute\" };\n", i, action, i)
	}
	b.WriteString("permit(principal in Tenant::\"acme\", action == Action::\"bench.find\", resource == project::\"acme/bench/inc\");\n")
	return b.Bytes()
}

func candidates(context.Context, authz.Principal, string, string) ([]authz.Object, error) {
	return []authz.Object{{ResourceID: authz.ResourceID{Type: "project", ID: "inc"}}}, nil
}

func governedReadCedar() (row, error) {
	text := append(policies(10), []byte("permit(principal in Tenant::\"acme\", action == Action::\"bench.find\", resource == Connector::\"acme/bench\") when { context.purpose == \"discover\" };\n")...)
	p, err := cedarpolicy.New(map[string][]byte{"bench.cedar": text}, nil)
	if err != nil {
		return row{}, err
	}
	return governedRead(p)
}

// cedarDecision compares a decision of ours with cedar-go over the same
// policies and the same entities.
func cedarDecision(n int) (row, error) {
	text := policies(n)
	p, err := cedarpolicy.New(map[string][]byte{"bench.cedar": text}, &cedarpolicy.Options{Candidates: candidates})
	if err != nil {
		return row{}, err
	}
	host := authz.NewAuthority("bench")
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	if err != nil {
		return row{}, err
	}
	req := &authz.Request{Principal: alice, Action: authz.Action{Connector: "bench", Capability: "bench.find", Version: "1", Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal}},
		Target: authz.On(authz.Object{ResourceID: authz.ResourceID{Type: "project", ID: "inc"}})}
	ctx := context.Background()
	if d, err := p.Decide(ctx, req); err != nil || d.Verdict != authz.Allow {
		return row{}, fmt.Errorf("the policy says %v, %w", d.Verdict, err)
	}
	plain, err := plainCedar(text)
	return row{func() { _, _ = p.Decide(ctx, req) }, plain}, err
}

func plainCedar(text []byte) (func(), error) {
	set, err := cedar.NewPolicySetFromBytes("bench.cedar", text)
	if err != nil {
		return nil, err
	}
	user, tenant := cedar.NewEntityUID("User", "acme/local/alice"), cedar.NewEntityUID("Tenant", "acme")
	object := cedar.NewEntityUID("project", "acme/bench/inc")
	entities := cedar.EntityMap{
		user:   {UID: user, Parents: cedar.NewEntityUIDSet(tenant)},
		object: {UID: object, Parents: cedar.NewEntityUIDSet(tenant)},
	}
	req := cedar.Request{Principal: user, Action: cedar.NewEntityUID("Action", "bench.find"), Resource: object,
		Context: cedar.NewRecord(cedar.RecordMap{"purpose": cedar.String("execute")})}
	if d, diag := cedar.Authorize(set, entities, req); d != cedar.Allow {
		return nil, fmt.Errorf("cedar-go says %v: %v", d, diag)
	}
	return func() { cedar.Authorize(set, entities, req) }, nil
}
