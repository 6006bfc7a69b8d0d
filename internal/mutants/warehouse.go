package mutants

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type (
	itemIn struct {
		SKU string `json:"sku" jsonschema:"number of the article"`
	}

	moveIn struct {
		SKU    string `json:"sku" jsonschema:"number of the article"`
		Amount int    `json:"amount" jsonschema:"how many to order"`
	}
	item struct {
		SKU   string `json:"sku"`
		Count int    `json:"count"`
	}
	job struct {
		ID string `json:"id"`
	}
)

// Warehouse returns the fixture of the second reference: pages that have numbers,
// orders that are accepted (202) and carried out later, a provider that knows no
// idempotency key, one API key for each account.
func Warehouse() check.Fixture {
	return check.Fixture{
		New:      newWarehouse,
		Double:   NewWarehouse,
		BasePath: "/v2",
		Samples: []check.Sample{
			{Capability: "warehouse_item", Args: `{"sku":"acme-a1"}`, Bob: `{"sku":"globex-a1"}`, Missing: `{"sku":"acme-zz"}`, Other: `{"sku":"acme-a2"}`},
			{Capability: "warehouse_stock", Args: `{}`, Empty: `{"low":true}`, Items: 7},
			{Capability: "warehouse_order", Args: `{"sku":"acme-a1","amount":3}`, Bob: `{"sku":"globex-a1","amount":3}`, Other: `{"sku":"acme-a1","amount":4}`},
		},
	}
}

func itemID(sku string) authz.ResourceID { return authz.ResourceID{Type: "item", ID: sku} }

func newWarehouse() (connector.Connector, error) {
	get := connector.Route{Pattern: "GET /items/{sku}", Effect: connector.Reads, Touches: []string{"item:{sku}"}}
	stock := connector.Route{Pattern: "GET /items", Effect: connector.Reads, WholeConnection: true, Params: []string{"page", "per_page", "low"}}
	order := connector.Route{Pattern: "POST /jobs", Effect: connector.Changes, Touches: []string{"item:{#/sku}"}}
	jobs := connector.Route{Pattern: "GET /jobs", Effect: connector.Reads, Unscoped: "the jobs of this account", Params: []string{"marker"}}
	one := connector.Spec{Name: "warehouse_item", Title: "One article", Description: "How many of an article are there.", Sensitivity: risk.Internal, Routes: []connector.Route{get},
		Input: json.RawMessage(`{"properties":{"sku":{"minLength":1,"maxLength":40}}}`)}
	all := connector.ListSpec{Spec: connector.Spec{Name: "warehouse_stock", Title: "All articles", Description: "All articles, or those that run low.", Sensitivity: risk.Internal,
		Routes: []connector.Route{stock}, Limits: connector.Limits{PageSize: 20}}, More: provider.Pointer("/has_next")}
	write := connector.WriteSpec{
		Spec: connector.Spec{Name: "warehouse_order", Title: "Order", Description: "Orders more of an article. It takes a while.", Sensitivity: risk.Internal, Routes: []connector.Route{order, jobs},
			Input: json.RawMessage(`{"properties":{"sku":{"minLength":1,"maxLength":40},"amount":{"minimum":1,"maximum":1000}}}`)},
		SideEffect: risk.IrreversibleWrite, Approval: connector.ApprovalByPolicy, Settle: 5 * time.Minute,
		Idempotency: connector.Idempotency{Field: "/marker", Answer: "/jobs/0/marker"},
	}
	return connector.New(
		connector.Info{ID: "warehouse", Version: "0.3.1", Owner: "drawbridge", Endpoint: "warehouse", Auth: connector.Auth{Mode: connector.AuthAPIKey, Scheme: "header:X-Api-Key"}},
		connector.Read(one, connector.ByArgs(func(in itemIn) authz.ResourceID { return itemID(in.SKU) }), readItem),
		connector.List(all, connector.OnConnection, readStock),
		connector.Write(write, connector.ByArgs(func(in moveIn) authz.ResourceID { return itemID(in.SKU) }), connector.Reconcilable(sendOrder, findOrder)))
}

func readItem(ctx context.Context, c *connector.ReadCall, in itemIn) (*connector.Answer[item], error) {
	var body item
	if _, err := c.Get(ctx, "/items/{sku}", connector.Params{"sku": in.SKU}, &body); err != nil {
		return nil, err
	}
	if body.SKU != in.SKU {
		return nil, toolresult.NewError(toolresult.ProviderError, "the warehouse's answer is not the article")
	}
	return connector.Found(body), nil
}

// lowIn is what the listing of the stock takes.
type lowIn struct {
	Low bool `json:"low,omitempty" jsonschema:"only what runs low"`
}

// readStock reads one page. The number of a page means nothing without its size,
// so a position has both.
func readStock(ctx context.Context, c *connector.ReadCall, in lowIn, page connector.PageRequest) (*connector.Page[item], error) {
	number, size := 1, page.Size
	if token, ok := page.From.Token(); ok {
		if _, err := fmt.Sscanf(token, "%d/%d", &number, &size); err != nil || number < 1 || size < 1 {
			return nil, toolresult.NewError(toolresult.CursorInvalid, "start the listing again")
		}
	}
	var body struct {
		Items   []item
		Page    int
		HasNext bool `json:"has_next"`
	}
	p := connector.Params{"page": strconv.Itoa(number), "per_page": strconv.Itoa(size)}
	if in.Low {
		p["low"] = "true"
	}
	if _, err := c.Get(ctx, "/items", p, &body); err != nil {
		return nil, err
	}
	if body.Page != number || len(body.Items) > size {
		return nil, toolresult.NewError(toolresult.ProviderError, "the warehouse gave another page than was asked for")
	}
	next := cursor.End()
	if body.HasNext {
		next = cursor.At(fmt.Sprintf("%d/%d", number+1, size))
	}
	return connector.NewPage(body.Items, next), nil
}

func sendOrder(ctx context.Context, c *connector.WriteCall, in moveIn) (*connector.Receipt[job], error) {
	var body struct{ Job string }
	req := &connector.HTTPRequest{Route: "POST /jobs", Body: map[string]any{"sku": in.SKU, "amount": in.Amount, "marker": c.Operation().UUID()}, Out: &body}
	if _, err := c.Do(ctx, req); err != nil {
		return nil, err
	}
	if body.Job == "" {
		return nil, toolresult.NewError(toolresult.ProviderError, "the warehouse did not say which job it is")
	}
	return connector.Accepted[job](body.Job), nil
}

func findOrder(ctx context.Context, c *connector.ReadCall, _ moveIn, op operation.Operation) (*connector.Evidence[job], error) {
	var body struct {
		Jobs []struct{ ID, State string }
	}
	if _, err := c.Get(ctx, "/jobs", connector.Params{"marker": op.UUID()}, &body); err != nil {
		return nil, err
	}
	switch {
	case len(body.Jobs) == 0:
		return connector.DidNotHappen[job](), nil
	case body.Jobs[0].State == "done":
		return connector.Happened(job{body.Jobs[0].ID}, body.Jobs[0].ID), nil
	}
	return connector.StillPending[job](body.Jobs[0].ID), nil
}

// warehouseProvider is the provider of the warehouse.
type warehouseProvider struct {
	mu    sync.Mutex
	stock map[string][]item // by tenant
	jobs  []warehouseJob
	out   map[string]bool // keys that were revoked
}

type warehouseJob struct {
	Tenant, ID, SKU, Marker string
	Amount                  int
	Began                   time.Time
}

// takes is how long an order is on its way.
const takes = 30 * time.Second

// NewWarehouse returns the double of the warehouse's provider.
func NewWarehouse(testing.TB) check.Double {
	p := &warehouseProvider{stock: map[string][]item{}, out: map[string]bool{}}
	for _, tenant := range []string{check.TenantA, check.TenantB} {
		for i := range 7 {
			p.stock[tenant] = append(p.stock[tenant], item{fmt.Sprintf("%s-a%d", tenant, i+1), 100 + i})
		}
	}
	return p
}

// Token implements [check.Double].
func (*warehouseProvider) Token(tenant, user string) string { return "whk_" + tenant + "_" + user }

// Revoke implements [check.DoubleWithRevoke].
func (p *warehouseProvider) Revoke(tenant, user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out[p.Token(tenant, user)] = true
}

// Insert implements [check.DoubleWithChanges].
func (p *warehouseProvider) Insert(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stock[tenant] = append(slices.Clone(p.stock[tenant]), item{fmt.Sprintf("%s-n%d", tenant, len(p.stock[tenant])), 1})
}

// Remove implements [check.DoubleWithChanges].
func (p *warehouseProvider) Remove(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.stock[tenant]; len(list) > 0 {
		p.stock[tenant] = list[1:]
	}
}

// Snapshot implements [check.Double]. What time alone changes is not in it.
func (p *warehouseProvider) Snapshot() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	jobs := slices.Clone(p.jobs)
	for i := range jobs {
		jobs[i].Began = time.Time{}
	}
	return json.Marshal(map[string]any{"stock": p.stock, "jobs": jobs})
}

// ServeHTTP implements [http.Handler].
func (p *warehouseProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.Header.Get("X-Api-Key")
	parts := strings.Split(key, "_")
	if len(parts) != 3 || parts[0] != "whk" || p.out[key] {
		refuse(w, 401, "key")
		return
	}
	tenant, path := parts[1], strings.TrimPrefix(r.URL.Path, "/v2")
	switch {
	case r.Method == "GET" && path == "/items":
		p.page(w, r, tenant)
	case r.Method == "GET" && strings.HasPrefix(path, "/items/"):
		i := slices.IndexFunc(p.stock[tenant], func(x item) bool { return x.SKU == strings.TrimPrefix(path, "/items/") })
		if i < 0 {
			refuse(w, 404, "no_item")
			return
		}
		reply(w, 200, p.stock[tenant][i])
	case r.Method == "POST" && path == "/jobs":
		p.order(w, r, tenant)
	case r.Method == "GET" && path == "/jobs":
		p.find(w, tenant, r.URL.Query().Get("marker"))
	default:
		refuse(w, 404, "no_route")
	}
}

func (p *warehouseProvider) page(w http.ResponseWriter, r *http.Request, tenant string) {
	q := r.URL.Query()
	number, err := strconv.Atoi(q.Get("page"))
	per, err2 := strconv.Atoi(q.Get("per_page"))
	if err != nil || err2 != nil || number < 1 || per < 1 {
		refuse(w, 400, "bad_page")
		return
	}
	list := slices.DeleteFunc(slices.Clone(p.stock[tenant]), func(x item) bool { return q.Get("low") == "true" && x.Count > 10 })
	from := min((number-1)*per, len(list))
	to := min(from+per, len(list))
	reply(w, 200, map[string]any{"page": number, "items": append([]item{}, list[from:to]...), "has_next": to < len(list)})
}

func (p *warehouseProvider) order(w http.ResponseWriter, r *http.Request, tenant string) {
	var in struct {
		SKU, Marker string
		Amount      int
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.SKU == "" || in.Amount < 1 {
		refuse(w, 422, "bad_order")
		return
	}
	j := warehouseJob{Tenant: tenant, ID: fmt.Sprint("job-", len(p.jobs)+1), SKU: in.SKU, Marker: in.Marker, Amount: in.Amount, Began: time.Now()}
	p.jobs = append(p.jobs, j)
	reply(w, 202, map[string]string{"job": j.ID})
}

func (p *warehouseProvider) find(w http.ResponseWriter, tenant, marker string) {
	found := []map[string]string{}
	for _, j := range p.jobs {
		if j.Tenant != tenant || j.Marker != marker {
			continue
		}
		state := "queued"
		if time.Since(j.Began) >= takes {
			state = "done"
		}
		found = append(found, map[string]string{"id": j.ID, "state": state, "marker": j.Marker})
	}
	reply(w, 200, map[string]any{"jobs": found})
}
