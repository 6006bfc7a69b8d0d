package providers

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// Redmine answers as Redmine 5.0.4 with the REST API switched on does. It holds
// two projects: "inc" (id 1), where the connector's user may see and create
// issues, and "secret" (id 2) of another tenant with one issue that he may not
// see. The first issue created gets the number [alr.Ticket].
//
// It serves
//
//	GET    /issues.json       project_id, issue_id, status_id, tracker_id, priority_id,
//	                          subject, cf_1 .. cf_3; sort=id; offset, page, limit
//	POST   /issues.json       application/json only
//	GET    /issues/ID.json    PUT (204, and nothing changes), DELETE (403)
//	GET    /projects/ID.json  by number or identifier
//	GET    /users/current.json   with the caller's API key in the answer
//
// Its traps are those of the real one: no idempotency of any kind, a missing
// right on a create reads as invalid input, an unknown filter is ignored and
// widens the answer, closed issues are left out unless status_id=* asks for
// them, limit is cut to 100 and echoed, and offsets move when issues arrive.
//
// It has no sessions, no HTML, no attachments, no journals.
type Redmine struct {
	Wire
	opts RedmineOptions

	mu     sync.Mutex
	issues []redmineIssue // by id, rising
}

// RedmineOptions configures [NewRedmine]; nil is the incident.
type RedmineOptions struct {
	// Key is the API key of the connector's user. Empty: [alr.TicketKey].
	Key string
}

// NewRedmine returns a Redmine whose project "inc" is empty.
func NewRedmine(opts *RedmineOptions) *Redmine {
	r := &Redmine{}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Key == "" {
		r.opts.Key = alr.TicketKey
	}
	r.issues = []redmineIssue{{ID: alr.Ticket - 1, Project: redmineProjects()[1], Subject: alr.Canary,
		Tracker: ref{1, "Bug"}, Status: redmineStatus{1, "New", false}, Priority: ref{2, "Normal"}, Author: ref{1, "Redmine Admin"}}}
	return r
}

type ref struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

type redmineStatus struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Closed bool   `json:"is_closed"`
}

type redmineField struct {
	ID    int     `json:"id"`
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

type redmineIssue struct {
	ID             int            `json:"id"`
	Project        ref            `json:"project"`
	Tracker        ref            `json:"tracker"`
	Status         redmineStatus  `json:"status"`
	Priority       ref            `json:"priority"`
	Author         ref            `json:"author"`
	Subject        string         `json:"subject"`
	Description    *string        `json:"description"`
	StartDate      string         `json:"start_date"`
	DueDate        *string        `json:"due_date"`
	DoneRatio      int            `json:"done_ratio"`
	Private        bool           `json:"is_private"`
	Estimated      *float64       `json:"estimated_hours"`
	TotalEstimated *float64       `json:"total_estimated_hours"`
	Fields         []redmineField `json:"custom_fields"`
	Created        string         `json:"created_on"`
	Updated        string         `json:"updated_on"`
	ClosedOn       *string        `json:"closed_on"`
}

func redmineProjects() []ref { return []ref{{1, "Production incidents"}, {2, "Other tenant"}} }

func redmineTrackers() []ref { return []ref{{1, "Bug"}, {2, "Feature"}, {3, "Support"}} }

func redminePriorities() []ref {
	return []ref{{1, "Low"}, {2, "Normal"}, {3, "High"}, {4, "Urgent"}, {5, "Immediate"}}
}

// project finds a project by its number or identifier.
func redmineProject(name string) (p ref, ok bool) {
	for i, identifier := range []string{"inc", "secret"} {
		if p = redmineProjects()[i]; name == identifier || name == strconv.Itoa(p.ID) {
			return p, true
		}
	}
	return ref{}, false
}

// Issues returns how many issues the project "inc" holds.
func (r *Redmine) Issues() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.issues) - 1
}

// Close sets an issue to "Closed", as a person does in the web interface. It
// reports whether there is such an issue.
func (r *Redmine) Close(id int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.issues, func(x redmineIssue) bool { return x.ID == id })
	if i < 0 {
		return false
	}
	now := time.Now().UTC().Format(time.RFC3339)
	r.issues[i].Status, r.issues[i].ClosedOn, r.issues[i].Updated = redmineStatus{5, "Closed", true}, &now, now
	return true
}

// ServeHTTP answers one request.
func (r *Redmine) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.serve(w, req, r.answer) }

// A redmineCall is one request with its user.
type redmineCall struct {
	*Redmine
	w      http.ResponseWriter
	req    *http.Request
	member bool // of the project "inc"
}

func (r *Redmine) answer(w http.ResponseWriter, req *http.Request) {
	c := &redmineCall{r, w, req, false}
	for name, value := range map[string]string{"X-Frame-Options": "SAMEORIGIN", "X-XSS-Protection": "1; mode=block", "X-Content-Type-Options": "nosniff",
		"X-Download-Options": "noopen", "X-Permitted-Cross-Domain-Policies": "none", "Referrer-Policy": "strict-origin-when-cross-origin"} {
		w.Header().Set(name, value)
	}
	kind, rest, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	id, isJSON := strings.CutSuffix(rest, ".json")
	switch {
	case req.URL.Path == "/issues.json" || isJSON && slices.Contains([]string{"issues", "projects", "users"}, kind) && !strings.Contains(id, "/"):
	default:
		send(w, http.StatusNotFound, "text/html; charset=utf-8", "<!DOCTYPE html>\n<title>Redmine 404 error</title>\n")
		return
	}
	if !c.login() {
		w.Header().Set("WWW-Authenticate", `Basic realm="Redmine API"`)
		c.empty(http.StatusUnauthorized)
		return
	}
	c.route(kind, id)
}

func (c *redmineCall) login() bool {
	key := c.req.Header.Get("X-Redmine-API-Key")
	if key == "" {
		key = c.req.URL.Query().Get("key")
	}
	if user, _, ok := c.req.BasicAuth(); ok && key == "" {
		key = user
	}
	c.member = key == c.opts.Key
	return c.member || key == alr.TicketKeyNoRight
}

func (c *redmineCall) route(kind, id string) {
	switch m := c.req.Method; {
	case kind == "issues.json" && m == http.MethodGet:
		c.list()
	case kind == "issues.json" && m == http.MethodPost:
		c.create()
	case kind == "issues":
		c.one(id)
	case kind == "projects" && m == http.MethodGet:
		c.project(id)
	case kind == "users" && id == "current" && m == http.MethodGet:
		c.user()
	default:
		c.empty(http.StatusNotFound)
	}
}

// empty answers as Redmine does where it has nothing to say: JSON of no bytes.
func (c *redmineCall) empty(status int) {
	c.w.Header().Set("Cache-Control", "no-cache")
	send(c.w, status, "application/json", "")
}

func (c *redmineCall) ok(status int, v any) {
	body := encode(v, true)
	sum := sha256.Sum256([]byte(body))
	c.w.Header().Set("ETag", fmt.Sprintf(`W/"%x"`, sum[:16]))
	c.w.Header().Set("Cache-Control", "max-age=0, private, must-revalidate")
	send(c.w, status, "application/json; charset=utf-8", body)
}

func (c *redmineCall) invalid(problems ...string) {
	c.w.Header().Set("Cache-Control", "no-cache")
	send(c.w, http.StatusUnprocessableEntity, "application/json; charset=utf-8", encode(map[string][]string{"errors": problems}, true))
}

func (c *redmineCall) user() {
	login, key, id := "connector", c.opts.Key, 5
	if !c.member {
		login, key, id = "nobody", alr.TicketKeyNoRight, 6
	}
	const at = "2026-04-01T08:00:00Z"
	c.ok(http.StatusOK, map[string]any{"user": struct {
		ID        int     `json:"id"`
		Login     string  `json:"login"`
		Admin     bool    `json:"admin"`
		First     string  `json:"firstname"`
		Last      string  `json:"lastname"`
		Created   string  `json:"created_on"`
		Updated   string  `json:"updated_on"`
		LastLogin *string `json:"last_login_on"`
		Password  string  `json:"passwd_changed_on"`
		TwoFactor *string `json:"twofa_scheme"`
		Key       string  `json:"api_key"`
	}{id, login, false, login, "Bot", at, at, nil, at, nil, key}})
}

func (c *redmineCall) project(id string) {
	p, found := redmineProject(id)
	switch {
	case !found:
		c.empty(http.StatusNotFound)
		return
	case !c.sees(p):
		c.empty(http.StatusForbidden)
		return
	}
	const at = "2026-04-01T08:00:00Z"
	c.ok(http.StatusOK, map[string]any{"project": struct {
		ref
		Identifier  string  `json:"identifier"`
		Description *string `json:"description"`
		Homepage    string  `json:"homepage"`
		Status      int     `json:"status"`
		Public      bool    `json:"is_public"`
		Inherit     bool    `json:"inherit_members"`
		Created     string  `json:"created_on"`
		Updated     string  `json:"updated_on"`
	}{p, "inc", nil, "", 1, false, false, at, at}})
}

// sees says whether the caller may see a project.
func (c *redmineCall) sees(p ref) bool { return c.member && p.ID == 1 }

func (c *redmineCall) one(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.issues, func(x redmineIssue) bool { return strconv.Itoa(x.ID) == id })
	switch {
	case i < 0:
		c.empty(http.StatusNotFound)
	case !c.sees(c.issues[i].Project):
		c.empty(http.StatusForbidden)
	case c.req.Method == http.MethodGet:
		c.ok(http.StatusOK, map[string]any{"issue": c.issues[i]})
	case c.req.Method == http.MethodPut: // the role may not edit: silently nothing
		c.w.Header().Set("Cache-Control", "no-cache")
		c.w.WriteHeader(http.StatusNoContent)
	default:
		c.empty(http.StatusForbidden)
	}
}

// create is POST /issues.json. Each request makes an issue, whatever was there.
func (c *redmineCall) create() {
	var body any
	if kind, _, _ := mime.ParseMediaType(c.req.Header.Get("Content-Type")); kind == "application/json" {
		d := json.NewDecoder(http.MaxBytesReader(c.w, c.req.Body, 1<<20))
		if err := d.Decode(&body); err != nil {
			c.malformed()
			return
		}
	}
	root, _ := body.(map[string]any)
	in, isObject := root["issue"].(map[string]any)
	if root["issue"] != nil && !isObject {
		send(c.w, http.StatusInternalServerError, "application/json; charset=utf-8", `{"status":500,"error":"Internal Server Error"}`)
		return
	}
	x, problems := c.draft(in)
	if len(problems) > 0 {
		c.invalid(problems...)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x.ID = c.issues[len(c.issues)-1].ID + 1
	c.issues = append(c.issues, x)
	c.w.Header().Set("Location", fmt.Sprintf("http://%s/issues/%d", c.req.Host, x.ID))
	c.ok(http.StatusCreated, map[string]any{"issue": x})
}

// malformed answers a body that is not JSON. The real one goes by the header
// Accept here, and not by the path.
func (c *redmineCall) malformed() {
	clear(c.w.Header())
	if strings.HasPrefix(c.req.Header.Get("Accept"), "*/*") {
		send(c.w, http.StatusBadRequest, "text/html; charset=utf-8", "")
		return
	}
	send(c.w, http.StatusBadRequest, "application/json; charset=utf-8", `{"status":400,"error":"Bad Request"}`)
}

// draft makes an issue of what was sent, or says why not. Unknown members, a
// tracker that does not exist and a status are ignored.
func (c *redmineCall) draft(in map[string]any) (x redmineIssue, problems []string) {
	text := func(name string) string {
		if in[name] == nil {
			return ""
		}
		return fmt.Sprint(in[name])
	}
	now := time.Now().UTC()
	x = redmineIssue{Tracker: ref{1, "Bug"}, Status: redmineStatus{1, "New", false}, Priority: ref{2, "Normal"}, Author: ref{5, "connector Bot"},
		Subject: text("subject"), StartDate: now.Format(time.DateOnly), Created: now.Format(time.RFC3339), Updated: now.Format(time.RFC3339)}
	switch {
	case strings.TrimSpace(x.Subject) == "":
		problems = append(problems, "Subject cannot be blank")
	case utf8.RuneCountInString(x.Subject) > 255:
		problems = append(problems, "Subject is too long (maximum is 255 characters)")
	}
	p, found := redmineProject(text("project_id"))
	if !found || !c.sees(p) {
		return x, append(problems, "Project cannot be blank", "Tracker cannot be blank", "Status cannot be blank")
	}
	x.Project = p
	if i := slices.IndexFunc(redmineTrackers(), hasID(text("tracker_id"))); i >= 0 {
		x.Tracker = redmineTrackers()[i]
	}
	if given := text("priority_id"); given != "" {
		i := slices.IndexFunc(redminePriorities(), hasID(given))
		if i < 0 {
			return x, append(problems, "Priority cannot be blank")
		}
		x.Priority = redminePriorities()[i]
	}
	if d := text("description"); d != "" {
		x.Description = &d
	}
	x.Fields = customFields(in)
	return x, problems
}

func hasID(text string) func(ref) bool {
	return func(r ref) bool { return strconv.Itoa(r.ID) == text }
}

// customFields reads custom_fields ([{"id":1,"value":"x"}]) or
// custom_field_values ({"1":"x"}).
func customFields(in map[string]any) []redmineField {
	given := map[string]any{}
	if list, ok := in["custom_fields"].([]any); ok {
		for _, one := range list {
			if f, ok := one.(map[string]any); ok {
				given[fmt.Sprint(f["id"])] = f["value"]
			}
		}
	}
	if byID, ok := in["custom_field_values"].(map[string]any); ok {
		given = byID
	}
	var out []redmineField
	for i, name := range []string{"operation_key", "payload_sha256", "approval_ref"} {
		f := redmineField{ID: i + 1, Name: name}
		if v := given[strconv.Itoa(f.ID)]; v != nil {
			text := fmt.Sprint(v)
			f.Value = &text
		}
		out = append(out, f)
	}
	return out
}

// list is GET /issues.json.
func (c *redmineCall) list() {
	q := c.req.URL.Query()
	if name := q.Get("project_id"); name != "" {
		p, found := redmineProject(name)
		if !found {
			c.empty(http.StatusNotFound)
			return
		}
		if !c.sees(p) {
			c.empty(http.StatusForbidden)
			return
		}
	}
	for i, name := range []string{"operation_key", "payload_sha256", "approval_ref"} {
		if v := q[fmt.Sprintf("cf_%d", i+1)]; len(v) > 0 && v[0] == "" {
			c.invalid(name + " cannot be blank")
			return
		}
	}
	found := []redmineIssue{}
	c.mu.Lock()
	for _, x := range c.issues {
		if c.sees(x.Project) && x.matches(q.Get) {
			found = append(found, x)
		}
	}
	c.mu.Unlock()
	if s := q.Get("sort"); s != "id" && s != "id:asc" {
		slices.Reverse(found)
	}
	c.page(found, q.Get)
}

func (c *redmineCall) page(found []redmineIssue, get func(string) string) {
	limit, err := strconv.Atoi(get("limit"))
	if err != nil || limit < 1 {
		limit = 25
	}
	limit = min(limit, 100)
	offset, err := strconv.Atoi(get("offset"))
	if page, pageErr := strconv.Atoi(get("page")); err != nil && pageErr == nil && page > 0 {
		offset = (page - 1) * limit
	}
	offset = max(offset, 0)
	total := len(found)
	from := min(offset, total)
	found = found[from:min(from+limit, total)]
	c.ok(http.StatusOK, struct {
		Issues []redmineIssue `json:"issues"`
		Total  int            `json:"total_count"`
		Offset int            `json:"offset"`
		Limit  int            `json:"limit"`
	}{found, total, offset, limit})
}

// matches applies the filters of a list; without status_id only open issues pass.
func (x redmineIssue) matches(get func(string) string) bool {
	switch s := get("status_id"); s {
	case "", "open", "o":
		if x.Status.Closed {
			return false
		}
	case "closed", "c":
		if !x.Status.Closed {
			return false
		}
	case "*":
	default:
		if !redmineFilter(s, strconv.Itoa(x.Status.ID)) {
			return false
		}
	}
	values := map[string]string{"issue_id": strconv.Itoa(x.ID), "tracker_id": strconv.Itoa(x.Tracker.ID), "priority_id": strconv.Itoa(x.Priority.ID), "subject": x.Subject}
	for _, f := range x.Fields {
		values[fmt.Sprintf("cf_%d", f.ID)] = ""
		if f.Value != nil {
			values[fmt.Sprintf("cf_%d", f.ID)] = *f.Value
		}
	}
	for name, value := range values {
		if f := get(name); f != "" && !redmineFilter(f, value) {
			return false
		}
	}
	return true
}

// redmineFilter reads Redmine's short filters: a|b equals one of them, !a|b none,
// * any value, !* none at all, ~a contains.
func redmineFilter(filter, value string) bool {
	switch {
	case filter == "*":
		return value != ""
	case filter == "!*":
		return value == ""
	case strings.HasPrefix(filter, "~"):
		return strings.Contains(strings.ToLower(value), strings.ToLower(filter[1:]))
	case strings.HasPrefix(filter, "!"):
		return !slices.Contains(strings.Split(filter[1:], "|"), value)
	}
	return slices.Contains(strings.Split(filter, "|"), value)
}
