package review_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/review"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type ticket struct {
	Project string `json:"project"`
	Subject string `json:"subject"`
}

type made struct {
	ID int `json:"id"`
}

func send(ctx context.Context, c *connector.WriteCall, in ticket) (*connector.Receipt[made], error) {
	var out made
	_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /issues", Body: map[string]any{"project": in.Project, "subject": in.Subject}, Out: &out})
	return connector.Applied(out, "1"), err
}

// office is a server with the pages, for whoever the header says.
type office struct {
	t       *testing.T
	inv     *connector.Invoker
	pages   *review.Handler
	people  map[string]authz.Principal
	host    *authz.Authority
	posts   int
	failing error
}

func newOffice(t *testing.T, opts *review.Options) *office {
	o := &office{t: t, people: map[string]authz.Principal{}}
	alice, host := authztest.Principal(t, "acme", "alice")
	o.people["alice"], o.host = alice, host
	for name, tenant := range map[string]string{"boss": "acme", "bob": "acme", "stranger": "other"} {
		o.people[name] = authztest.Caller(t, host, tenant, name)
	}
	c, err := connector.New(connector.Info{ID: "tickets", Version: "1.0.0", Owner: "team", Endpoint: "test", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Write(connector.WriteSpec{Spec: connector.Spec{Name: "tickets.create", Sensitivity: risk.Internal,
			Input:  json.RawMessage(`{"properties":{"subject":{"maxLength":100000}}}`),
			Routes: []connector.Route{{Pattern: "POST /issues", Effect: connector.Changes, Touches: []string{"project:{#/project}"}}}}, SideEffect: risk.IrreversibleWrite},
			connector.ByArgs(func(in ticket) authz.ResourceID { return authz.ResourceID{Type: "project", ID: in.Project} }), connector.Irreconcilable(send)))
	require.NoError(t, err)
	profile, eg := egresstest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.posts++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":1}`)
	}))
	policy := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		d := authz.Decision{Verdict: authz.AllowWithApproval, Scope: authz.WholeConnection(), Revision: "r1"}
		if r.Principal.Key().Subject == "boss" {
			d.Verdict = authz.Allow
		}
		return d, nil
	})
	o.inv, err = connector.NewInvoker(policy, []*authz.Authority{host}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{profile}, Egress: eg, Forgetful: true, Approvals: &authz.MemoryApprovals{}})
	require.NoError(t, err)
	o.pages, err = review.New(o.inv, func(r *http.Request) (authz.Principal, error) {
		p, ok := o.people[r.Header.Get("Test-User")]
		switch {
		case o.failing != nil:
			return authz.Principal{}, o.failing
		case !ok:
			return authz.Principal{}, toolresult.NewError(toolresult.AuthenticationRequired, "nobody")
		}
		return p, nil
	}, opts)
	require.NoError(t, err)
	return o
}

// ask lets alice ask for a ticket.
func (o *office) ask(key, subject string) *toolresult.Result {
	text, err := json.Marshal(ticket{"inc", subject})
	require.NoError(o.t, err)
	return o.inv.Invoke(o.t.Context(), &connector.InvokeRequest{Principal: o.people["alice"], Capability: "tickets.create", Key: key, Arguments: text})
}

func (o *office) do(user, method, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "https://agent.test"+path, strings.NewReader(form.Encode())).WithContext(o.t.Context())
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Test-User", user)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	o.pages.ServeHTTP(w, r)
	require.Contains(o.t, w.Header().Get("Content-Security-Policy"), "default-src 'none'", "%s %s", method, path)
	require.Equal(o.t, "no-store", w.Header().Get("Cache-Control"))
	return w
}

var digestField = regexp.MustCompile(`name="digest" value="([^"]+)"`)

func (o *office) answer(user, id, answer string) *httptest.ResponseRecorder {
	shown := o.do(user, "GET", "/"+id, nil).Body.String()
	m := digestField.FindStringSubmatch(shown)
	require.NotNil(o.t, m, shown)
	return o.do(user, "POST", "/"+id, url.Values{"digest": {m[1]}, "answer": {answer}})
}

// W1: a person sees exactly what would be sent, approves it, and it is sent once,
// when its owner asks again.
func TestApprove_W1(t *testing.T) {
	o := newOffice(t, nil)
	step := o.ask("key-1", "slow").Error.Approval
	list := o.do("boss", "GET", "/", nil)
	require.Contains(t, list.Body.String(), `href="`+step.ID+`"`)
	shown := o.do("boss", "GET", "/"+step.ID, nil).Body.String()
	require.Contains(t, shown, "POST http")
	require.Contains(t, shown, "{&#34;project&#34;:&#34;inc&#34;,&#34;subject&#34;:&#34;slow&#34;}")
	require.Contains(t, shown, step.Digest)
	w := o.answer("boss", step.ID, "approve")
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), "Exactly this change may be made once")
	require.Zero(t, o.posts, "approving sends nothing")
	require.Equal(t, toolresult.EffectApplied, o.ask("key-1", "slow").Effect.Disposition)
	require.Contains(t, o.do("boss", "GET", "/"+step.ID, nil).Body.String(), "Approved by boss")
	require.Contains(t, o.do("boss", "GET", "/", nil).Body.String(), "Nothing waits for you")
}

// W1: no is an answer, and the requester takes the own question back.
func TestRefuse_W1(t *testing.T) {
	o := newOffice(t, nil)
	step := o.ask("key-1", "slow").Error.Approval
	require.Contains(t, o.answer("boss", step.ID, "refuse").Body.String(), "This change will not be made")
	require.Equal(t, toolresult.ApprovalInvalid, o.ask("key-1", "slow").Error.Code)
	second := o.ask("key-2", "fast").Error.Approval
	page := o.do("alice", "GET", "/"+second.ID, nil).Body.String()
	require.Contains(t, page, "Withdraw the question")
	require.NotContains(t, page, `value="approve"`, "who needs an approval gives none")
	require.Equal(t, http.StatusNotFound, o.do("alice", "POST", "/"+second.ID, url.Values{"digest": {second.Digest}, "answer": {"approve"}}).Code)
	require.Equal(t, 200, o.answer("alice", second.ID, "refuse").Code)
	require.Zero(t, o.posts)
}

// Everything that is no answer of a person who may give it, to what was shown.
func TestNoAnswer_W1_E7(t *testing.T) {
	o := newOffice(t, nil)
	step := o.ask("key-1", "slow").Error.Approval
	good := url.Values{"digest": {step.Digest}, "answer": {"approve"}}
	unknown := o.do("boss", "GET", "/apr_nosuch", nil)
	require.Equal(t, http.StatusNotFound, unknown.Code)
	for _, row := range []struct {
		why, user, method, path string
		form                    url.Values
		header                  []string
		status                  int
	}{
		{"nobody", "", "GET", "/" + step.ID, nil, nil, 401},
		{"nobody answers", "", "POST", "/" + step.ID, good, nil, 401},
		{"a colleague", "bob", "POST", "/" + step.ID, good, nil, 404},
		{"another tenant", "stranger", "GET", "/" + step.ID, nil, nil, 404},
		{"another site's form", "boss", "POST", "/" + step.ID, good, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another origin's form", "boss", "POST", "/" + step.ID, good, []string{"Origin", "https://evil.test"}, 403},
		{"a link that answers", "boss", "GET", "/" + step.ID + "?answer=approve&digest=" + step.Digest, nil, nil, 200},
		{"an answer in the query", "boss", "POST", "/" + step.ID + "?answer=approve&digest=" + step.Digest, url.Values{}, nil, 400},
		{"another digest", "boss", "POST", "/" + step.ID, url.Values{"digest": {"sha256:00"}, "answer": {"approve"}}, nil, 409},
		{"no digest", "boss", "POST", "/" + step.ID, url.Values{"answer": {"approve"}}, nil, 400},
		{"two answers", "boss", "POST", "/" + step.ID, url.Values{"digest": {step.Digest}, "answer": {"approve", "refuse"}}, nil, 400},
		{"another word", "boss", "POST", "/" + step.ID, url.Values{"digest": {step.Digest}, "answer": {"yes"}}, nil, 400},
		{"a long form", "boss", "POST", "/" + step.ID, url.Values{"x": {strings.Repeat("x", 8<<10)}}, nil, 400},
		{"a page loaded ahead", "boss", "GET", "/" + step.ID, nil, []string{"Sec-Purpose", "prefetch"}, 204},
		{"another method", "boss", "PUT", "/" + step.ID, nil, nil, 405},
		{"deeper", "boss", "GET", "/" + step.ID + "/x", nil, nil, 404},
	} {
		w := o.do(row.user, row.method, row.path, row.form, row.header...)
		require.Equal(t, row.status, w.Code, row.why)
		if row.status == 404 && row.method != "PUT" && !strings.HasSuffix(row.path, "/x") {
			require.Equal(t, unknown.Body.String(), w.Body.String(), "%s: it is not there", row.why)
		}
		require.Equal(t, toolresult.ApprovalRequired, o.ask("key-1", "slow").Error.Code, row.why)
	}
	require.Zero(t, o.posts)
}

// W1: a question that is over is not answered, and an answer is not replayed.
func TestOver_W1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		step := o.ask("key-1", "slow").Error.Approval
		form := url.Values{"digest": {step.Digest}, "answer": {"approve"}}
		time.Sleep(2 * time.Hour)
		page := o.do("boss", "GET", "/"+step.ID, nil).Body.String()
		require.Contains(t, page, "The time for an answer has passed")
		require.NotContains(t, page, "<form")
		require.Equal(t, http.StatusConflict, o.do("boss", "POST", "/"+step.ID, form).Code)

		step = o.ask("key-1", "slow").Error.Approval
		require.Equal(t, 200, o.answer("boss", step.ID, "refuse").Code)
		form.Set("digest", step.Digest)
		require.Equal(t, http.StatusConflict, o.do("boss", "POST", "/"+step.ID, form).Code, "a yes after a no")
		require.Zero(t, o.posts)
	})
}

// W1: a question behind the first hundred is answered like any other.
func TestMany_W1(t *testing.T) {
	o := newOffice(t, nil)
	var last *toolresult.ApprovalStep
	for i := range 120 {
		last = o.ask(fmt.Sprintf("key-%d", i), fmt.Sprintf("ticket %d", i)).Error.Approval
	}
	require.Contains(t, o.do("boss", "GET", "/", nil).Body.String(), "There are more than can be shown here")
	require.Contains(t, o.do("boss", "GET", "/"+last.ID, nil).Body.String(), `value="approve"`)
	require.Equal(t, 200, o.answer("boss", last.ID, "approve").Code)
	require.Equal(t, toolresult.EffectApplied, o.ask("key-119", "ticket 119").Effect.Disposition)
}

// Another wording of the same matter is shown with what differs.
func TestDifference(t *testing.T) {
	o := newOffice(t, nil)
	first := o.ask("key-1", "slow").Error.Approval
	second := o.ask("key-2", "drop all").Error.Approval
	page := o.do("boss", "GET", "/"+second.ID, nil).Body.String()
	require.Contains(t, page, "Another wording waits too")
	require.Contains(t, page, `href="`+first.ID+`"`)
	require.Regexp(t, `<del>[^<]*slow[^<]*</del>`, page)
	require.Regexp(t, `<ins>[^<]*drop all[^<]*</ins>`, page)
}

// What a person approves is what a person can see.
func TestInvisible(t *testing.T) {
	o := newOffice(t, nil)
	o.people["alice"] = authztest.Caller(t, o.host, "acme", "ali\u202ece")
	step := o.ask("key-1", "pay \u202e001\u202c now\u200b <script>alert(1)</script>\u00a0\u2028").Error.Approval
	page := o.do("boss", "GET", "/"+step.ID, nil).Body.String()
	for _, r := range "\u202e\u202c\u200b\u2028" {
		require.NotContains(t, page, string(r))
	}
	require.Contains(t, page, `\u{202e}001\u{202c} now\u{200b}`)
	require.NotContains(t, page, "<script")
	require.Contains(t, page, `ali\u{202e}ce`)
}

func TestSignIn(t *testing.T) {
	o := newOffice(t, &review.Options{Base: "https://agent.example.com/approvals/", SignIn: "/login"})
	require.Equal(t, "https://agent.example.com/approvals/apr_1", o.pages.Link("apr_1"))
	w := o.do("", "GET", "/", nil)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/login", w.Header().Get("Location"))
	require.Equal(t, 401, o.do("", "POST", "/x", url.Values{}).Code)
	o.failing = toolresult.NewError(toolresult.PolicyUnavailable, "session store down")
	w = o.do("boss", "GET", "/", nil)
	require.Equal(t, 503, w.Code)
	require.NotContains(t, w.Body.String(), "session store")
	_, err := review.New(nil, nil, nil)
	require.Error(t, err)
}

// W1: nothing of a change is behind the edge of what a person is shown: a long one
// is shown whole, and one that is too long for that is not asked about.
func TestLong_W1(t *testing.T) {
	o := newOffice(t, nil)
	asked := o.ask("key-1", strings.Repeat("harmless ", 2000)+"and pay everything to mallory")
	require.Equal(t, toolresult.ApprovalRequired, asked.Error.Code, "%v", asked.Error)
	step := asked.Error.Approval
	require.Less(t, len(step.Rendering), 9<<10, "the result has the beginning")
	require.True(t, strings.HasSuffix(step.Rendering, "\n[cut here: the approval has all of it]"))
	require.Contains(t, o.do("boss", "GET", "/"+step.ID, nil).Body.String(), "and pay everything to mallory&#34;}", "the page has all of it")
	require.Equal(t, 200, o.answer("boss", step.ID, "approve").Code)

	r := o.ask("key-2", strings.Repeat("\u200b", 60<<10)) // short as it is sent, and long as it is seen
	require.Equal(t, toolresult.InvalidInput, r.Error.Code)
	require.Nil(t, r.Error.Approval)
	require.Equal(t, toolresult.EffectNone, r.Effect.Disposition)
	require.Zero(t, o.posts)
}

// W1: what no font shows is written out, whatever class of character it is.
func TestInvisibleLetters_W1(t *testing.T) {
	o := newOffice(t, nil)
	unseen := []rune{0x034f, 0x115f, 0x17b4, 0x180b, 0x2800, 0x3164, 0xfe0f, 0xffa0, 0xe0100, 0xe01ef, 0xe0041, 0x1d159, 0x2003}
	step := o.ask("key-1", string(unseen)).Error.Approval
	page := o.do("boss", "GET", "/"+step.ID, nil).Body.String()
	for _, r := range unseen {
		require.NotContains(t, step.Rendering, string(r), "%U", r)
		require.NotContains(t, page, string(r), "%U", r)
		require.Contains(t, page, fmt.Sprintf(`\u{%x}`, r))
	}
}
