package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func readTicket() connector.Capability {
	s := spec("tickets.get", getIssue)
	s.Input = json.RawMessage(`{"properties":{"ticket":{"maxLength":20}}}`)
	return connector.Read(s, connector.ByArgs(func(in GetTicket) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: in.Ticket} }), getTicket)
}

func listTickets() connector.Capability {
	return connector.List(connector.ListSpec{Spec: spec("tickets.search", listIssues), More: provider.Total("/total_count", "/issues")},
		connector.OnConnection, searchTickets)
}

func TestRead_A5(t *testing.T) {
	w := newWorld(t, setup{handler: tickets, caps: []connector.Capability{readTicket(), listTickets()}})
	r := w.call("tickets.get", `{"ticket":"1"}`)
	require.Equal(t, toolresult.MeaningComplete, r.Meaning(), r.Err())
	require.JSONEq(t, `{"id":1,"subject":"s1","updated_on":""}`, string(r.Data))
	require.Equal(t, "tickets", r.Provenance.Service)
	require.Equal(t, "req-1", r.Provenance.RequestID)
	require.False(t, r.Provenance.FetchedAt.IsZero())
	require.Len(t, w.events, 1)
	e := w.events[0]
	require.Equal(t, []authz.ResourceID{{Type: "ticket", ID: "1"}}, e.Target)
	require.Equal(t, "r1", e.Revision)
	require.Equal(t, toolresult.MeaningComplete, e.Result.Meaning)
}

func TestAnotherTenantsObject_A5_E7(t *testing.T) {
	w := newWorld(t, setup{handler: tickets, caps: []connector.Capability{readTicket()}})
	r := w.call("tickets.get", `{"ticket":"77"}`)
	require.Equal(t, toolresult.PermissionDenied, r.Error.Code)
	require.Equal(t, toolresult.MeaningFailed, r.Meaning())
	require.Zero(t, w.count(""), "nothing is sent")
	require.Equal(t, authz.Allow, w.events[0].Verdict) // of the policy: its scope does not cover the target
}

// A listing says what is missing, and its cursor is good for the same question
// of the same caller only.
func TestPages_P1_R5(t *testing.T) {
	w := newWorld(t, setup{handler: tickets, caps: []connector.Capability{listTickets()}})
	one := w.call("tickets.search", `{"page_size":2}`)
	require.Equal(t, toolresult.StatusPartial, one.Status, one.Err())
	require.Contains(t, one.Coverage.Missing, toolresult.GapRemainingPages)
	require.NotEmpty(t, one.NextCursor)

	two := w.call("tickets.search", `{"page_size":2,"cursor":"`+one.NextCursor+`"}`)
	require.NoError(t, two.Err())
	require.Empty(t, two.NextCursor)
	require.NotContains(t, two.Coverage.Missing, toolresult.GapRemainingPages)
	require.Equal(t, 1, w.count("GET /issues.json?limit=2&offset=2&project_id=inc"), w.requests)

	bob := authztest.Caller(t, w.host, "acme", "bob")
	for _, row := range []struct {
		why  string
		who  authz.Principal
		args string
	}{
		{"another question", w.alice, `{"subject":"x","cursor":"` + one.NextCursor + `"}`},
		{"another caller", bob, `{"cursor":"` + one.NextCursor + `"}`},
		{"edited", w.alice, `{"cursor":"` + one.NextCursor[:len(one.NextCursor)-2] + `AA"}`},
		{"made up", w.alice, `{"cursor":"2"}`},
	} {
		before := w.count("")
		r := w.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: row.who, Capability: "tickets.search", Arguments: json.RawMessage(row.args)})
		require.Equal(t, toolresult.CursorInvalid, r.Error.Code, row.why)
		require.Equal(t, before, w.count(""), row.why)
	}
}

// R6: a search that authorization narrowed says so, found something or not.
func TestNarrowedSearch_R6(t *testing.T) {
	for _, row := range []struct {
		why, body string
		policy    authztest.Policy
		missing   []toolresult.Gap
		meaning   toolresult.Meaning
	}{
		{"nothing found by one who may see everything", `{"issues":[],"total_count":0}`, func(*authz.Request) (authz.Decision, error) {
			return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r"}, nil
		}, nil, toolresult.MeaningNoMatch},
		{"nothing found by one who may see a part", `{"issues":[],"total_count":0}`, allowInc, []toolresult.Gap{toolresult.GapVisibilityLimited}, toolresult.MeaningGaps},
	} {
		search := func(ctx context.Context, c *connector.ReadCall, _ SearchTickets, page connector.PageRequest) (*connector.Page[Ticket], error) {
			var body struct{ Issues []Ticket }
			if _, err := c.Get(ctx, "/issues.json", connector.Params{"project_id": "inc"}, &body); err != nil {
				return nil, err
			}
			next, err := page.After(len(body.Issues), len(body.Issues))
			return connector.NewPage(body.Issues, next), err
		}
		w := newWorld(t, setup{policy: row.policy, handler: func(rw http.ResponseWriter, _ *http.Request) { rw.Write([]byte(row.body)) },
			caps: []connector.Capability{connector.List(connector.ListSpec{Spec: spec("tickets.search", listIssues), More: provider.Total("/total_count", "/issues")}, connector.OnConnection, search)}})
		r := w.call("tickets.search", `{}`)
		require.NoError(t, r.Err(), row.why)
		require.Equal(t, row.missing, r.Coverage.Missing, row.why)
		require.Equal(t, row.meaning, r.Meaning(), row.why)
	}
}

// Bad input is refused at the door: a named error, nothing sent.
func TestBadInput_K5_E1(t *testing.T) {
	w := newWorld(t, setup{handler: tickets, caps: []connector.Capability{readTicket(), listTickets()}})
	deep := strings.Repeat(`{"a":`, 80) + "1" + strings.Repeat("}", 80)
	for _, row := range []struct {
		why, capability, args string
		code                  toolresult.ErrorCode
		pointer               string
	}{
		{"unknown capability", "tickets.nosuch", `{}`, toolresult.CapabilityUnknown, ""},
		{"unknown argument", "tickets.get", `{"ticket":"1","tenant":"other"}`, toolresult.InvalidInput, "/tenant"},
		{"wrong type", "tickets.get", `{"ticket":1}`, toolresult.InvalidInput, "/ticket"},
		{"missing argument", "tickets.get", `{}`, toolresult.InvalidInput, ""},
		{"over-long string", "tickets.get", `{"ticket":"` + strings.Repeat("1", 30) + `"}`, toolresult.InvalidInput, "/ticket"},
		{"a whole number that a double cannot hold", "tickets.search", `{"page_size":9007199254740993}`, toolresult.InvalidInput, "/page_size"},
		{"a page that is too large", "tickets.search", `{"page_size":5000}`, toolresult.InvalidInput, "/page_size"},
		{"deep nesting", "tickets.get", `{"ticket":` + deep + `}`, toolresult.InvalidInput, ""},
		{"invalid UTF-8", "tickets.get", "{\"ticket\":\"\xff\"}", toolresult.InvalidInput, ""},
		{"NUL", "tickets.get", `{"ticket":"1\u0000"}`, toolresult.InvalidInput, "/ticket"},
		{"a case twin", "tickets.get", `{"ticket":"1","Ticket":"2"}`, toolresult.InvalidInput, ""},
		{"not an object", "tickets.get", `["1"]`, toolresult.InvalidInput, ""},
		{"half an object", "tickets.get", `{"ticket":`, toolresult.InvalidInput, ""},
		{"over 256 KiB", "tickets.get", `{"ticket":"` + strings.Repeat("1", 300<<10) + `"}`, toolresult.InvalidInput, ""},
	} {
		r := w.call(row.capability, row.args)
		require.Equal(t, toolresult.StatusError, r.Status, row.why)
		require.Equal(t, row.code, r.Error.Code, row.why)
		if row.pointer != "" {
			require.NotEmpty(t, r.Error.Problems, row.why)
			require.Equal(t, row.pointer, r.Error.Problems[0].Pointer, row.why)
		}
	}
	require.Zero(t, w.count(""), "nothing is sent")
}

// The steps close the door when whoever has to answer cannot.
func TestClosedDoors_A4_A5(t *testing.T) {
	down := authztest.Policy(func(*authz.Request) (authz.Decision, error) { return authz.Decision{}, errors.New("down") })
	w := newWorld(t, setup{handler: tickets, policy: down, caps: []connector.Capability{readTicket()}})
	require.Equal(t, toolresult.PolicyUnavailable, w.call("tickets.get", `{"ticket":"1"}`).Error.Code)
	_, err := w.inv.Visible(t.Context(), &connector.VisibleRequest{Principal: w.alice})
	require.ErrorIs(t, err, toolresult.PolicyUnavailable)

	w = newWorld(t, setup{handler: tickets, policy: authz.DenyAll{}, caps: []connector.Capability{readTicket()}})
	r := w.call("tickets.get", `{"ticket":"1"}`)
	require.Equal(t, toolresult.CapabilityUnknown, r.Error.Code, "what may not be seen is not there")
	require.Equal(t, w.call("tickets.nosuch", `{}`).Error.Error(), r.Error.Error())
	visible, err := w.inv.Visible(t.Context(), &connector.VisibleRequest{Principal: w.alice})
	require.NoError(t, err)
	require.Empty(t, visible)

	w = newWorld(t, setup{handler: tickets, caps: []connector.Capability{readTicket()}})
	stranger, _ := authztest.Principal(t, "acme", "alice")
	for _, who := range []authz.Principal{{}, stranger} {
		r := w.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: who, Capability: "tickets.get", Arguments: json.RawMessage(`{"ticket":"1"}`)})
		require.Equal(t, toolresult.AuthenticationRequired, r.Error.Code)
	}
	require.Equal(t, toolresult.AuthenticationRequired, w.inv.Invoke(t.Context(), nil).Error.Code)
	r = w.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: w.alice, Profile: "p", Capability: "tickets.get", Arguments: json.RawMessage(`{"ticket":"1"}`)})
	require.Equal(t, toolresult.PermissionDenied, r.Error.Code, "a profile that nobody can find narrows to nothing")
	require.Zero(t, w.count(""))
}

// What was granted is asked again before anything is delivered.
func TestRecheck_A8(t *testing.T) {
	for _, row := range []struct {
		why  string
		take func(w *world, p *authztest.Policy)
		code toolresult.ErrorCode
	}{
		{"the account was disconnected meanwhile", func(w *world, _ *authztest.Policy) { w.broker.disconnect() }, toolresult.ConnectionRequired},
		{"the right was taken away meanwhile", func(_ *world, p *authztest.Policy) {
			*p = func(*authz.Request) (authz.Decision, error) { return authz.Decision{}, nil }
		}, toolresult.PermissionDenied},
	} {
		policy := authztest.Policy(allowInc)
		var w *world
		w = newWorld(t, setup{policy: authztest.Policy(func(r *authz.Request) (authz.Decision, error) { return policy(r) }),
			handler: func(rw http.ResponseWriter, r *http.Request) { row.take(w, &policy); tickets(rw, r) }, caps: []connector.Capability{readTicket()}})
		r := w.call("tickets.get", `{"ticket":"1"}`)
		require.Equal(t, row.code, r.Error.Code, row.why)
		require.Nil(t, r.Data, row.why)
		require.Equal(t, 1, w.count(""), row.why)
	}
}

func TestVisibleHiddenExplain_A4(t *testing.T) {
	policy := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		if r.Action.Capability == "tickets.search" {
			return authz.Decision{Verdict: authz.Deny, Reason: "not on call"}, nil
		}
		return allowInc(r)
	})
	w := newWorld(t, setup{handler: tickets, policy: policy, caps: []connector.Capability{readTicket(), listTickets()}})
	visible, err := w.inv.Visible(t.Context(), &connector.VisibleRequest{Principal: w.alice})
	require.NoError(t, err)
	require.Len(t, visible, 1)
	require.Equal(t, "tickets.get", visible[0].Name)
	hidden, err := w.inv.Hidden(t.Context(), &connector.VisibleRequest{Principal: w.alice})
	require.NoError(t, err)
	require.Contains(t, hidden["tickets.search"].Reason, "not on call")

	steps := w.inv.Explain(t.Context(), &connector.InvokeRequest{Principal: w.alice, Capability: "tickets.get", Arguments: json.RawMessage(`{"ticket":"77"}`)})
	last := steps[len(steps)-1]
	require.Equal(t, "authorize", last.Name)
	require.Equal(t, toolresult.PermissionDenied, last.Code)
	require.Contains(t, last.Reason, "does not cover")
	require.Zero(t, w.count(""), "no byte leaves")
}

// The output policy: what is excluded never leaves, and the declared schema
// says so.
func TestExclude_K4(t *testing.T) {
	type note struct {
		Text    string `json:"text"`
		Private string `json:"private"`
	}
	read := func(ctx context.Context, c *connector.ReadCall, _ struct{}) (*connector.Answer[[]note], error) {
		_, err := c.Get(ctx, "/issues/{ticket}.json", connector.Params{"ticket": "1"}, nil)
		return connector.Found([]note{{"a", "b"}}), err
	}
	w := newWorld(t, setup{handler: tickets,
		info: connector.Info{ID: "notes", Version: "1", Owner: "o", Endpoint: "test", Auth: connector.Auth{Mode: connector.AuthAPIKey}, Exclude: []string{"/private"}},
		caps: []connector.Capability{connector.Read(spec("notes.get", getIssue), connector.ByArgs(func(struct{}) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: "1"} }), read)}})
	r := w.call("notes.get", `{}`)
	require.NoError(t, r.Err())
	require.JSONEq(t, `[{"text":"a"}]`, string(r.Data))
	visible, err := w.inv.Visible(t.Context(), &connector.VisibleRequest{Principal: w.alice})
	require.NoError(t, err)
	require.NotContains(t, string(visible[0].Output), "private")
}

// A connector's code may panic, exit or hang: the call ends with a result.
func TestRunaway(t *testing.T) {
	for _, row := range []struct {
		why  string
		f    func()
		code toolresult.ErrorCode
	}{
		{"panics", func() { panic("canary " + canary) }, toolresult.Internal},
		{"exits", func() { runtimeGoexit() }, toolresult.Internal},
	} {
		read := func(context.Context, *connector.ReadCall, GetTicket) (*connector.Answer[Ticket], error) {
			row.f()
			return nil, nil
		}
		w := newWorld(t, setup{handler: tickets, caps: []connector.Capability{connector.Read(spec("tickets.get", getIssue), connector.OnConnection, read)}})
		require.Equal(t, row.code, w.call("tickets.get", `{"ticket":"1"}`).Error.Code, row.why)
	}
}
