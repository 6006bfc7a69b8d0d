package issues_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/examples/vendorclient/issues"
)

// hub answers as the published OpenAPI description of GitHub says that issues
// are listed, got and created. Every tenant has its own "acme/shop".
type hub struct {
	mu   sync.Mutex
	list map[string][]item // by tenant, newest first
	next int
}

type item struct {
	ID      int64   `json:"id"`
	NodeID  string  `json:"node_id"`
	URL     string  `json:"url"`
	Number  int     `json:"number"`
	State   string  `json:"state"`
	Title   string  `json:"title"`
	Body    *string `json:"body"`
	Labels  []label `json:"labels"`
	User    user    `json:"user"`
	Locked  bool    `json:"locked"`
	Created string  `json:"created_at"`
	Updated string  `json:"updated_at"`
	Closed  *string `json:"closed_at"`
}

type label struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Color string `json:"color"`
}

type user struct {
	Login string `json:"login"`
	ID    int    `json:"id"`
	Type  string `json:"type"`
}

func newHub(testing.TB) connectortest.Double {
	h := &hub{list: map[string][]item{}}
	for _, tenant := range []string{check.TenantA, check.TenantB} {
		h.next = 40
		for i := range 7 {
			h.add(tenant, fmt.Sprintf("%s issue %d", tenant, i), nil)
		}
	}
	return h
}

func (h *hub) add(tenant, title string, labels []string) item {
	h.next++
	x := item{ID: int64(h.next) * 1_000_003, NodeID: fmt.Sprintf("I_%d", h.next), URL: fmt.Sprintf("https://api.github.com/repos/acme/shop/issues/%d", h.next), Number: h.next,
		State: "open", Title: title, Labels: []label{}, User: user{"octocat", 1, "User"}, Created: "2026-11-01T09:00:00Z", Updated: "2026-11-01T09:00:00Z"}
	for i, name := range labels {
		x.Labels = append(x.Labels, label{int64(i + 1), name, "ededed"})
	}
	h.list[tenant] = slices.Insert(slices.Clone(h.list[tenant]), 0, x)
	return x
}

func (h *hub) Token(tenant, user string) string { return "hub-token-" + tenant + "-" + user }

func (h *hub) Snapshot() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return json.Marshal(h.list)
}

func (h *hub) Insert(tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(tenant, "inserted", nil)
}

func (h *hub) Remove(tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.list[tenant]; len(l) > 0 {
		h.list[tenant] = l[1:]
	}
}

func say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, message string) {
	say(w, status, map[string]string{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status)})
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	who, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer hub-token-")
	tenant, _, _ := strings.Cut(who, "-")
	rest, mine := strings.CutPrefix(r.URL.Path, "/repos/acme/shop/issues")
	switch number, err := strconv.Atoi(strings.TrimPrefix(rest, "/")); {
	case !ok || h.list[tenant] == nil:
		refuse(w, 401, "Bad credentials")
	case strings.HasPrefix(r.URL.Path, "/repos/acme/vault/"):
		refuse(w, 403, "Resource not accessible by personal access token")
	case !mine:
		refuse(w, 404, "Not Found")
	case rest == "" && r.Method == "GET":
		h.page(w, r, h.list[tenant])
	case rest == "" && r.Method == "POST":
		h.create(w, r, tenant)
	case r.Method == "GET" && err == nil:
		i := slices.IndexFunc(h.list[tenant], func(x item) bool { return x.Number == number })
		if i < 0 {
			refuse(w, 404, "Not Found")
			return
		}
		say(w, 200, h.list[tenant][i])
	default:
		refuse(w, 404, "Not Found")
	}
}

func (h *hub) create(w http.ResponseWriter, r *http.Request, tenant string) {
	var in struct {
		Title  string
		Labels []string
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Title == "" {
		refuse(w, 422, "Validation Failed")
		return
	}
	say(w, 201, h.add(tenant, in.Title, in.Labels))
}

func (h *hub) page(w http.ResponseWriter, r *http.Request, all []item) {
	q := r.URL.Query()
	found := []item{}
	for _, x := range all {
		state, name := q.Get("state"), q.Get("labels")
		if (state == "all" || state == x.State || state == "" && x.State == "open") &&
			(name == "" || slices.ContainsFunc(x.Labels, func(l label) bool { return l.Name == name })) {
			found = append(found, x)
		}
	}
	number := func(name string, missing int) int {
		if n, err := strconv.Atoi(q.Get(name)); err == nil && n > 0 {
			return n
		}
		return missing
	}
	page, size := number("page", 1), min(number("per_page", 30), 100)
	from := min((page-1)*size, len(found))
	to := min(from+size, len(found))
	if to < len(found) {
		q.Set("page", strconv.Itoa(page+1))
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?%s>; rel="next"`, r.Host, r.URL.Path, q.Encode()))
	}
	say(w, 200, found[from:to])
}

// A connector that speaks through the vendor's client keeps the contract: it
// reads, lists and creates. T1.
func TestVendorClient_T1(t *testing.T) {
	const shop = `{"owner":"acme","repo":"shop"`
	connectortest.Test(t, connectortest.Fixture{
		New:    func() (connector.Connector, error) { return issues.New("github") },
		Double: newHub,
		Samples: []connectortest.Sample{
			{Capability: "get_issue", Args: shop + `,"number":41}`, Missing: shop + `,"number":999}`, Other: shop + `,"number":42}`},
			{Capability: "list_issues", Args: shop + `}`, Empty: shop + `,"state":"closed"}`, Missing: `{"owner":"acme","repo":"nothing"}`, Denied: `{"owner":"acme","repo":"vault"}`, Items: 7},
			{Capability: "create_issue", Args: shop + `,"title":"hello"}`, Missing: `{"owner":"acme","repo":"nothing","title":"x"}`, Other: shop + `,"title":"goodbye"}`},
		},
	})
}
