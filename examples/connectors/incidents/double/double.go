// Package double is PagerDuty in memory, as far as the connector uses it: two
// tenants, each with seven incidents on one service.
package double

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

type obj = map[string]any

type incident struct {
	ID, Title, Status, Urgency, Service, Key string
	Number, Acks                             int
}

// Double is the provider. It is made by New, and safe for concurrent use.
type Double struct {
	mu      sync.Mutex
	revoked map[string]bool
	all     map[string][]*incident // by tenant, newest first
	n       int
}

// New returns a provider in the same state each time: QINC1 and every second
// after it are of the first tenant, on the service PSVCA.
func New() *Double {
	d := &Double{revoked: map[string]bool{}, all: map[string][]*incident{}}
	for range 7 {
		d.add(check.TenantA, &incident{Title: "disk full", Urgency: "high", Service: "PSVCA"})
		d.add(check.TenantB, &incident{Title: "b's disk full", Urgency: "high", Service: "PSVCB"})
	}
	return d
}

func (d *Double) add(tenant string, i *incident) {
	d.n++
	i.Number, i.ID, i.Status = d.n, fmt.Sprintf("QINC%d", d.n), "triggered"
	d.all[tenant] = slices.Insert(d.all[tenant], 0, i)
}

// Token is the whole value of the Authorization header.
func (d *Double) Token(tenant, user string) string {
	return "Token token=key-of-" + tenant + "-" + user
}

// Account is the e-mail of a user, which PagerDuty wants in From.
func (d *Double) Account(tenant, user string) (string, string) {
	return user + "@" + tenant + ".example", tenant
}

// Revoke makes a key stop working.
func (d *Double) Revoke(tenant, user string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revoked[d.Token(tenant, user)] = true
}

// Insert opens an incident behind the connector's back.
func (d *Double) Insert(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(tenant, &incident{Title: "new", Urgency: "low", Service: d.all[tenant][0].Service})
}

// Remove loses the incident that is listed first.
func (d *Double) Remove(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[tenant] = d.all[tenant][1:]
}

// Snapshot is the whole state.
func (d *Double) Snapshot() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return json.Marshal(d.all)
}

func (d *Double) tenant(r *http.Request) string {
	t := r.Header.Get("Authorization")
	for _, tenant := range []string{check.TenantA, check.TenantB} {
		for _, u := range []string{check.Alice, check.Bob, check.Carol, check.Dave} {
			if t == d.Token(tenant, u) && !d.revoked[t] {
				return tenant
			}
		}
	}
	return ""
}

func fail(w http.ResponseWriter, status, code int, message string, errs ...string) {
	write(w, status, obj{"error": obj{"code": code, "message": message, "errors": errs}})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (i *incident) json() obj {
	return obj{"id": i.ID, "type": "incident", "incident_number": i.Number, "title": i.Title, "status": i.Status, "urgency": i.Urgency,
		"incident_key": i.Key, "html_url": "https://acme.pagerduty.com/incidents/" + i.ID, "service": obj{"id": i.Service, "type": "service_reference"}}
}

// ServeHTTP implements [http.Handler].
func (d *Double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tenant := d.tenant(r)
	if tenant == "" {
		fail(w, 401, 2006, "Unauthorized")
		return
	}
	id, single := strings.CutPrefix(r.URL.Path, "/incidents/")
	switch {
	case single && r.Method == "GET":
		if i := d.find(tenant, id); i != nil {
			write(w, 200, obj{"incident": i.json()})
			return
		}
		fail(w, 404, 2100, "Not Found")
	case single && r.Method == "PUT":
		d.update(w, r, tenant, id)
	case r.URL.Path == "/incidents" && r.Method == "GET":
		d.list(w, r, tenant)
	case r.URL.Path == "/incidents" && r.Method == "POST":
		d.create(w, r, tenant)
	default:
		fail(w, 404, 2100, "Not Found")
	}
}

func (d *Double) find(tenant, id string) *incident {
	for _, i := range d.all[tenant] {
		if i.ID == id {
			return i
		}
	}
	return nil
}

func (d *Double) list(w http.ResponseWriter, r *http.Request, tenant string) {
	q := r.URL.Query()
	limit, offset := 25, 0
	if s := q.Get("limit"); s != "" {
		limit, _ = strconv.Atoi(s)
	}
	offset, _ = strconv.Atoi(q.Get("offset"))
	limit = min(limit, 100)
	var found []obj
	for _, i := range d.all[tenant] {
		if !slices.Contains(q["service_ids[]"], i.Service) || q.Has("statuses[]") && !slices.Contains(q["statuses[]"], i.Status) ||
			q.Has("incident_key") && q.Get("incident_key") != i.Key {
			continue
		}
		found = append(found, i.json())
	}
	end := min(offset+limit, len(found))
	page := append([]obj{}, found[min(offset, len(found)):end]...)
	write(w, 200, obj{"incidents": page, "limit": limit, "offset": offset, "more": end < len(found), "total": nil})
}

func (d *Double) create(w http.ResponseWriter, r *http.Request, tenant string) {
	var body struct {
		Incident struct {
			Title, Urgency string
			Key            string `json:"incident_key"`
			Service        struct{ ID string }
		}
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Incident.Title == "" {
		fail(w, 400, 2001, "Invalid Input Provided")
		return
	}
	if r.Header.Get("From") == "" {
		fail(w, 400, 2001, "Requester User Not Found")
		return
	}
	if !slices.ContainsFunc(d.all[tenant], func(i *incident) bool { return i.Service == body.Incident.Service.ID }) {
		fail(w, 404, 2100, "Not Found")
		return
	}
	for _, i := range d.all[tenant] {
		if i.Key != "" && i.Key == body.Incident.Key && i.Status != "resolved" {
			fail(w, 400, 2002, "Arguments Caused Error", "Open incident with matching dedup key already exists on this service")
			return
		}
	}
	i := &incident{Title: body.Incident.Title, Urgency: body.Incident.Urgency, Service: body.Incident.Service.ID, Key: body.Incident.Key}
	d.add(tenant, i)
	write(w, 201, obj{"incident": i.json()})
}

func (d *Double) update(w http.ResponseWriter, r *http.Request, tenant, id string) {
	i := d.find(tenant, id)
	if i == nil {
		fail(w, 404, 2100, "Not Found")
		return
	}
	var body struct{ Incident struct{ Status string } }
	_ = json.NewDecoder(r.Body).Decode(&body)
	i.Status = body.Incident.Status
	write(w, 200, obj{"incident": i.json()})
}
