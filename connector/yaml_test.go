package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// The example of the first source (S1, 16.5.3).
const ticketsYAML = `connector_id: enterprise-tickets
version: 1.0.0
owner: integration-team
provider_api_version: teaching-v1
endpoint_profile: tickets-prod-approved
auth:
  mode: delegated_oauth
  credential_store: platform-managed
capabilities:
  - name: tickets.search
    required_scopes: [tickets.read]
    effect: read
  - name: tickets.get
    required_scopes: [tickets.read]
    effect: read
  - name: tickets.create
    required_scopes: [tickets.write]
    effect: write
    approval: payload-bound
    deduplication: operation-ledger-and-provider-contract
output_policy:
  exclude_fields: [private_notes, personal_contact]
  preserve: [object_id, version, source_url, fetched_at]
`

func TestManifestOfTheSource_K4(t *testing.T) {
	m, err := connector.ParseManifest([]byte(ticketsYAML))
	require.NoError(t, err)
	require.Equal(t, connector.Info{
		ID: "enterprise-tickets", Version: "1.0.0", Owner: "integration-team", ProviderAPIVersion: "teaching-v1", Endpoint: "tickets-prod-approved",
		Auth:     connector.Auth{Mode: connector.AuthDelegatedOAuth, CredentialStore: "platform-managed"},
		Exclude:  []string{"/private_notes", "/personal_contact"},
		Preserve: []string{"/object_id", "/version", "/source_url", "/fetched_at"},
	}, m.Info)
	require.Len(t, m.Capabilities, 3)
	get, create := m.Capabilities[1], m.Capabilities[2]
	require.Equal(t, "tickets.get", get.Name)
	require.Equal(t, []string{"tickets.read"}, get.Scopes)
	require.Equal(t, risk.Class{SideEffect: risk.ReadOnly}, get.Class, "effect: read is read_only; nobody said what it reveals")
	require.Equal(t, connector.KindWrite, create.Kind)
	require.Equal(t, risk.IrreversibleWrite, create.Class.SideEffect, "effect: write alone is the highest (K1)")
	require.Equal(t, connector.ApprovalAlways, create.Approval, "payload-bound is always")
}

// whole says everything that can be said.
const wholeYAML = `connector_id: tickets
version: "2"
owner: team
endpoint_profile: tickets-prod
auth: {mode: api_key, scheme: "header:X-Redmine-API-Key"}
capabilities:
  - name: tickets.search
    kind: list
    title: Search
    description: Finds tickets.
    effect: read
    side_effect: read_only
    sensitivity: internal
    required_scopes: []
    limits: {timeout: 10s, page_size: 25, bytes: 1024, requests: 3}
    rate_limits: [{per: app, requests: 60, window: 1m}]
    input:
      type: object
      additionalProperties: false
      properties: {query: {type: string, maxLength: 20, default: ""}}
    output: {type: array, items: {type: string}}
    routes:
      - {pattern: "GET /tickets", effect: reads, touches: ["project:{?project_id}"], params: [q, page], metadata: false,
         window: {start: "?start", end: "?end", nanoseconds: true, lookback: 5m}}
  - name: tickets.create
    effect: write
    side_effect: compensable_write
    sensitivity: sensitive
    approval: by-policy
    idempotency: {header: Idempotency-Key, window: 24h, field: /key, answer: /0/key, natural: true}
    settle: 5s
    reconcilable: true
    compensation: tickets.close
    routes:
      - {pattern: "POST /tickets/{id}", effect: changes, unscoped: "it is a test", within: [id]}
`

// K3: every guarantee that a capability declares can be said in a manifest.
func TestManifestSaysEverything_K3(t *testing.T) {
	m, err := connector.ParseManifest([]byte(wholeYAML))
	require.NoError(t, err)
	require.Equal(t, []connector.Declaration{{
		Kind: connector.KindList, Name: "tickets.search", Title: "Search", Description: "Finds tickets.",
		Class:  risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal},
		Scopes: []string{}, Limits: connector.Limits{Timeout: 10 * time.Second, PageSize: 25, Bytes: 1024, Requests: 3},
		RateLimits: []connector.RateLimit{{Per: "app", Requests: 60, Window: time.Minute}},
		Input:      json.RawMessage(`{"additionalProperties":false,"properties":{"query":{"default":"","maxLength":20,"type":"string"}},"type":"object"}`),
		Output:     json.RawMessage(`{"items":{"type":"string"},"type":"array"}`),
		Routes: []connector.Route{{Pattern: "GET /tickets", Effect: connector.Reads, Touches: []string{"project:{?project_id}"}, Params: []string{"q", "page"},
			Window: &connector.Window{Start: "?start", End: "?end", Nanoseconds: true, Lookback: 5 * time.Minute}}},
	}, {
		Kind: connector.KindWrite, Name: "tickets.create", Class: risk.Class{SideEffect: risk.CompensableWrite, Sensitivity: risk.Sensitive},
		Approval:    connector.ApprovalByPolicy,
		Idempotency: connector.Idempotency{Header: "Idempotency-Key", Window: 24 * time.Hour, Field: "/key", Answer: "/0/key", Natural: true},
		Settle:      5 * time.Second, Reconcilable: true, Compensation: "tickets.close",
		Routes: []connector.Route{{Pattern: "POST /tickets/{id}", Effect: connector.Changes, Unscoped: "it is a test", Within: []string{"id"}}},
	}}, m.Capabilities)
}

func TestParseManifestRefuses_K4(t *testing.T) {
	for _, row := range []struct{ why, old, new, says string }{
		{"an unknown field, with its line", "owner: integration-team", "owners: x", "line 3: owners: is not a field here"},
		{"a misspelling in a capability", "    effect: write", "    efect: write", "line 18: capabilities[2].efect: is not a field here"},
		{"a token beside the mode", "  mode: delegated_oauth", "  mode: delegated_oauth\n  token: x", "line 8: auth.token: is not a field here"},
		{"a connection", "auth:", "connection: c1\nauth:", "line 6: connection: is not a field"},
		{"an address", "endpoint_profile: tickets-prod-approved", "endpoint_profile: https://tickets.example.com", "line 5: endpoint_profile: want the name of something that an operator keeps"},
		{"a host", "endpoint_profile: tickets-prod-approved", "endpoint_profile: tickets.example.com", "line 5: endpoint_profile: want the name"},
		{"a base URL", "endpoint_profile: tickets-prod-approved", "base_url: x", "line 5: base_url: is not a field"},
		{"an address as a version", "provider_api_version: teaching-v1", "provider_api_version: https://x", "line 4: provider_api_version: want a short name"},
		{"a credential as a store", "platform-managed", "ghp_0123456789abcdefABCDEF", "line 8: auth.credential_store: looks like a credential"},
		{"a credential in a description", "    effect: write", "    effect: write\n    description: use Bearer abcdefghijklmnopqrstuvwx0123", "capabilities[2].description: looks like a credential"},
		{"a second document", "output_policy:", "---\noutput_policy:", "second document"},
		{"an alias", "[tickets.write]", "&a [tickets.write]", "line 17: capabilities[2].required_scopes: has an anchor"},
		{"a repeated key", "owner: integration-team", "owner: a\nowner: b", "line 4: owner: occurs twice, first on line 3"},
		{"no version", "version: 1.0.0\n", "", "version: is missing"},
		{"a blank owner", "owner: integration-team", `owner: " "`, "line 3: owner: is blank"},
		{"a name with capitals", "enterprise-tickets", "EnterpriseTickets", "line 1: connector_id: want lower-case"},
		{"an unknown mode", "delegated_oauth", "oauth", "line 7: auth.mode: want one of [none delegated_oauth"},
		{"an unknown scheme", "credential_store:", "scheme: cookie\n  credential_store:", "auth.scheme: want bearer, basic"},
		{"an unknown effect", "    effect: write", "    effect: wriet", "line 18: capabilities[2].effect: want read or write"},
		{"an effect that is missing", "    effect: write\n", "", "capabilities[2].effect: want read or write"},
		{"an unknown side effect", "    effect: write", "    effect: write\n    side_effect: none", "line 19: capabilities[2].side_effect: want one of"},
		{"a read that changes", "    effect: read\n  - name: tickets.get", "    effect: read\n    side_effect: reversible_write\n  - name: tickets.get", "capabilities[0].side_effect: does not go with effect: read"},
		{"a write that reads", "    effect: write", "    effect: write\n    side_effect: read_only", "capabilities[2].side_effect: want one of"},
		{"a read with an approval", "    effect: read\n  - name: tickets.get", "    effect: read\n    approval: always\n  - name: tickets.get", "capabilities[0]: reads, and says what only a write has"},
		{"never an approval", "payload-bound", "never", "line 19: capabilities[2].approval: want one of payload-bound, always, by-policy"},
		{"a deduplication that is none", "operation-ledger-and-provider-contract", "search-first", "capabilities[2].deduplication: want one of operation-ledger"},
		{"an unknown sensitivity", "    effect: write", "    effect: write\n    sensitivity: low", "capabilities[2].sensitivity: want one of public"},
		{"a kind that does not go with it", "    effect: write", "    effect: write\n    kind: list", "capabilities[2].kind: does not go with the effect"},
		{"a name twice", "name: tickets.get", "name: tickets.search", "line 13: capabilities[1].name: occurs twice"},
		{"a name that is none", "name: tickets.get", "name: Tickets Get", "line 13: capabilities[1].name: want lower-case"},
		{"half an idempotency", "    effect: write", "    effect: write\n    idempotency: {header: K}", "capabilities[2].idempotency: want both"},
		{"a schema that asks for a tenant (K5)", "    effect: write", "    effect: write\n    input: {type: object, additionalProperties: false, properties: {tenant_id: {type: string}}}", "line 19: capabilities[2].input: /properties/tenant_id: asks a model"},
		{"a date in a schema", "    effect: write", "    effect: write\n    input: {type: object, additionalProperties: false, properties: {d: {type: string, default: 2026-04-29}}}", "capabilities[2].input.properties.d.default: has no form in JSON"},
		{"a route that is none", "    effect: write", "    effect: write\n    routes: [{pattern: /x, effect: changes}]", "capabilities[2].routes:"},
		{"a route that changes in a read", "    effect: read\n  - name: tickets.get", "    effect: read\n    routes: [{pattern: POST /x, effect: changes, unscoped: x}]\n  - name: tickets.get", "capabilities[0].routes[0].effect: changes something"},
		{"a route without effect", "    effect: write", "    effect: write\n    routes: [{pattern: POST /x}]", "capabilities[2].routes[0].effect: want reads or changes"},
		{"a rate limit of nothing", "    effect: write", "    effect: write\n    rate_limits: [{per: app}]", "capabilities[2].rate_limits[0]: want per"},
		{"what is excluded and preserved", "preserve: [object_id", "preserve: [private_notes", "output_policy.preserve[0]: is also excluded"},
	} {
		require.Equal(t, 1, strings.Count(ticketsYAML, row.old), row.why)
		m, err := connector.ParseManifest([]byte(strings.Replace(ticketsYAML, row.old, row.new, 1)))
		require.Nil(t, m, row.why)
		require.ErrorContains(t, err, row.says, row.why)
		require.NotContains(t, err.Error(), "ghp_", row.why)
	}
	_, err := connector.ParseManifest(nil)
	require.ErrorContains(t, err, "is empty")
	_, err = connector.ParseManifest([]byte("connector_id: x"))
	for _, says := range []string{"version: is missing", "owner: is missing", "auth.mode", "capabilities: is missing"} {
		require.ErrorContains(t, err, says, "all that is wrong is listed")
	}
}

// byHand is a connector that only declares.
type byHand struct{ m connector.Manifest }

func (c byHand) Manifest() connector.Manifest { return c.m }

func (c byHand) Invoke(context.Context, *connector.Call) (*toolresult.Result, error) {
	return nil, toolresult.NewError(toolresult.Unsupported, "declares only")
}

func TestCheckManifest_K4(t *testing.T) {
	for _, text := range []string{ticketsYAML, wholeYAML} {
		written, err := connector.ParseManifest([]byte(text))
		require.NoError(t, err)
		m := *written
		m.Capabilities = slices.Clone(m.Capabilities)
		m.Capabilities[len(m.Capabilities)-1].Reconcilable = true
		slices.Reverse(m.Capabilities)
		require.NoError(t, connector.CheckManifest(byHand{m}, written), "a manifest agrees with what it says, in any order")
	}
	written, err := connector.ParseManifest([]byte(wholeYAML))
	require.NoError(t, err)
	for _, row := range []struct {
		why    string
		change func(m *connector.Manifest)
		says   string
	}{
		{"a version", func(m *connector.Manifest) { m.Version = "3" }, `version: "2" is written, and the connector has "3"`},
		{"a credential scheme", func(m *connector.Manifest) { m.Auth.Scheme = "" }, `auth.scheme: "header:X-Redmine-API-Key" is written, and the connector has nothing`},
		{"a lower class", func(m *connector.Manifest) { m.Capabilities[1].Class.SideEffect = risk.ReversibleWrite }, `capabilities[tickets.create].side_effect: "compensable_write" is written`},
		{"a scope that is not written", func(m *connector.Manifest) { m.Capabilities[0].Scopes = []string{"admin"} }, `required_scopes: [] is written, and the connector has ["admin"]`},
		{"an approval", func(m *connector.Manifest) { m.Capabilities[1].Approval = connector.ApprovalAlways }, `approval: "by-policy" is written`},
		{"a promise that fell", func(m *connector.Manifest) { m.Capabilities[1].Reconcilable = false }, `reconcilable: "true" is written, and the connector has nothing`},
		{"an idempotency", func(m *connector.Manifest) { m.Capabilities[1].Idempotency.Natural = false }, `idempotency.natural: "true" is written`},
		{"a settle time", func(m *connector.Manifest) { m.Capabilities[1].Settle = 0 }, `settle: "5s" is written, and the connector has nothing`},
		{"a capability less", func(m *connector.Manifest) { m.Capabilities = m.Capabilities[:1] }, `capabilities: "tickets.create" is written and not in the connector`},
		{"a capability more", func(m *connector.Manifest) {
			m.Capabilities = append(m.Capabilities, connector.Declaration{Name: "tickets.close"})
		}, `capabilities: "tickets.close" is in the connector and not written`},
		{"a schema", func(m *connector.Manifest) { m.Capabilities[0].Input = json.RawMessage(`{"type":"object"}`) }, `capabilities[tickets.search].input: `},
		{"a parameter more", func(m *connector.Manifest) {
			m.Capabilities[0].Routes = []connector.Route{{Pattern: "GET /tickets", Effect: connector.Reads, Touches: []string{"project:{?project_id}"}, Params: []string{"q", "page", "limit"},
				Window: &connector.Window{Start: "?start", End: "?end", Nanoseconds: true, Lookback: 5 * time.Minute}}}
		}, `routes[GET /tickets].params: ["page" "q"] is written, and the connector has ["limit" "page" "q"]`},
		{"a route", func(m *connector.Manifest) { m.Capabilities[1].Routes[0].Pattern = "PUT /tickets/{id}" }, `"PUT /tickets/{id}" is in the connector and not written`},
		{"a rate limit", func(m *connector.Manifest) { m.Capabilities[0].RateLimits[0].Requests = 61 }, `rate_limits: `},
	} {
		again, err := connector.ParseManifest([]byte(wholeYAML))
		require.NoError(t, err)
		row.change(again)
		require.ErrorContains(t, connector.CheckManifest(byHand{*again}, written), row.says, row.why)
	}
}

func TestCheckManifestListsAll(t *testing.T) {
	written, err := connector.ParseManifest([]byte(ticketsYAML))
	require.NoError(t, err)
	err = connector.CheckManifest(byHand{connector.Manifest{Info: connector.Info{ID: "other"}}}, written)
	lines := strings.Split(err.Error(), "\n")
	require.Greater(t, len(lines), 5)
	require.True(t, slices.IsSorted(lines))
	require.Error(t, connector.CheckManifest(nil, written))
	require.Error(t, connector.CheckManifest(byHand{}, nil))
	require.NoError(t, connector.CheckManifest(byHand{connector.Manifest{Info: connector.Info{ID: "a", Version: "1"}}}, &connector.Manifest{Info: connector.Info{ID: "a"}}), "a manifest in Go compares as well: what it leaves out is not compared")
}

// Every field counts, also one that is added later.
func TestDigestSeesEveryField_K3(t *testing.T) {
	var seen map[string]string
	count := 0
	var walk func(path string, v reflect.Value, whole *connector.Declaration)
	walk = func(path string, v reflect.Value, whole *connector.Declaration) {
		if !v.CanSet() {
			return // inside of a Signal; below
		}
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i), whole)
			}
			return
		}
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		set(v)
		digest := whole.Digest()
		require.NotContains(t, seen, digest, "%s and %s", path, seen[digest])
		seen[digest] = path
		count++
		v.Set(old)
	}
	fields := func(path string, part any, whole *connector.Declaration) {
		seen = map[string]string{whole.Digest(): "nothing"}
		walk(path, reflect.ValueOf(part).Elem(), whole)
	}
	d := connector.Declaration{}
	fields("Declaration", &d, &d)
	routed := connector.Declaration{Routes: []connector.Route{{Window: &connector.Window{}}}}
	fields("Route", &routed.Routes[0], &routed)
	fields("Window", routed.Routes[0].Window, &routed)
	limited := connector.Declaration{RateLimits: []connector.RateLimit{{}}}
	fields("RateLimit", &limited.RateLimits[0], &limited)
	for _, s := range []provider.Signal{provider.LinkNext(), provider.Pointer("/next"), provider.Pointer("/more"), provider.Total("/total", "/items"), provider.NoSignal("all at once")} {
		digest := (&connector.Declaration{More: s}).Digest()
		require.NotContains(t, seen, digest)
		seen[digest] = fmt.Sprint(s)
	}
	require.Greater(t, count, 30)
}

// set gives a value another one than zero.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"type":"object"}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			return
		}
		v.SetZero()
	default:
		if v.CanInt() {
			v.SetInt(7)
			return
		}
		v.SetUint(7)
	}
}

func TestDigestIgnoresOrderAndLayout(t *testing.T) {
	a := connector.Declaration{Scopes: []string{"a", "b"}, Input: json.RawMessage(`{"type":"object","maxProperties":1}`),
		Routes:     []connector.Route{{Pattern: "GET /a", Params: []string{"x", "y"}}, {Pattern: "GET /b", Touches: []string{"p:1", "q:1"}}},
		RateLimits: []connector.RateLimit{{Per: "app", Requests: 1}, {Per: "org", Requests: 2}}}
	b := connector.Declaration{Scopes: []string{"b", "a"}, Input: json.RawMessage("{ \"maxProperties\": 1.0,\n \"type\": \"object\" }"),
		Routes:     []connector.Route{{Pattern: "GET /b", Touches: []string{"q:1", "p:1"}}, {Pattern: "GET /a", Params: []string{"y", "x"}}},
		RateLimits: []connector.RateLimit{{Per: "org", Requests: 2}, {Per: "app", Requests: 1}}}
	require.Equal(t, a.Digest(), b.Digest())
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", a.Digest())
	b.Routes[0].Touches, b.Routes[1].Params = nil, append(b.Routes[1].Params, "q:1")
	require.NotEqual(t, a.Digest(), b.Digest())
}

func ExampleCheckManifest() {
	written, err := connector.ParseManifest([]byte(ticketsYAML))
	if err != nil {
		fmt.Println(err)
		return
	}
	m := *written
	m.Version = "1.1.0"
	fmt.Println(connector.CheckManifest(byHand{m}, &connector.Manifest{Info: connector.Info{Version: "1.0.0"}, Capabilities: m.Capabilities}))
	// Output:
	// connector: manifest: version: "1.0.0" is written, and the connector has "1.1.0"
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(ticketsYAML))
	f.Add([]byte(wholeYAML))
	f.Add([]byte("connector_id: x\ncapabilities: [{name: a, effect: read, input: {a: [1, 2.5, .inf, 2026-01-01, ~]}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := connector.ParseManifest(text)
		if err != nil {
			require.Nil(t, m)
			require.NotEmpty(t, err.Error())
			require.False(t, errors.Is(err, toolresult.Internal))
			return
		}
		again, err := connector.ParseManifest(text)
		require.NoError(t, err)
		for i := range m.Capabilities {
			require.Equal(t, m.Capabilities[i].Digest(), again.Capabilities[i].Digest())
			require.NotZero(t, m.Capabilities[i].Class.SideEffect)
		}
	})
}
