// Package double is the provider of the guides, as far as their connector uses
// it: rooms that can be booked, of two tenants.
package double

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Rooms is the provider. It is safe for concurrent use.
type Rooms struct {
	mu    sync.Mutex
	state map[string][]entry // by tenant
	next  int
	loses int // answers that never arrive
}

type entry struct {
	ID        int    `json:"id"`
	Room      string `json:"room"`
	Title     string `json:"title"`
	Start     string `json:"start"`
	End       string `json:"end"`
	Reference string `json:"reference"`
	Notes     string `json:"notes"` // what nobody asked for
}

// New returns a provider with six bookings of room r-12 for each of the tenants
// "acme" and "globex". Room r-99 is there, and nobody's to see.
func New() *Rooms {
	d := &Rooms{state: map[string][]entry{}, next: 100}
	for _, tenant := range []string{"acme", "globex"} {
		for i := range 6 {
			d.add(tenant, entry{Room: "r-12", Title: fmt.Sprintf("%s meeting %d", tenant, i)})
		}
	}
	return d
}

func (d *Rooms) add(tenant string, e entry) entry {
	d.next++
	e.ID, e.Notes = d.next, "private"
	if e.Start == "" {
		e.Start, e.End = "2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z"
	}
	d.state[tenant] = append(d.state[tenant], e)
	return e
}

// Token returns the key of a user of a tenant.
func (d *Rooms) Token(tenant, user string) string { return "key-of-" + tenant + "-" + user }

// Snapshot returns everything that there is.
func (d *Rooms) Snapshot() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return json.Marshal(d.state)
}

// Insert and Remove change the bookings of a tenant, as somebody else would.
func (d *Rooms) Insert(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state[tenant] = slices.Insert(d.state[tenant], 0, d.add("nobody", entry{Room: "r-12", Title: "inserted"}))
	delete(d.state, "nobody")
}

// Remove removes the booking that is listed first.
func (d *Rooms) Remove(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.state[tenant]; len(l) > 0 {
		d.state[tenant] = l[1:]
	}
}

// Count is how many bookings a tenant has.
func (d *Rooms) Count(tenant string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.state[tenant])
}

// Lose makes the answers to the next n bookings get lost, after they were made.
func (d *Rooms) Lose(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loses = n
}

// ServeHTTP implements [http.Handler].
func (d *Rooms) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	who, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer key-of-")
	tenant, _, _ := strings.Cut(who, "-")
	switch {
	case !ok || d.state[tenant] == nil:
		say(w, 401, map[string]string{"error": "who are you?"})
	case r.URL.Path != "/bookings":
		say(w, 404, map[string]string{"error": "not found"})
	case r.Method == http.MethodPost:
		d.book(w, r, tenant)
	case d.refused(w, r.URL.Query().Get("room")):
	default:
		d.list(w, r, tenant)
	}
}

func (d *Rooms) refused(w http.ResponseWriter, room string) bool {
	switch room {
	case "r-12", "r-14":
		return false
	case "r-99":
		say(w, 403, map[string]string{"error": "not yours"})
	default:
		say(w, 404, map[string]string{"error": "no such room"})
	}
	return true
}

func (d *Rooms) book(w http.ResponseWriter, r *http.Request, tenant string) {
	var e entry
	if json.NewDecoder(r.Body).Decode(&e) != nil || e.Title == "" {
		say(w, 422, map[string]string{"error": "a title is needed"})
		return
	}
	if d.refused(w, e.Room) {
		return
	}
	e = d.add(tenant, e)
	if d.loses > 0 {
		d.loses--
		panic(http.ErrAbortHandler) // booked, and nobody is told
	}
	say(w, 201, e)
}

func (d *Rooms) list(w http.ResponseWriter, r *http.Request, tenant string) {
	q := r.URL.Query()
	found := []entry{}
	for _, e := range d.state[tenant] {
		if e.Room == q.Get("room") && (!q.Has("reference") || q.Get("reference") == e.Reference) {
			found = append(found, e)
		}
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	offset, _ := strconv.Atoi(q.Get("offset"))
	from := min(max(offset, 0), len(found))
	say(w, 200, map[string]any{"bookings": found[from:min(from+max(limit, 0), len(found))], "total": len(found)})
}

func say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
