package providers

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// GitHub answers GET /repos/OWNER/REPO/deployments (environment, ref, sha, task,
// per_page, page) and GET /repos/OWNER/REPO/deployments/ID/statuses in the format
// of GitHub's REST API (version 2022-11-28), newest first, with Link headers and
// rate limit headers.
//
// No GitHub server was within reach when this was written: the formats follow
// the published OpenAPI description, and the texts of errors its documentation.
// A repository that the token may not see is 404, like one that does not exist.
//
// It knows nothing else, and writes nothing.
type GitHub struct {
	Wire
	opts GitHubOptions

	mu    sync.Mutex
	used  int
	reset time.Time
}

// GitHubOptions configures [NewGitHub]; nil is the incident.
type GitHubOptions struct {
	// Token is the bearer token that every request needs. Empty: none.
	Token string
	// Limit is how many requests an hour allows. 0: 5,000.
	Limit int
	// NextOrigin replaces the origin of the links to other pages, such as
	// "https://elsewhere.example.test": what a hostile or confused server sends.
	// Empty: the origin that the client asked.
	NextOrigin string
	// Unmapped leaves out the repository of order-service: nobody has said which
	// repository deploys it.
	Unmapped bool
}

// NewGitHub returns a GitHub with the rollouts of the incident.
func NewGitHub(opts *GitHubOptions) *GitHub {
	g := &GitHub{}
	if opts != nil {
		g.opts = *opts
	}
	if g.opts.Limit == 0 {
		g.opts.Limit = 5000
	}
	return g
}

// ServeHTTP answers one request.
func (g *GitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.serve(w, r, g.answer) }

func (g *GitHub) answer(w http.ResponseWriter, r *http.Request) {
	auth := r.Header.Get("Authorization")
	if g.opts.Token != "" && auth != "Bearer "+g.opts.Token && auth != "token "+g.opts.Token {
		githubError(w, http.StatusUnauthorized, "Bad credentials", "https://docs.github.com/rest")
		return
	}
	if !g.spend(w) {
		githubError(w, http.StatusForbidden, "API rate limit exceeded for user ID 1.", "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api")
		return
	}
	const docs = "https://docs.github.com/rest/deployments/deployments#list-deployments"
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Method != http.MethodGet || len(parts) < 4 || parts[0] != "repos" || parts[3] != "deployments" {
		githubError(w, http.StatusNotFound, "Not Found", "https://docs.github.com/rest")
		return
	}
	found := g.deployments(parts[1], parts[2])
	switch {
	case len(found) == 0:
		githubError(w, http.StatusNotFound, "Not Found", docs)
	case len(parts) == 4:
		g.page(w, r, visible(&g.Wire, g.list(r, found)))
	case len(parts) == 6 && parts[5] == "statuses":
		i := slices.IndexFunc(found, func(d alr.Deployment) bool { return strconv.FormatInt(d.Number, 10) == parts[4] })
		if i < 0 {
			githubError(w, http.StatusNotFound, "Not Found", "https://docs.github.com/rest/deployments/statuses#list-deployment-statuses")
			return
		}
		g.page(w, r, g.statuses(r, found[i]))
	default:
		githubError(w, http.StatusNotFound, "Not Found", "https://docs.github.com/rest")
	}
}

func githubError(w http.ResponseWriter, status int, message, docs string) {
	send(w, status, "application/json; charset=utf-8", encode(struct {
		Message string `json:"message"`
		Docs    string `json:"documentation_url"`
		Status  string `json:"status"`
	}{message, docs, strconv.Itoa(status)}, false))
}

// spend counts a request against the hour and writes the headers.
func (g *GitHub) spend(w http.ResponseWriter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); !now.Before(g.reset) {
		g.used, g.reset = 0, now.Add(time.Hour)
	}
	ok := g.used < g.opts.Limit
	if ok {
		g.used++
	}
	for name, v := range map[string]int64{"Limit": int64(g.opts.Limit), "Remaining": int64(g.opts.Limit - g.used), "Used": int64(g.used), "Reset": g.reset.Unix()} {
		w.Header().Set("X-Ratelimit-"+name, strconv.FormatInt(v, 10))
	}
	w.Header().Set("X-Ratelimit-Resource", "core")
	return ok
}

func (g *GitHub) deployments(owner, repo string) []alr.Deployment {
	return slices.DeleteFunc(alr.Deployments(), func(d alr.Deployment) bool {
		hidden := d.Owner == "other" && g.opts.Token != "" || g.opts.Unmapped && d.Repo == alr.Service
		return hidden || d.Owner != owner || d.Repo != repo
	})
}

type githubUser struct {
	Login             string `json:"login"`
	ID                int    `json:"id"`
	NodeID            string `json:"node_id"`
	AvatarURL         string `json:"avatar_url"`
	GravatarID        string `json:"gravatar_id"`
	URL               string `json:"url"`
	HTMLURL           string `json:"html_url"`
	FollowersURL      string `json:"followers_url"`
	FollowingURL      string `json:"following_url"`
	GistsURL          string `json:"gists_url"`
	StarredURL        string `json:"starred_url"`
	SubscriptionsURL  string `json:"subscriptions_url"`
	OrganizationsURL  string `json:"organizations_url"`
	ReposURL          string `json:"repos_url"`
	EventsURL         string `json:"events_url"`
	ReceivedEventsURL string `json:"received_events_url"`
	Type              string `json:"type"`
	SiteAdmin         bool   `json:"site_admin"`
}

func releaseBot(origin string) githubUser {
	u := origin + "/users/release-bot"
	return githubUser{"release-bot", 1, "MDQ6VXNlcjE=", u + "/avatar", "", u, u + "/html", u + "/followers", u + "/following{/other_user}", u + "/gists{/gist_id}", u + "/starred{/owner}{/repo}",
		u + "/subscriptions", u + "/orgs", u + "/repos", u + "/events{/privacy}", u + "/received_events", "User", false}
}

func origin(r *http.Request) string { return "http://" + r.Host }

func (g *GitHub) list(r *http.Request, found []alr.Deployment) []any {
	q := r.URL.Query()
	var out []any
	for _, d := range found {
		misses := func(name, value string) bool { return q.Get(name) != "" && q.Get(name) != value }
		if misses("environment", d.Environment) || misses("ref", d.Ref) || misses("sha", d.SHA) || misses("task", "deploy") {
			continue
		}
		repo := origin(r) + "/repos/" + d.Owner + "/" + d.Repo
		one := repo + "/deployments/" + strconv.FormatInt(d.Number, 10)
		out = append(out, struct {
			URL                 string         `json:"url"`
			ID                  int64          `json:"id"`
			NodeID              string         `json:"node_id"`
			SHA                 string         `json:"sha"`
			Ref                 string         `json:"ref"`
			Task                string         `json:"task"`
			Payload             map[string]any `json:"payload"`
			OriginalEnvironment string         `json:"original_environment"`
			Environment         string         `json:"environment"`
			Description         *string        `json:"description"`
			Creator             githubUser     `json:"creator"`
			Created             time.Time      `json:"created_at"`
			Updated             time.Time      `json:"updated_at"`
			StatusesURL         string         `json:"statuses_url"`
			RepositoryURL       string         `json:"repository_url"`
			Transient           bool           `json:"transient_environment"`
			Production          bool           `json:"production_environment"`
		}{one, d.Number, fmt.Sprintf("DE_%d", d.Number), d.SHA, d.Ref, "deploy", map[string]any{}, d.Environment, d.Environment, nil, releaseBot(origin(r)),
			d.Created, d.States[0].At, one + "/statuses", repo, false, true})
	}
	return out
}

func (g *GitHub) statuses(r *http.Request, d alr.Deployment) []any {
	repo := origin(r) + "/repos/" + d.Owner + "/" + d.Repo
	one := repo + "/deployments/" + strconv.FormatInt(d.Number, 10)
	var out []any
	for i, s := range d.States {
		id := d.Number*10 + int64(len(d.States)-i)
		out = append(out, struct {
			URL            string     `json:"url"`
			ID             int64      `json:"id"`
			NodeID         string     `json:"node_id"`
			State          string     `json:"state"`
			Creator        githubUser `json:"creator"`
			Description    string     `json:"description"`
			Environment    string     `json:"environment"`
			TargetURL      string     `json:"target_url"`
			Created        time.Time  `json:"created_at"`
			Updated        time.Time  `json:"updated_at"`
			DeploymentURL  string     `json:"deployment_url"`
			RepositoryURL  string     `json:"repository_url"`
			EnvironmentURL string     `json:"environment_url"`
			LogURL         string     `json:"log_url"`
		}{fmt.Sprintf("%s/statuses/%d", one, id), id, fmt.Sprintf("DES_%d", id), s.State, releaseBot(origin(r)), "", d.Environment, "", s.At, s.At, one, repo, "", ""})
	}
	return out
}

// page writes one page and the links to the others. per_page is 30 if missing or
// wrong, and at most 100.
func (g *GitHub) page(w http.ResponseWriter, r *http.Request, all []any) {
	number := func(name string, missing, most int) int {
		n, err := strconv.Atoi(r.URL.Query().Get(name))
		if err != nil || n < 1 {
			return missing
		}
		return min(n, most)
	}
	size, page := number("per_page", 30, 100), number("page", 1, 1<<20)
	last := max(1, (len(all)+size-1)/size)
	from := min((page-1)*size, len(all))
	body := append([]any{}, all[from:min(from+size, len(all))]...)
	if links := g.links(r, page, last); links != "" {
		w.Header().Set("Link", links)
	}
	send(w, http.StatusOK, "application/json; charset=utf-8", encode(body, false))
}

func (g *GitHub) links(r *http.Request, page, last int) string {
	base := g.opts.NextOrigin
	if base == "" {
		base = origin(r)
	}
	var out []string
	add := func(rel string, n int) {
		q := url.Values{}
		for name, values := range r.URL.Query() {
			q[name] = values
		}
		q.Set("page", strconv.Itoa(n))
		out = append(out, fmt.Sprintf(`<%s%s?%s>; rel=%q`, base, r.URL.EscapedPath(), q.Encode(), rel))
	}
	if page > 1 {
		add("prev", min(page-1, last))
	}
	if page < last {
		add("next", page+1)
		add("last", last)
	}
	if page > 1 {
		add("first", 1)
	}
	return strings.Join(out, ", ")
}
