// Package pages_test opens the pages that people look at in a real browser.
package pages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/review"
	"github.com/drawbridge-sdk/drawbridge/sandbox/browser"
	"github.com/drawbridge-sdk/drawbridge/sandbox/browser/devtools"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type ticket struct {
	Subject string `json:"subject"`
}

type made struct {
	ID int `json:"id"`
}

// desk is a ticket system whose changes the boss approves on a page.
type desk struct {
	*httptest.Server
	inv   *connector.Invoker
	alice authz.Principal
	posts int
}

func newDesk(t *testing.T) *desk {
	d := &desk{}
	var host *authz.Authority
	d.alice, host = authztest.Principal(t, "acme", "alice")
	boss := authztest.Caller(t, host, "acme", "boss")
	send := func(ctx context.Context, c *connector.WriteCall, in ticket) (*connector.Receipt[made], error) {
		var out made
		_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /issues", Body: map[string]any{"subject": in.Subject}, Out: &out})
		return connector.Applied(out, "1"), err
	}
	c, err := connector.New(connector.Info{ID: "tickets", Version: "1.0.0", Owner: "team", Endpoint: "test", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Write(connector.WriteSpec{Spec: connector.Spec{Name: "tickets.create", Sensitivity: risk.Internal,
			Routes: []connector.Route{{Pattern: "POST /issues", Effect: connector.Changes, WholeConnection: true}}}, SideEffect: risk.IrreversibleWrite},
			connector.OnConnection[ticket], connector.Irreconcilable(send)))
	require.NoError(t, err)
	profile, eg := egresstest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.posts++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":1}`)
	}))
	policy := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		v := authz.AllowWithApproval
		if r.Principal.Key().Subject == "boss" {
			v = authz.Allow
		}
		return authz.Decision{Verdict: v, Scope: authz.WholeConnection(), Revision: "r1"}, nil
	})
	d.inv, err = connector.NewInvoker(policy, []*authz.Authority{host}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{profile}, Egress: eg, Forgetful: true, Approvals: &authz.MemoryApprovals{}, ApprovalLife: time.Hour})
	require.NoError(t, err)
	pages, err := review.New(d.inv, func(*http.Request) (authz.Principal, error) { return boss, nil }, nil)
	require.NoError(t, err)
	d.Server = httptest.NewServer(http.StripPrefix("/approvals", pages))
	t.Cleanup(d.Close)
	return d
}

func (d *desk) ask(t *testing.T, key, subject string) *toolresult.Result {
	text, err := json.Marshal(ticket{subject})
	require.NoError(t, err)
	return d.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: d.alice, Capability: "tickets.create", Key: key, Arguments: text})
}

func start(t *testing.T, opts devtools.Options) *devtools.Browser {
	if _, err := exec.LookPath("chromium-headless-shell"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no chromium: .ci/run installs one")
		}
		t.Skip("no chromium-headless-shell in PATH")
	}
	opts.NoSandbox, opts.Hosts = os.Getuid() == 0, []string{"127.0.0.1"}
	b, err := devtools.Start(t.Context(), &opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// click presses a button of a question's page, and reads what became of it from
// the store, as a person's click would.
func (d *desk) click(t *testing.T, b *devtools.Browser, id, button string) (browser.Outcome, error) {
	address := d.URL + "/approvals/" + id
	tab, err := b.Open(t.Context(), address)
	require.NoError(t, err)
	defer tab.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return browser.Do(ctx, tab, &browser.Change{
		URL: address, Checks: []browser.Check{{At: browser.Named("heading", "Approve this change?"), Is: "Approve this change?"}},
		Submit: browser.Named("button", button), Action: "/approvals/" + id, Own: []string{"digest"},
	}, &browser.Hooks{
		Commit: func(context.Context) error { return nil },
		Confirm: func(ctx context.Context) (browser.Outcome, error) {
			a, err := d.inv.Approval(ctx, d.alice, id)
			if err != nil || !a.Answered() {
				return browser.Unknown, err
			}
			return browser.Applied, nil
		},
		Every: 50 * time.Millisecond,
	})
}

// W1: clicked through in a browser: approve, refuse, and what is over.
func TestApprovalPages_W1(t *testing.T) {
	d, b := newDesk(t), start(t, devtools.Options{})
	step := d.ask(t, "key-1", "slow").Error.Approval
	o, err := d.click(t, b, step.ID, "Approve this change")
	require.NoError(t, err)
	require.Equal(t, browser.Applied, o)
	require.Zero(t, d.posts, "approving sends nothing")
	require.Equal(t, toolresult.EffectApplied, d.ask(t, "key-1", "slow").Effect.Disposition)
	require.Equal(t, 1, d.posts)

	_, err = d.click(t, b, step.ID, "Approve this change")
	var not *browser.NotAsDeclared
	require.ErrorAs(t, err, &not, "an answered question has no such button")
	require.Equal(t, browser.SubmitMissing, not.Reason)

	step = d.ask(t, "key-2", "drop").Error.Approval
	o, err = d.click(t, b, step.ID, "Refuse")
	require.NoError(t, err)
	require.Equal(t, browser.Applied, o)
	require.Equal(t, toolresult.ApprovalInvalid, d.ask(t, "key-2", "drop").Error.Code)
	require.Equal(t, 1, d.posts)
}

// The pages fit a phone and a desktop, in light and dark: nothing is wider than
// the window, and the two colours differ.
func TestPagesFit(t *testing.T) {
	d := newDesk(t)
	step := d.ask(t, "key-1", "a subject that is rather long, for it has to be broken into several lines on a phone, and-one-word-that-cannot-be-broken-anywhere-at-all-unless-it-is-said").Error.Approval
	for _, path := range []string{"/approvals/", "/approvals/" + step.ID, "/approvals/apr_nosuch"} {
		seen := map[bool]string{}
		for _, dark := range []bool{false, true} {
			for _, width := range []int{360, 1280} {
				b := start(t, devtools.Options{Width: width, Height: 800, Dark: dark})
				tab, err := b.Open(t.Context(), d.URL+path)
				require.NoError(t, err)
				var page struct {
					Wide, Lang, Title, Colour string
					Scripts, Labels           int
				}
				require.NoError(t, tab.Evaluate(t.Context(), `() => ({ Wide: document.documentElement.scrollWidth > innerWidth ? "wide" : "", Lang: document.documentElement.lang, Title: document.title,
					Colour: getComputedStyle(document.body).backgroundColor, Scripts: document.scripts.length, Labels: document.querySelectorAll("main h1").length })`, nil, &page))
				require.Empty(t, page.Wide, "%s at %d", path, width)
				require.Equal(t, "en", page.Lang)
				require.NotEmpty(t, page.Title)
				require.Zero(t, page.Scripts)
				require.Equal(t, 1, page.Labels)
				seen[dark] = page.Colour
				shot, err := tab.Screenshot(t.Context())
				require.NoError(t, err)
				_, err = png.DecodeConfig(bytes.NewReader(shot))
				require.NoError(t, err)
				if dir := os.Getenv("DRAWBRIDGE_SHOTS"); dir != "" { // for people to look at
					require.NoError(t, os.WriteFile(dir+"/"+map[bool]string{false: "light", true: "dark"}[dark]+"-"+map[bool]string{true: "phone", false: "desk"}[width < 500]+"-"+step.ID[:6]+map[string]string{"/approvals/": "list", "/approvals/apr_nosuch": "none"}[path]+".png", shot, 0o600))
				}
				tab.Close()
				require.NoError(t, b.Close())
			}
		}
		require.NotEqual(t, seen[false], seen[true], "light and dark differ")
	}
}
