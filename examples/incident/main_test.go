package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

// self lets the sandbox start this test as its helper.
var self process.Self

// asProgram makes the test binary the program, for a process that is killed.
const asProgram = "INCIDENT_ARGS"

func TestMain(m *testing.M) {
	self = process.Init()
	args := os.Args[1:]
	if all := os.Getenv(asProgram); all != "" {
		args = strings.Fields(all)
	}
	if len(args) > 0 && (args[0] == oneCall || os.Getenv(asProgram) != "") {
		_ = os.Unsetenv(asProgram) // its own processes are told by their arguments
		if err := run(context.Background(), self, args, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// tellWith runs the story and returns what it said and the page.
func tellWith(t *testing.T, in io.Reader, args ...string) (said, page string) {
	t.Helper()
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "evidence.html")
	require.NoError(t, run(t.Context(), self, append([]string{"-page", file}, args...), in, &out), "%s", &out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(text), "<script")
	require.NotContains(t, out.String(), "\x1b", "no control sequences where there is no terminal")
	require.NotContains(t, out.String(), "\r")
	for _, leak := range []string{alr.Canary, alr.TicketKey, "readertoken", "tok_secret", deploymentsKey, clientSecret} {
		require.NotContains(t, out.String()+string(text), leak)
	}
	require.NotRegexp(t, `(access|refresh|code|grant)-[0-9A-Z]{16,}`, out.String()+string(text), "no token of the authorization server's")
	require.NotRegexp(t, `(^|[^0-9])7\.77([^0-9]|$)`, out.String()+string(text), "the other tenant's latency; 19:23:37.777 is a time")
	return out.String(), string(text)
}

// patience is long enough for a machine that is at something else, and so is the
// wait after a crash: tests wait side by side.
var patience = []string{"-ticket-timeout", "15s"}

// told runs the story, and holds it to what is the same with all systems.
func told(t *testing.T, args ...string) (said, page string) {
	t.Helper()
	said, page = tellWith(t, strings.NewReader(""), args...)
	for _, want := range []string{
		"INC-4821, created once.",
		// the skill asks, the profile gives, or not
		"refused: get_runbook: not in the profile", "refused: rollback_deployment: prohibited in the profile",
		"APPROVAL_REQUIRED", "approved by a script in the place of alice", "PERMISSION_DENIED",
		// X2: the draft that claims a cause is refused, the other one stands.
		`refused: "exhausted" claims a cause`, "search_runbooks lacks runbook_owner",
		"P95 was 0.21 s, passed one second at 02:37:30Z and reached 2.1 s.", "v1.42.0 was complete at 2026-04-29T02:35:00Z",
	} {
		require.Contains(t, said, want)
	}
	for _, want := range []string{"INC-4821 was created once", "cause_needs_more", "rollout complete", "runbook owner", "recorded before it was sent", "incident-capabilities-v42", "(no person looked)"} {
		require.Contains(t, page, want)
	}
	require.Equal(t, findingsOfTheCase, findingsOn(page))
	return said, page
}

// findingsOfTheCase are the same whatever systems were asked.
var findingsOfTheCase = []string{
	"hypothesis. The rollout may have caused timeouts of payment-client: it came shortly before. That is all that is known.",
	"observation. The rollout of v1.42.0 was complete at 2026-04-29T02:35:00Z.",
	"observation. P95 was 0.21 s, passed one second at 02:37:30Z and reached 2.1 s.",
	"observation. Lines of payment-client that timed out, in the page of the log that was read: 1.",
}

// findingsOn are the claims of a page, but for that of the sandbox, which not
// every machine can hold.
func findingsOn(page string) (out []string) {
	for _, m := range regexp.MustCompile(`<p><strong>((?:observation|hypothesis|conclusion)\.)</strong> (.*?)(?: It is wrong if.*)?</p>`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(m[2], "computed in a sandbox") {
			out = append(out, m[1]+" "+m[2])
		}
	}
	return out
}

// X1: the case from one command; W4: a process that is killed between the
// effect and its receipt loses nothing and doubles nothing; L5, L6: a skill is
// given what the profile gives; S2: a claim that the machine does not hold is
// refused and told.
func TestStory_X1_X2_W4_L5_L6_S2(t *testing.T) {
	t.Parallel()
	said, page := told(t, patience...)
	for _, want := range []string{
		"CONNECTION_REQUIRED", "connected: bob of acme, scope repo_deployment, active", "renewed: 1 time(s)", "tokens revoked at the provider (done), 0 left alive there",
		"missing [remaining_pages]", "CURSOR_INVALID", "requests that left for a provider: 0",
		"create_incident_ticket, key alert-ALR-20260429-017-incident,", "OUTCOME_UNKNOWN", "CONFLICT: the first ticket may be there",
		"Tickets in the ticket system: 1.",
	} {
		require.Contains(t, said, want)
	}
	require.Contains(t, page, "killed before it saw the answer")
	require.Contains(t, page, "bob by recovery", "the job acts for the owner")
	sandboxIsTold(t, said, page)
}

// sandboxIsTold holds either way: what the machine cannot hold is refused and
// told, and where it can, the program cannot read the host's key.
func sandboxIsTold(t *testing.T, said, page string) {
	if strings.Contains(said, "The story goes on without it") {
		require.Contains(t, said, "not known: sandboxed_analysis")
		require.Contains(t, page, "The analysis did not run")
		return
	}
	require.Contains(t, said, "P95: 24 of 31 samples, from 02:37:30Z to 02:49:00Z")
	require.Contains(t, said, "refused: the same program reading the host's key")
	require.Contains(t, page, "could not read the host's file <code>key</code>")
}

// The same connectors against real servers, with an nginx that loses the receipt
// of the ticket.
func TestStoryReal_X1_W3_W4(t *testing.T) {
	t.Parallel()
	nginx := peers.Nginx(t, peers.Redmine(t))
	lost, err := url.Parse(nginx + "/lost-receipt")
	require.NoError(t, err)
	plain, err := url.Parse(nginx + "/plain")
	require.NoError(t, err)
	var posts atomic.Int32
	way := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		if r.In.Method == http.MethodPost {
			posts.Add(1)
			r.SetURL(lost)
			return
		}
		r.SetURL(plain)
	}})
	defer way.Close()
	told(t, "-prometheus", peers.Prometheus(t), "-alertmanager", peers.Alertmanager(t), "-tickets", way.URL)
	require.Equal(t, int32(1), posts.Load(), "one request that creates, whatever became of its answer")
}

// The whole program is killed, after the ticket system did the work. The next
// run, over the same state, finds the ticket by its key and creates no other.
func TestKilled_W4_X1(t *testing.T) {
	t.Parallel()
	redmine := providers.NewRedmine(nil)
	posted := make(chan struct{}, 1)
	killed := make(chan struct{})
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			redmine.ServeHTTP(w, r)
			return
		}
		redmine.ServeHTTP(httptest.NewRecorder(), r)
		posted <- struct{}{}
		<-killed // no answer
	}))
	defer way.Close()
	args := "-ticket-timeout 15s -state " + t.TempDir() + " -tickets " + way.URL
	first := exec.Command(os.Args[0])
	first.Env = append(os.Environ(), asProgram+"=-page= "+args)
	require.NoError(t, first.Start())
	<-posted
	require.NoError(t, first.Process.Kill()) // SIGKILL, to the process that was started here
	require.Error(t, first.Wait())
	close(killed)
	require.Equal(t, 1, redmine.Issues())

	said, _ := tellWith(t, strings.NewReader(""), strings.Fields(args)...)
	require.Contains(t, said, "An earlier run left behind: create_incident_ticket")
	require.Contains(t, said, "nothing sent: settled")
	require.Contains(t, said, "An earlier run over the same state has created it")
	require.Contains(t, said, "INC-4821, created once.")
	require.Contains(t, said, "has ended with an earlier run")
	require.Equal(t, 1, redmine.Issues(), "one ticket, whatever happened")
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{
		{"serve"}, {"serve", "-as", "alice"}, {"serve", "-as", "other/alice", "-stdio"}, {"serve", "-as", "acme/alice"}, {"tell"}, {"-nosuch"},
		{"-approve", "nobody"}, {"-postgres", "host=nowhere"},
		{"-page", "/no/such/directory/page.html"}, {"-tickets", "::bad"},
	} {
		require.Error(t, run(t.Context(), self, args, strings.NewReader(""), &bytes.Buffer{}), args)
	}
	err := run(t.Context(), self, []string{"-postgres", "postgres://u:topsecret@127.0.0.1:1/x", "-state", t.TempDir()}, strings.NewReader(""), &bytes.Buffer{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "topsecret")
	require.NotContains(t, err.Error(), "already closed")
}
