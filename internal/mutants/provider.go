package mutants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

// deskProvider is the provider of the desk. Tickets belong to a tenant; the
// scopes of a token are written into it.
type deskProvider struct {
	*Switch
	mu      sync.Mutex
	tickets map[string][]deskTicket // by tenant
	keys    map[string]string       // idempotency key to ticket
	next    int
	revoked map[string]bool // tenant/user
}

type deskTicket struct {
	ID      string   `json:"id"`
	Project string   `json:"project"`
	Title   string   `json:"title"`
	Size    int64    `json:"size"`
	Created string   `json:"created_at"`
	Notes   []string `json:"-"`
	Key     string   `json:"-"`
}

// NewDesk returns the double of the desk's provider: 7 tickets for each tenant.
func NewDesk(testing.TB) check.Double { return newDeskProvider(NewSwitch("")) }

func newDeskProvider(s *Switch) *deskProvider {
	p := &deskProvider{Switch: s, tickets: map[string][]deskTicket{}, keys: map[string]string{}, revoked: map[string]bool{}, next: 100}
	for _, tenant := range []string{check.TenantA, check.TenantB} {
		for i := range 7 {
			p.tickets[tenant] = append(p.tickets[tenant], deskTicket{ID: fmt.Sprintf("%s-%d", tenant, i+1), Project: tenant + "-p1", Title: fmt.Sprintf("%s ticket %d", tenant, i+1),
				Size: int64(4096 + i), Created: time.Date(2026, 3, 1, 8, i, 0, 0, time.FixedZone("", 2*3600)).Format(time.RFC3339), Notes: []string{"seen", "by " + tenant}})
		}
	}
	return p
}

// Token implements [check.Double].
func (p *deskProvider) Token(tenant, user string) string {
	return p.TokenFor(tenant, user, []string{"tickets:read", "tickets:write"})
}

// TokenFor implements [check.DoubleWithScopes].
func (p *deskProvider) TokenFor(tenant, user string, scopes []string) string {
	slices.Sort(scopes)
	return "desk-token-" + tenant + "-" + user + "-" + strings.Join(scopes, "+")
}

// Account implements [check.DoubleWithAccounts].
func (p *deskProvider) Account(tenant, user string) (account, org string) {
	return user + "@" + tenant, tenant
}

// Revoke implements [check.DoubleWithRevoke].
func (p *deskProvider) Revoke(tenant, user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoked[tenant+"-"+user] = true
}

// Insert implements [check.DoubleWithChanges].
func (p *deskProvider) Insert(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(tenant, deskTicket{Project: tenant + "-p1", Title: "inserted"})
}

// Remove implements [check.DoubleWithChanges].
func (p *deskProvider) Remove(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.tickets[tenant]; len(list) > 0 {
		p.tickets[tenant] = list[1:]
	}
}

// Snapshot implements [check.Double].
func (p *deskProvider) Snapshot() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return json.Marshal(map[string]any{"tickets": p.tickets, "keys": p.keys})
}

func (p *deskProvider) add(tenant string, t deskTicket) deskTicket {
	p.next++
	t.ID, t.Created = fmt.Sprintf("%s-%d", tenant, p.next), "2026-11-01T09:00:00Z"
	p.tickets[tenant] = append(slices.Clone(p.tickets[tenant]), t)
	return t
}

// ServeHTTP implements [http.Handler].
func (p *deskProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tenant, scopes, ok := p.who(r)
	switch {
	case !ok:
		refuse(w, 401, "bad_token")
		return
	case r.Method == "GET" && !strings.Contains(scopes, "tickets:read"), r.Method != "GET" && !strings.Contains(scopes, "tickets:write"):
		refuse(w, 403, "no_scope")
		return
	}
	id, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/tickets/"), "/")
	switch {
	case r.Method == "GET" && (r.URL.Path == "/tickets" || r.URL.Path == "/search"):
		p.list(w, r, tenant)
	case r.Method == "POST" && r.URL.Path == "/tickets":
		p.create(w, r, tenant)
	case r.Method == "GET" && r.URL.Path == "/operations":
		p.operations(w, tenant, r.URL.Query().Get("key"))
	case r.Method == "GET" && strings.HasPrefix(r.URL.Path, "/tickets/"):
		p.get(w, tenant, id, rest)
	default:
		refuse(w, 404, "no_route")
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req-"+code)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, code)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (p *deskProvider) who(r *http.Request) (tenant, scopes string, ok bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer desk-token-")
	parts := strings.SplitN(token, "-", 3)
	if !ok || len(parts) != 3 || p.revoked[parts[0]+"-"+parts[1]] {
		return "", "", false
	}
	return parts[0], parts[2], true
}

func (p *deskProvider) list(w http.ResponseWriter, r *http.Request, tenant string) {
	q := r.URL.Query()
	var all []deskTicket
	for _, t := range p.tickets[tenant] {
		if project := q.Get("project"); (project == "" || t.Project == project) && strings.Contains(t.Title, q.Get("text")) {
			all = append(all, t)
		}
	}
	after, _ := strconv.Atoi(q.Get("after"))
	limit, _ := strconv.Atoi(cmp.Or(q.Get("limit"), "100"))
	after = min(after, len(all))
	end := min(after+limit, len(all))
	body := map[string]any{"tickets": append([]deskTicket{}, all[after:end]...), "total": len(all)}
	if end < len(all) {
		body["next"] = strconv.Itoa(end)
	}
	reply(w, 200, body)
}

func (p *deskProvider) get(w http.ResponseWriter, tenant, id, rest string) {
	for owner, list := range p.tickets {
		i := slices.IndexFunc(list, func(t deskTicket) bool { return t.ID == id })
		switch {
		case i < 0:
			continue
		case owner != tenant:
			refuse(w, 403, "not_yours")
		case rest == "notes":
			if p.is("read-mutates") {
				list[i].Title += " (seen)"
			}
			reply(w, 200, map[string]any{"notes": list[i].Notes})
		case rest == "":
			reply(w, 200, list[i])
		default:
			refuse(w, 404, "no_route")
		}
		return
	}
	refuse(w, 404, "no_ticket")
}

func (p *deskProvider) create(w http.ResponseWriter, r *http.Request, tenant string) {
	text, err := io.ReadAll(r.Body)
	var in deskTicket
	if err != nil || json.Unmarshal(text, &in) != nil || in.Title == "" {
		refuse(w, 422, "bad_ticket")
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if id, again := p.keys[tenant+"/"+key]; key != "" && again {
		for _, t := range p.tickets[tenant] {
			if t.ID == id && t.Title == in.Title {
				reply(w, 201, t)
				return
			}
		}
		refuse(w, 409, "key_used")
		return
	}
	t := p.add(tenant, deskTicket{Project: in.Project, Title: in.Title, Key: key})
	p.keys[tenant+"/"+key] = t.ID
	reply(w, 201, t)
}

func (p *deskProvider) operations(w http.ResponseWriter, tenant, key string) {
	if key == "reserve" {
		p.keys[tenant+"/reserved"] += "1"
	}
	found := []map[string]string{}
	if id, ok := p.keys[tenant+"/"+key]; ok {
		found = append(found, map[string]string{"key": key, "ticket": id})
	}
	reply(w, 200, map[string]any{"operations": found})
}
