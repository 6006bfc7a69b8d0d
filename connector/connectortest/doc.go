// Package connectortest tells the author of a connector which of the SDK's
// promises it breaks: without an account at the provider, in about a second, one
// sentence for each promise, with the exchange that shows it.
//
// # From an empty folder to a green contract
//
// The next three sections are one small connector, its provider as a double, and
// its contract, which is green. Copy them, and change them into yours:
//
//		mkdir notes && cd notes && go mod init example.com/notes
//		go get github.com/drawbridge-sdk/drawbridge
//		(notes.go and notes_test.go, as below)
//		go mod tidy && go test -run TestContract
//
//	 1. Types: what a model may ask, and what comes out. Nothing else does.
//	 2. Routes: each request that you make, and which objects it touches. Where
//	    your objects have owners (projects, services), let the target name those.
//	 3. Functions. Return errors as they are: the SDK looks at what left and what
//	    came back. Info.Rules say what this provider's answers mean, if HTTP's
//	    statuses do not (package connector/provider/rules has many).
//	 4. The double. Answer as the provider's documentation says, failures
//	    included: 404 for what is not there, 403 or 404 for what is somebody
//	    else's, 401 for a credential that Token did not give.
//	 5. Samples: for each capability a call that works, and what the checks ask for.
//
// # The connector
//
//	// notes.go
//	package notes
//
//	import (
//		"context"
//		"encoding/json"
//		"strconv"
//		"time"
//
//		"github.com/drawbridge-sdk/drawbridge/authz"
//		"github.com/drawbridge-sdk/drawbridge/authz/risk"
//		"github.com/drawbridge-sdk/drawbridge/connector"
//		"github.com/drawbridge-sdk/drawbridge/connector/operation"
//		"github.com/drawbridge-sdk/drawbridge/connector/provider"
//		"github.com/drawbridge-sdk/drawbridge/toolresult"
//	)
//
//	type Note struct {
//		ID    string `json:"id"`
//		Title string `json:"title"`
//	}
//
//	type GetNote struct {
//		Note string `json:"note" jsonschema:"id of the note, such as n-17"`
//	}
//
//	type ListNotes struct {
//		Title string `json:"title,omitempty" jsonschema:"the whole title; empty: all notes"`
//	}
//
//	type CreateNote struct {
//		Title string `json:"title"`
//	}
//
//	const noteID = `{"properties":{"note":{"pattern":"^n-[0-9]{1,9}$"}}}`
//
//	var (
//		getRoute    = connector.Route{Pattern: "GET /notes/{note}", Effect: connector.Reads, Touches: []string{"note:{note}"}}
//		listRoute   = connector.Route{Pattern: "GET /notes", Effect: connector.Reads, WholeConnection: true, Params: []string{"limit", "offset", "title", "ref"}}
//		createRoute = connector.Route{Pattern: "POST /notes", Effect: connector.Changes, WholeConnection: true}
//	)
//
//	func New(endpoint string) (connector.Connector, error) {
//		spec := func(name, description string, routes ...connector.Route) connector.Spec {
//			return connector.Spec{Name: name, Description: description, Sensitivity: risk.Internal, Routes: routes}
//		}
//		get := spec("get_note", "One note by its id.", getRoute)
//		get.Input = json.RawMessage(noteID) // merged into the schema that follows from GetNote
//		return connector.New(
//			connector.Info{ID: "notes", Version: "1.0.0", Owner: "me", Endpoint: endpoint, Auth: connector.Auth{Mode: connector.AuthAPIKey}, Rules: rules},
//			connector.Read(get, connector.ByArgs(func(in GetNote) authz.ResourceID { return authz.ResourceID{Type: "note", ID: in.Note} }), getNote),
//			connector.List(connector.ListSpec{Spec: spec("list_notes", "Notes, oldest first.", listRoute), More: provider.Total("/total", "/notes")},
//				connector.OnConnection, listNotes),
//			connector.Write(connector.WriteSpec{Spec: spec("create_note", "Makes a note.", createRoute, listRoute),
//				SideEffect: risk.CompensableWrite, Settle: time.Minute, // the zero Approval asks a person each time
//				Idempotency: connector.Idempotency{Field: "/ref", Answer: "/notes/0/ref"},
//			}, connector.OnConnection, connector.Reconcilable(sendNote, findNote)))
//	}
//
//	func getNote(ctx context.Context, c *connector.ReadCall, in GetNote) (*connector.Answer[Note], error) {
//		var out Note
//		if _, err := c.Get(ctx, "/notes/{note}", connector.Params{"note": in.Note}, &out); err != nil {
//			return nil, err
//		}
//		return connector.Found(out), nil
//	}
//
//	type notes struct {
//		Notes []Note
//		Total int
//	}
//
//	func listNotes(ctx context.Context, c *connector.ReadCall, in ListNotes, page connector.PageRequest) (*connector.Page[Note], error) {
//		offset, err := page.Offset()
//		if err != nil {
//			return nil, err
//		}
//		params := connector.Params{"limit": strconv.Itoa(page.Size), "offset": strconv.Itoa(offset)}
//		if in.Title != "" {
//			params["title"] = in.Title
//		}
//		var body notes
//		if _, err := c.Get(ctx, "/notes", params, &body); err != nil {
//			return nil, err
//		}
//		next, err := page.After(len(body.Notes), body.Total)
//		if err != nil {
//			return nil, err
//		}
//		return connector.NewPage(body.Notes, next), nil
//	}
//
//	// sendNote is run twice, to render the request and to send it: the same bytes.
//	func sendNote(ctx context.Context, c *connector.WriteCall, in CreateNote) (*connector.Receipt[Note], error) {
//		var out Note
//		_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /notes", Body: map[string]any{"title": in.Title, "ref": c.Operation().UUID()}, Out: &out})
//		if err != nil {
//			return nil, err
//		}
//		if out.ID == "" {
//			return nil, toolresult.NewError(toolresult.ProviderError, "the receipt does not say which note it is for")
//		}
//		return connector.Applied(out, out.ID), nil
//	}
//
//	// findNote finds out what became of a note whose receipt was lost.
//	func findNote(ctx context.Context, c *connector.ReadCall, _ CreateNote, op operation.Operation) (*connector.Evidence[Note], error) {
//		var body notes
//		_, err := c.Get(ctx, "/notes", connector.Params{"ref": op.UUID(), "limit": "2"}, &body)
//		switch {
//		case err != nil:
//			return nil, err
//		case body.Total == 0 && len(body.Notes) == 0:
//			return connector.DidNotHappen[Note](), nil // believed when Settle has passed
//		case len(body.Notes) != 1:
//			return nil, nil // cannot tell
//		}
//		return connector.Happened(body.Notes[0], body.Notes[0].ID), nil
//	}
//
//	// rules make a note that may not be seen one that is not there.
//	func rules(r *provider.Response) (provider.Ruling, bool) {
//		return provider.Ruling{Code: toolresult.NotFound, Effect: toolresult.EffectNotApplied}, r.Status == 403
//	}
//
// An update has no room for a key: it sets a value of an object that has an id.
// Declare it Idempotency{Natural: true, Answer: "/id"}, where Answer is the place
// of the object's id in the look-up's answer; the look-up reads the object, and
// says Happened if it is in the state that was asked for. A provider that cannot
// be asked is connector.Irreconcilable.
//
// # The double and its contract
//
//	// notes_test.go
//	package notes
//
//	import (
//		"cmp"
//		"encoding/json"
//		"fmt"
//		"net/http"
//		"slices"
//		"strconv"
//		"strings"
//		"sync"
//		"testing"
//
//		"github.com/drawbridge-sdk/drawbridge/connector"
//		"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
//		"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
//	)
//
//	type note struct {
//		ID    string `json:"id"`
//		Title string `json:"title"`
//		Ref   string `json:"ref"`
//	}
//
//	// double is the provider: two tenants, each with notes of its own.
//	type double struct {
//		mu    sync.Mutex
//		notes map[string][]note // by tenant, in the order that a listing has
//		made  int
//	}
//
//	func newDouble() *double {
//		d := &double{notes: map[string][]note{}}
//		for range 6 {
//			d.add(check.TenantA, note{Title: "hello"})
//			d.add(check.TenantB, note{Title: "secret"})
//		}
//		return d
//	}
//
//	func (d *double) add(tenant string, n note) note {
//		d.made++
//		n.ID = fmt.Sprintf("n-%d", d.made)
//		d.notes[tenant] = append(d.notes[tenant], n)
//		return n
//	}
//
//	func (d *double) Token(tenant, user string) string { return "token-of-" + tenant + "-" + user }
//
//	func (d *double) Snapshot() ([]byte, error) {
//		d.mu.Lock()
//		defer d.mu.Unlock()
//		return json.Marshal(d.notes)
//	}
//
//	// Insert and Remove are another user of the provider, behind the connector's back.
//	func (d *double) Insert(tenant string) {
//		d.mu.Lock()
//		defer d.mu.Unlock()
//		d.add(tenant, note{Title: "hello"})
//	}
//
//	func (d *double) Remove(tenant string) {
//		d.mu.Lock()
//		defer d.mu.Unlock()
//		d.notes[tenant] = d.notes[tenant][1:]
//	}
//
//	// tenant says whose credential a request bears.
//	func (d *double) tenant(r *http.Request) string {
//		for _, tenant := range []string{check.TenantA, check.TenantB} {
//			for _, user := range []string{check.Alice, check.Bob, check.Carol, check.Dave} {
//				if r.Header.Get("Authorization") == "Bearer "+d.Token(tenant, user) {
//					return tenant
//				}
//			}
//		}
//		return ""
//	}
//
//	func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
//		d.mu.Lock()
//		defer d.mu.Unlock()
//		tenant := d.tenant(r)
//		id, one := strings.CutPrefix(r.URL.Path, "/notes/")
//		i := slices.IndexFunc(d.notes[tenant], func(n note) bool { return n.ID == id })
//		switch {
//		case tenant == "":
//			answer(w, 401, map[string]any{"message": "who are you?"})
//		case one && i >= 0 && r.Method == "GET":
//			answer(w, 200, d.notes[tenant][i])
//		case r.URL.Path == "/notes" && r.Method == "GET":
//			answer(w, 200, d.list(tenant, r))
//		case r.URL.Path == "/notes" && r.Method == "POST":
//			var n note
//			if json.NewDecoder(r.Body).Decode(&n) != nil || n.Title == "" {
//				answer(w, 422, map[string]any{"message": "a note needs a title"})
//				return
//			}
//			answer(w, 201, d.add(tenant, n))
//		default:
//			answer(w, 404, map[string]any{"message": "not found"})
//		}
//	}
//
//	func (d *double) list(tenant string, r *http.Request) map[string]any {
//		q := r.URL.Query()
//		all := slices.DeleteFunc(slices.Clone(d.notes[tenant]), func(n note) bool {
//			return q.Has("ref") && q.Get("ref") != n.Ref || q.Has("title") && q.Get("title") != n.Title
//		})
//		limit, _ := strconv.Atoi(q.Get("limit"))
//		offset, _ := strconv.Atoi(q.Get("offset"))
//		from := min(offset, len(all))
//		return map[string]any{"notes": all[from:min(from+cmp.Or(limit, 20), len(all))], "total": len(all)}
//	}
//
//	func answer(w http.ResponseWriter, status int, body any) {
//		w.Header().Set("Content-Type", "application/json")
//		w.WriteHeader(status)
//		_ = json.NewEncoder(w).Encode(body)
//	}
//
//	func TestContract(t *testing.T) {
//		connectortest.Test(t, connectortest.Fixture{
//			New:    func() (connector.Connector, error) { return New("notes") },
//			Double: func(testing.TB) connectortest.Double { return newDouble() },
//			Samples: []connectortest.Sample{
//				{Capability: "get_note", Args: `{"note":"n-1"}`, Other: `{"note":"n-3"}`, Bob: `{"note":"n-2"}`, Denied: `{"note":"n-2"}`, Missing: `{"note":"n-404"}`},
//				{Capability: "list_notes", Args: `{}`, Other: `{"title":"hello"}`, Empty: `{"title":"nobody's"}`, Items: 6},
//				{Capability: "create_note", Args: `{"title":"hello"}`, Other: `{"title":"another"}`},
//			},
//		})
//	}
//
// The double has two tenants: [check.TenantA] with Alice and Carol, and
// [check.TenantB] with Bob. Give each a few items, listings at least five. Token
// returns the credential of one of them, which the suite puts where
// Info.Auth.Scheme says; after "header:" and a name it is the header's whole
// value, prefix and all ("Token token=..."). Snapshot returns the whole state as
// JSON: it is how the suite knows what really happened. Insert and Remove make it
// a DoubleWithChanges; see package check for what else a double can say of itself
// (accounts, scopes, revocation).
//
// # When it is red
//
// First, "the ordinary call of X does not work": it is said once for each sample,
// with what the caller is told, the cause, and the exchanges. As long as one does
// not work, nearly everything else is inconclusive, and is not shown. Then, what
// inconclusive checks ask for (Sample.Other, Missing, Empty, Denied, Bob). Then the
// checks that fail: what was promised, what was seen, and the requests, numbered by
// session and request ("2.1" is the first request of the second session). In a
// transcript time is virtual.
//
// What the suite found in connectors that worked, so look there first: an argument
// that names something needs a pattern ("a/b" for a name is INVALID_INPUT, and not
// a request that egress refuses); provenance and errors quote no argument that the
// policy was not asked about; what may not be seen reads like what is not there,
// in code and in words (Info.Rules); a vendor's client may take an empty body for
// an answer, and its decoding errors are the provider's (toolresult.ProviderError).
//
// # A report to show
//
//	go test -run TestContract -connectortest.report=DIR
//
// writes DIR/<connector>/report.html, report.json and junit.xml; [ReportVariable]
// does so for a run over several packages. See package report.
//
// # Verdicts
//
// Only pass and not applicable are green. Not applicable follows from what the
// manifest declares and from probes; there is no switch to leave a check out. A
// check that could not look is inconclusive, which is red: a missing prerequisite
// is no success. A known failure gets a [Waiver], with a reason, an issue and a
// date; the report then says partial.
//
// # Where the provider is
//
// A double is the default. Every result names the mode that it was found in, and
// a contract that was only ever proven against a double is no more than that.
//
//	-connectortest.mode=replay     answers that [Record] kept (Fixture.Recording): has the shape changed?
//	-connectortest.mode=sandbox    the provider's test organisation (Fixture.Real), with the faults in front of it
//	-connectortest.mode=live       a real account, reads only, at most five requests a second;
//	                               needs CONNECTORTEST_LIVE=<id of the connector>
//
// In double and replay, time is virtual.
//
// [CompareDouble] holds the double against the real system. What it gives goes to
// testdata/double.json and Fixture.Compared, is shown in every report, is stale
// after 90 days, and after 180 core checks that pass are inconclusive: by then the
// double may be a story about a provider that is no more.
//
// # What is tested
//
// The connector on a host as an operator has it: the governed path, a policy, a
// broker of credentials, a ledger, audit. Fixture.Host puts an operator's own
// parts into it and Fixture.Through a gateway in front; the suite then tests
// those as well. [Checks] lists the promises. Which of them count is a frozen
// list ([Newest]); newer checks run, are shown, and do not count yet.
//
// A connector that receives webhooks says so in Fixture.Webhooks: its endpoint,
// and how the provider signs. Eight checks then deliver to it: without a
// signature, in other bytes, late, twice, out of order, without an end, for
// somebody else, and while a secret is replaced.
//
// The random walk combines changes, repetitions, failures and restarts. Its seeds
// are fixed; what it finds is shrunk to the steps that matter, and is named with
// its seed.
//
// Package fault has the faults, for tests of one's own.
//
// # What it does not do
//
// It cannot know what the provider does: whether it honours an idempotency key,
// only mode sandbox can show. It does not look for secrets in compressed text, nor
// in what a connector writes to a log that is not its call's. It does not measure speed. A vendor's client that
// takes no *http.Client cannot be tested, and cannot be governed either.
package connectortest
