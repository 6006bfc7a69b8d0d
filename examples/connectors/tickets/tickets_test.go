package tickets_test

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/tickets"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host/hosttest"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var inc = authz.ResourceID{Type: "project", ID: "inc"}

func open(t testing.TB, s host.System, policy authz.Policy) *hosttest.World {
	t.Helper()
	c, err := tickets.New("tickets", nil)
	require.NoError(t, err)
	s.Endpoint, s.Connector, s.Header = "tickets", "tickets", "X-Redmine-API-Key"
	if s.Key == "" {
		s.Key = alr.TicketKey
	}
	return hosttest.Open(t, policy, []connector.Connector{c}, s)
}

func embedded(t testing.TB) (*providers.Redmine, *hosttest.World) {
	r := providers.NewRedmine(nil)
	return r, open(t, host.System{Provider: r}, authztest.Allow(inc))
}

const (
	args   = `{"project":"inc","subject":"order-service: P95 2.1 s since 02:37Z","description":"Callers of payment time out."}`
	reword = `{"project":"inc","subject":"order-service is slow"}`
	posts  = "/issues.json"
)

// onRedmine runs a test on the embedded Redmine and on a real one.
func onRedmine(t *testing.T, test func(t *testing.T, w *hosttest.World)) {
	t.Run("embedded", func(t *testing.T) { _, w := embedded(t); test(t, w) })
	t.Run("Redmine", func(t *testing.T) {
		test(t, open(t, host.System{URL: peers.Redmine(t)}, authztest.Allow(inc)))
	})
}

func TestCreateGetAndSearch_W2(t *testing.T) {
	onRedmine(t, func(t *testing.T, w *hosttest.World) {
		r := w.Write("create_incident_ticket", alr.OperationKey, args)
		made := hosttest.Data[tickets.Ticket](t, r)
		require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition)
		require.Equal(t, "INC-4821", made.Name)
		require.Equal(t, alr.Ticket, made.ID)
		require.Equal(t, "4821", r.Provenance.Object)

		r = w.Call("get_ticket", `{"ticket":"INC-4821"}`)
		got := hosttest.Data[tickets.Ticket](t, r)
		require.Equal(t, toolresult.MeaningComplete, r.Meaning())
		require.Equal(t, "Callers of payment time out.", got.Description)
		require.Equal(t, "High", got.Priority)
		require.NotContains(t, string(r.Data), alr.OperationKey, "a custom field is nobody's output")

		for i := range 4 {
			w.Write("create_incident_ticket", fmt.Sprint("another-operation-", i), fmt.Sprintf(`{"project":"inc","subject":"ticket %d"}`, i))
		}
		r = w.Call("search_tickets", `{"project":"inc","page_size":2}`)
		require.Equal(t, toolresult.StatusPartial, r.Status)
		require.Equal(t, []toolresult.Gap{toolresult.GapRemainingPages}, r.Coverage.Missing)
		pages, last := hosttest.Pages[tickets.Ticket](t, w, "search_tickets", `{"project":"inc","page_size":2}`)
		require.Equal(t, toolresult.MeaningComplete, last.Meaning())
		require.Len(t, pages, 3)
		require.Equal(t, "INC-4825", pages[0][0].Name)
		require.Equal(t, "INC-4821", pages[2][0].Name)

		require.Len(t, hosttest.Data[[]tickets.Ticket](t, w.Call("search_tickets", `{"project":"inc","subject":"order-service"}`)), 1)
		none := w.Call("search_tickets", `{"project":"inc","status":"closed"}`)
		require.Equal(t, toolresult.MeaningNoMatch, none.Meaning())
	})
}

// What belongs to somebody else is refused before a request, and not there when
// it is asked for under a name of one's own.
func TestOtherTenant_A6_E7(t *testing.T) {
	p, w := embedded(t)
	for capability, args := range map[string]string{
		"search_tickets":         `{"project":"secret"}`,
		"get_ticket":             `{"ticket":"SECRET-4820"}`,
		"create_incident_ticket": `{"project":"secret","subject":"x"}`,
	} {
		r := w.Write(capability, alr.OperationKey, args)
		require.ErrorIs(t, r.Err(), toolresult.PermissionDenied, capability)
	}
	require.Zero(t, p.Requests())

	foreign, missing := w.Call("get_ticket", `{"ticket":"INC-4820"}`), w.Call("get_ticket", `{"ticket":"INC-9999"}`)
	require.ErrorIs(t, foreign.Err(), toolresult.NotFound)
	missing.CallID = foreign.CallID
	require.Equal(t, missing, foreign, "somebody else's ticket is like none")
}

// A missing right reads like invalid input on a create, and like nothing at all
// on a search without a project.
func TestAccountWithoutRights_E5(t *testing.T) {
	p := providers.NewRedmine(nil)
	w := open(t, host.System{Provider: p, Key: alr.TicketKeyNoRight}, authztest.Allow(inc))
	r := w.Write("create_incident_ticket", alr.OperationKey, args)
	require.ErrorIs(t, r.Err(), toolresult.NotFound)
	require.Zero(t, p.RequestsTo("POST", posts))
	require.ErrorIs(t, w.Call("search_tickets", `{"project":"inc"}`).Err(), toolresult.NotFound)
}

func TestProviderErrors_E3(t *testing.T) {
	p, w := embedded(t)
	page := func(body string) providers.Answer {
		return providers.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
	}
	for _, row := range []struct {
		why    string
		answer providers.Answer
		want   toolresult.ErrorCode
	}{
		{"a wrong key is the account's", providers.Answer{Status: 401}, toolresult.ConnectionRequired},
		{"forbidden, with an empty body", providers.Answer{Status: 403}, toolresult.NotFound},
		{"not there, with an empty body", providers.Answer{Status: 404}, toolresult.NotFound},
		{"a proxy's limit", providers.Answer{Status: 429, Header: http.Header{"Retry-After": {"7"}}, Body: "slow down"}, toolresult.RateLimited},
		{"an error page", providers.Answer{Status: 500, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<h1>Oops</h1>"}, toolresult.ProviderError},
		{"a page of HTML with 200", providers.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<h1>Log in</h1>"}, toolresult.ProviderError},
		{"another offset than was asked for", page(`{"issues":[],"total_count":0,"offset":25,"limit":25}`), toolresult.ProviderError},
		{"more than its own limit", page(`{"issues":[{"id":1},{"id":2}],"total_count":2,"offset":0,"limit":1}`), toolresult.ProviderError},
		{"an empty page before the end", page(`{"issues":[],"total_count":3,"offset":0,"limit":25}`), toolresult.ProviderError},
	} {
		p.AnswerNext(row.answer)
		r := w.Call("search_tickets", `{"project":"inc"}`)
		require.ErrorIs(t, r.Err(), row.want, row.why)
		require.Nil(t, r.Data, row.why)
	}
	p.AnswerNext(page(`{"issues":[{"id":9}],"total_count":1,"offset":0,"limit":25}`))
	require.ErrorIs(t, w.Call("get_ticket", `{"ticket":"INC-4821"}`).Err(), toolresult.ProviderError, "another ticket")
}

// The limit that comes back counts, and not the one that was asked for.
func TestClampedLimit_P1(t *testing.T) {
	p, w := embedded(t)
	p.AnswerNext(providers.Answer{Status: 200, Body: `{"issues":[{"id":1,"created_on":"2026-04-29T02:41:00Z","updated_on":"2026-04-29T02:41:00Z"}],"total_count":2,"offset":0,"limit":1}`})
	r := w.Call("search_tickets", `{"project":"inc","page_size":50}`)
	require.NotEmpty(t, r.NextCursor)
	require.Equal(t, toolresult.StatusPartial, r.Status)
	require.ErrorIs(t, w.Call("search_tickets", hosttest.With(t, `{"project":"inc","status":"any"}`, "cursor", r.NextCursor)).Err(), toolresult.CursorInvalid, "of another query")
}

func TestArguments_K5(t *testing.T) {
	p, w := embedded(t)
	for capability, args := range map[string]string{
		"search_tickets":         `{"project":"inc","subject":"a|b"}`,
		"get_ticket":             `{"ticket":"4821"}`,
		"create_incident_ticket": `{"project":"inc","subject":"  "}`,
	} {
		require.ErrorIs(t, w.Write(capability, alr.OperationKey, args).Err(), toolresult.InvalidInput, capability)
	}
	for _, key := range []string{"a|b-0123456789abcdef", "~0123456789abcdef", "*"} {
		require.ErrorIs(t, w.Write("create_incident_ticket", key, args).Err(), toolresult.InvalidInput, "a key that cannot be searched for")
	}
	require.Zero(t, p.Requests())
}

// The receipt is lost. The effect is unknown, a reworded repeat is refused, and
// the look-up finds the ticket; a repeat sends nothing.
func TestLostReceipt_R4_W3(t *testing.T) {
	p, w := embedded(t)
	p.LoseReceipt()
	r := w.Write("create_incident_ticket", alr.OperationKey, args)
	require.Equal(t, toolresult.MeaningUnknownEffect, r.Meaning())
	require.ErrorIs(t, r.Err(), toolresult.OutcomeUnknown)
	require.False(t, r.Error.Retryable)
	require.Equal(t, 1, p.Issues())
	require.ErrorIs(t, w.Write("create_incident_ticket", "a-new-key-0123456789", reword).Err(), toolresult.Conflict, "while it is unknown")

	found := w.Lookup(r.Effect.OperationID)
	require.Equal(t, r.Effect.OperationID, found.Effect.OperationID)
	settled(t, w, found, func() int { return p.RequestsTo("POST", posts) })
	require.Equal(t, 1, p.Issues())
}

// settled holds that an operation was found, and that repeats send nothing.
func settled(t *testing.T, w *hosttest.World, found *toolresult.Result, sent func() int) {
	t.Helper()
	require.Equal(t, toolresult.EffectApplied, found.Effect.Disposition, found.Err())
	require.Equal(t, "INC-4821", hosttest.Data[tickets.Ticket](t, found).Name)
	again := w.Write("create_incident_ticket", alr.OperationKey, args)
	require.Equal(t, found.Effect, again.Effect)
	require.JSONEq(t, string(found.Data), string(again.Data))
	require.ErrorIs(t, w.Write("create_incident_ticket", alr.OperationKey, reword).Err(), toolresult.Conflict, "one key is one payload")
	require.Equal(t, 1, sent(), "nothing is sent twice")
}

// A gateway gives up on a real Redmine, which goes on and creates the ticket.
func TestLostReceiptOfRedmine_R4_W3(t *testing.T) {
	nginx := peers.Nginx(t, peers.Redmine(t))
	lost, err := url.Parse(nginx + "/lost-receipt")
	require.NoError(t, err)
	plain, err := url.Parse(nginx + "/plain")
	require.NoError(t, err)
	var posted atomic.Int32
	way := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		if r.In.Method == http.MethodPost {
			posted.Add(1)
			r.SetURL(lost)
			return
		}
		r.SetURL(plain)
	}}
	w := open(t, host.System{Provider: way}, authztest.Allow(inc))
	r := w.Write("create_incident_ticket", alr.OperationKey, args)
	for i := 0; r.Meaning() == toolresult.MeaningUnknownEffect && i < 1000; i++ { // until Redmine is done
		require.ErrorIs(t, w.Write("create_incident_ticket", "a-new-key-0123456789", reword).Err(), toolresult.Conflict)
		r = w.Lookup(r.Effect.OperationID)
	}
	settled(t, w, r, func() int { return int(posted.Load()) })
	require.Len(t, hosttest.Data[[]tickets.Ticket](t, w.Call("search_tickets", `{"project":"inc"}`)), 1)
}

// Not finding it proves nothing before deadline and settle time have passed.
func TestAbsence_W3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := embedded(t)
		p.AnswerNext(providers.Answer{Status: 200, Body: "{}"}) // the project, in the run that renders
		p.AnswerNext(providers.Answer{Status: 200, Body: "{}"}) // and in the one that sends
		p.AnswerNext(providers.Answer{Status: 504})             // the create, which has no effect
		r := w.Write("create_incident_ticket", alr.OperationKey, args)
		require.Equal(t, toolresult.MeaningUnknownEffect, r.Meaning())
		require.Equal(t, toolresult.MeaningUnknownEffect, w.Lookup(r.Effect.OperationID).Meaning())
		time.Sleep(3 * time.Minute)
		gone := w.Lookup(r.Effect.OperationID)
		require.Equal(t, toolresult.EffectNotApplied, gone.Effect.Disposition)
		require.Zero(t, p.Issues())
	})
}

// Two tickets with one key, or a filter that was ignored: nothing is known.
func TestCannotTell_W5(t *testing.T) {
	const one = `{"id":4821,"custom_fields":[{"id":1,"value":"` + alr.OperationKey + `"}],"created_on":"2026-04-29T02:41:00Z","updated_on":"2026-04-29T02:41:00Z"}`
	for why, body := range map[string]string{
		"two tickets with the key":       `{"issues":[` + one + `,` + one + `],"total_count":2,"offset":0,"limit":2}`,
		"one of two that is here":        `{"issues":[` + one + `],"total_count":2,"offset":0,"limit":1}`,
		"the filter is ignored":          `{"issues":[` + strings.Replace(one, alr.OperationKey, "another", 1) + `],"total_count":1,"offset":0,"limit":2}`,
		"the answer is not the expected": `<h1>Log in</h1>`,
	} {
		p, w := embedded(t)
		p.LoseReceipt()
		r := w.Write("create_incident_ticket", alr.OperationKey, args)
		p.AnswerNext(providers.Answer{Status: 200, Body: body})
		require.Equal(t, toolresult.MeaningUnknownEffect, w.Lookup(r.Effect.OperationID).Meaning(), why)
		require.Equal(t, 1, p.RequestsTo("POST", posts), why)
	}
}

// What a create is told, and what is believed about it.
func TestCreateAnswers_E3(t *testing.T) {
	for _, row := range []struct {
		why    string
		answer providers.Answer
		want   toolresult.ErrorCode
		effect toolresult.Disposition
	}{
		{"422 is invalid input or a missing right", providers.Answer{Status: 422, Body: `{"errors":["Project cannot be blank"]}`}, toolresult.InvalidInput, toolresult.EffectNotApplied},
		{"a wrong key", providers.Answer{Status: 401}, toolresult.ConnectionRequired, toolresult.EffectNotApplied},
		{"a proxy's limit", providers.Answer{Status: 429, Header: http.Header{"Retry-After": {"1"}}}, toolresult.RateLimited, toolresult.EffectNotApplied},
		{"it failed, perhaps after it was done", providers.Answer{Status: 500}, toolresult.OutcomeUnknown, toolresult.EffectUnknown},
		{"a receipt that cannot be read", providers.Answer{Status: 201, Body: `{"issue":`}, toolresult.OutcomeUnknown, toolresult.EffectUnknown},
		{"a receipt for nothing", providers.Answer{Status: 201, Body: `{}`}, toolresult.OutcomeUnknown, toolresult.EffectUnknown},
	} {
		p, w := embedded(t)
		p.AnswerNext(providers.Answer{Status: 200, Body: "{}"})
		p.AnswerNext(providers.Answer{Status: 200, Body: "{}"})
		p.AnswerNext(row.answer)
		r := w.Write("create_incident_ticket", alr.OperationKey, args)
		require.ErrorIs(t, r.Err(), row.want, row.why)
		require.Equal(t, row.effect, r.Effect.Disposition, row.why)
		require.Zero(t, p.Issues(), row.why)
	}
}

// A policy may ask for a person, who sees what would be sent.
func TestApproval_W1(t *testing.T) {
	p := providers.NewRedmine(nil)
	w := open(t, host.System{Provider: p}, authztest.Policy(func(*authz.Request) (authz.Decision, error) {
		return authz.Decision{Verdict: authz.AllowWithApproval, Scope: authz.Only(inc), Revision: "r1"}, nil
	}))
	r := w.Write("create_incident_ticket", alr.OperationKey, args)
	require.ErrorIs(t, r.Err(), toolresult.ApprovalRequired)
	require.Contains(t, r.Error.Approval.Rendering, "P95 2.1 s since 02:37Z")
	require.Zero(t, p.RequestsTo("POST", posts))
}
