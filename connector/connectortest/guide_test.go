package connectortest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// The package's documentation shows this file from the first line of the
// connector to the end of its contract, so that it can be copied.
func TestTheGuideIsThisFile(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	text, err := os.ReadFile("guide_test.go")
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(text), "// connector: notes.go\n")
	require.True(t, ok)
	code, test, ok := strings.Cut(code, "// test: notes_test.go\n")
	require.True(t, ok)
	for _, part := range []string{code, test} {
		var b strings.Builder
		for line := range strings.Lines(strings.Trim(part, "\n") + "\n") {
			b.WriteString(strings.TrimRight("//\t"+line, "\t\n") + "\n")
		}
		require.Contains(t, string(doc), b.String())
	}
	for _, name := range []string{"notes.go", "notes_test.go"} {
		requireWhole(t, shownFile(string(doc), name))
	}
}

// shownFile returns a file as a package's documentation shows it.
func shownFile(doc, name string) string {
	_, rest, _ := strings.Cut(doc, "//\t// "+name+"\n")
	var b strings.Builder
	for line := range strings.Lines(rest) {
		code, ok := strings.CutPrefix(line, "//\t")
		if line == "//\n" {
			code, ok = "\n", true
		}
		if !ok {
			break
		}
		b.WriteString(code)
	}
	return b.String()
}

// requireWhole requires a file that imports what it uses and nothing else, so
// that it compiles as it is shown.
func requireWhole(t *testing.T, text string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	require.NoError(t, err, text)
	var imported, used []string
	for _, i := range file.Imports {
		imported = append(imported, path.Base(strings.Trim(i.Path.Value, `"`)))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(packages, x.Name) && !slices.Contains(used, x.Name) {
				used = append(used, x.Name)
			}
		}
		return true
	})
	slices.Sort(imported)
	slices.Sort(used)
	require.Equal(t, imported, used)
}

// packages are those that this file imports, for its guide and for its tests.
var packages = []string{"cmp", "context", "json", "fmt", "http", "slices", "strconv", "strings", "sync", "testing", "time",
	"authz", "risk", "connector", "connectortest", "check", "operation", "provider", "toolresult"}

// connector: notes.go

type Note struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

type GetNote struct {
	Note string `json:"note" jsonschema:"id of the note, such as n-17"`
}

type ListNotes struct {
	Title string `json:"title,omitempty" jsonschema:"the whole title; empty: all notes"`
}

type CreateNote struct {
	Title string `json:"title"`
}

const noteID = `{"properties":{"note":{"pattern":"^n-[0-9]{1,9}$"}}}`

var (
	getRoute    = connector.Route{Pattern: "GET /notes/{note}", Effect: connector.Reads, Touches: []string{"note:{note}"}}
	listRoute   = connector.Route{Pattern: "GET /notes", Effect: connector.Reads, WholeConnection: true, Params: []string{"limit", "offset", "title", "ref"}}
	createRoute = connector.Route{Pattern: "POST /notes", Effect: connector.Changes, WholeConnection: true}
)

func New(endpoint string) (connector.Connector, error) {
	spec := func(name, description string, routes ...connector.Route) connector.Spec {
		return connector.Spec{Name: name, Description: description, Sensitivity: risk.Internal, Routes: routes}
	}
	get := spec("get_note", "One note by its id.", getRoute)
	get.Input = json.RawMessage(noteID) // merged into the schema that follows from GetNote
	return connector.New(
		connector.Info{ID: "notes", Version: "1.0.0", Owner: "me", Endpoint: endpoint, Auth: connector.Auth{Mode: connector.AuthAPIKey}, Rules: rules},
		connector.Read(get, connector.ByArgs(func(in GetNote) authz.ResourceID { return authz.ResourceID{Type: "note", ID: in.Note} }), getNote),
		connector.List(connector.ListSpec{Spec: spec("list_notes", "Notes, oldest first.", listRoute), More: provider.Total("/total", "/notes")},
			connector.OnConnection, listNotes),
		connector.Write(connector.WriteSpec{Spec: spec("create_note", "Makes a note.", createRoute, listRoute),
			SideEffect: risk.CompensableWrite, Settle: time.Minute, // the zero Approval asks a person each time
			Idempotency: connector.Idempotency{Field: "/ref", Answer: "/notes/0/ref"},
		}, connector.OnConnection, connector.Reconcilable(sendNote, findNote)))
}

func getNote(ctx context.Context, c *connector.ReadCall, in GetNote) (*connector.Answer[Note], error) {
	var out Note
	if _, err := c.Get(ctx, "/notes/{note}", connector.Params{"note": in.Note}, &out); err != nil {
		return nil, err
	}
	return connector.Found(out), nil
}

type notes struct {
	Notes []Note
	Total int
}

func listNotes(ctx context.Context, c *connector.ReadCall, in ListNotes, page connector.PageRequest) (*connector.Page[Note], error) {
	offset, err := page.Offset()
	if err != nil {
		return nil, err
	}
	params := connector.Params{"limit": strconv.Itoa(page.Size), "offset": strconv.Itoa(offset)}
	if in.Title != "" {
		params["title"] = in.Title
	}
	var body notes
	if _, err := c.Get(ctx, "/notes", params, &body); err != nil {
		return nil, err
	}
	next, err := page.After(len(body.Notes), body.Total)
	if err != nil {
		return nil, err
	}
	return connector.NewPage(body.Notes, next), nil
}

// sendNote is run twice, to render the request and to send it: the same bytes.
func sendNote(ctx context.Context, c *connector.WriteCall, in CreateNote) (*connector.Receipt[Note], error) {
	var out Note
	_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /notes", Body: map[string]any{"title": in.Title, "ref": c.Operation().UUID()}, Out: &out})
	if err != nil {
		return nil, err
	}
	if out.ID == "" {
		return nil, toolresult.NewError(toolresult.ProviderError, "the receipt does not say which note it is for")
	}
	return connector.Applied(out, out.ID), nil
}

// findNote finds out what became of a note whose receipt was lost.
func findNote(ctx context.Context, c *connector.ReadCall, _ CreateNote, op operation.Operation) (*connector.Evidence[Note], error) {
	var body notes
	_, err := c.Get(ctx, "/notes", connector.Params{"ref": op.UUID(), "limit": "2"}, &body)
	switch {
	case err != nil:
		return nil, err
	case body.Total == 0 && len(body.Notes) == 0:
		return connector.DidNotHappen[Note](), nil // believed when Settle has passed
	case len(body.Notes) != 1:
		return nil, nil // cannot tell
	}
	return connector.Happened(body.Notes[0], body.Notes[0].ID), nil
}

// rules make a note that may not be seen one that is not there.
func rules(r *provider.Response) (provider.Ruling, bool) {
	return provider.Ruling{Code: toolresult.NotFound, Effect: toolresult.EffectNotApplied}, r.Status == 403
}

// test: notes_test.go

type note struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Ref   string `json:"ref"`
}

// double is the provider: two tenants, each with notes of its own.
type double struct {
	mu    sync.Mutex
	notes map[string][]note // by tenant, in the order that a listing has
	made  int
}

func newDouble() *double {
	d := &double{notes: map[string][]note{}}
	for range 6 {
		d.add(check.TenantA, note{Title: "hello"})
		d.add(check.TenantB, note{Title: "secret"})
	}
	return d
}

func (d *double) add(tenant string, n note) note {
	d.made++
	n.ID = fmt.Sprintf("n-%d", d.made)
	d.notes[tenant] = append(d.notes[tenant], n)
	return n
}

func (d *double) Token(tenant, user string) string { return "token-of-" + tenant + "-" + user }

func (d *double) Snapshot() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return json.Marshal(d.notes)
}

// Insert and Remove are another user of the provider, behind the connector's back.
func (d *double) Insert(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(tenant, note{Title: "hello"})
}

func (d *double) Remove(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes[tenant] = d.notes[tenant][1:]
}

// tenant says whose credential a request bears.
func (d *double) tenant(r *http.Request) string {
	for _, tenant := range []string{check.TenantA, check.TenantB} {
		for _, user := range []string{check.Alice, check.Bob, check.Carol, check.Dave} {
			if r.Header.Get("Authorization") == "Bearer "+d.Token(tenant, user) {
				return tenant
			}
		}
	}
	return ""
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tenant := d.tenant(r)
	id, one := strings.CutPrefix(r.URL.Path, "/notes/")
	i := slices.IndexFunc(d.notes[tenant], func(n note) bool { return n.ID == id })
	switch {
	case tenant == "":
		answer(w, 401, map[string]any{"message": "who are you?"})
	case one && i >= 0 && r.Method == "GET":
		answer(w, 200, d.notes[tenant][i])
	case r.URL.Path == "/notes" && r.Method == "GET":
		answer(w, 200, d.list(tenant, r))
	case r.URL.Path == "/notes" && r.Method == "POST":
		var n note
		if json.NewDecoder(r.Body).Decode(&n) != nil || n.Title == "" {
			answer(w, 422, map[string]any{"message": "a note needs a title"})
			return
		}
		answer(w, 201, d.add(tenant, n))
	default:
		answer(w, 404, map[string]any{"message": "not found"})
	}
}

func (d *double) list(tenant string, r *http.Request) map[string]any {
	q := r.URL.Query()
	all := slices.DeleteFunc(slices.Clone(d.notes[tenant]), func(n note) bool {
		return q.Has("ref") && q.Get("ref") != n.Ref || q.Has("title") && q.Get("title") != n.Title
	})
	limit, _ := strconv.Atoi(q.Get("limit"))
	offset, _ := strconv.Atoi(q.Get("offset"))
	from := min(offset, len(all))
	return map[string]any{"notes": all[from:min(from+cmp.Or(limit, 20), len(all))], "total": len(all)}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func TestContract(t *testing.T) {
	connectortest.Test(t, connectortest.Fixture{
		New:    func() (connector.Connector, error) { return New("notes") },
		Double: func(testing.TB) connectortest.Double { return newDouble() },
		Samples: []connectortest.Sample{
			{Capability: "get_note", Args: `{"note":"n-1"}`, Other: `{"note":"n-3"}`, Bob: `{"note":"n-2"}`, Denied: `{"note":"n-2"}`, Missing: `{"note":"n-404"}`},
			{Capability: "list_notes", Args: `{}`, Other: `{"title":"hello"}`, Empty: `{"title":"nobody's"}`, Items: 6},
			{Capability: "create_note", Args: `{"title":"hello"}`, Other: `{"title":"another"}`},
		},
	})
}
