package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

func told(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "evidence.html")
	require.NoError(t, run(t.Context(), append([]string{"-page", file}, args...), &out), out.String())
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, want := range []string{"<strong>INC-4821</strong> was created once", "cause_needs_more", "rollout complete", "runbook_owner"} {
		require.Contains(t, string(page), want)
	}
	require.NotContains(t, string(page), "<script")
	out.Write(page) // nothing of the other tenant is there either
	for _, leak := range []string{alr.Canary, "7.77", alr.TicketKey, "readertoken", "tok_secret"} {
		require.NotContains(t, out.String(), leak)
	}
	require.Contains(t, out.String(), "INC-4821, created once")
	require.Contains(t, out.String(), "APPROVAL_REQUIRED")
	require.Contains(t, out.String(), "PERMISSION_DENIED")
	// X2: the draft that claims a cause is refused, the other one stands.
	require.Contains(t, out.String(), `refused: cause_needs_more: conclusion 1: "exhausted" claims a cause`)
	require.Contains(t, out.String(), "refused: gaps_are_told: unknown: runbook_owner was not verified")
	require.Contains(t, out.String(), "P95 was 0.21 s, passed one second at 02:37:30Z and reached 2.1 s.")
	return out.String()
}

func TestStory_X1(t *testing.T) {
	text := told(t)
	for _, want := range []string{"OUTCOME_UNKNOWN", "missing [remaining_pages]", "CURSOR_INVALID", "CONFLICT", "requests that left for a provider: 0", "tickets in the ticket system: 1", "recorded before it was sent"} {
		require.Contains(t, text, want)
	}
}

// The same connectors against real servers, with an nginx that loses the receipt
// of the ticket.
func TestStoryReal_X1(t *testing.T) {
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

// crashed is set in the process that is killed: see TestKilled_W4_X1.
const crashed = "INCIDENT_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(crashed); args != "" {
		if err := run(context.Background(), strings.Fields(args), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The process is killed after the ticket system did the work and before it
// answered. The next run, over the same state, finds the ticket by its key and
// creates no other.
func TestKilled_W4_X1(t *testing.T) {
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
	args := "-state " + t.TempDir() + " -tickets " + way.URL
	first := exec.Command(os.Args[0])
	first.Env = append(os.Environ(), crashed+"="+args)
	require.NoError(t, first.Start())
	<-posted
	require.NoError(t, first.Process.Kill()) // SIGKILL, to the process that was started here
	require.Error(t, first.Wait())
	close(killed)
	require.Equal(t, 1, redmine.Issues())

	text := told(t, strings.Fields(args)...)
	require.Contains(t, text, "create_incident_ticket, key "+alr.OperationKey+": dispatched")
	require.Contains(t, text, "1 of 1 settled")
	require.Equal(t, 1, redmine.Issues(), "one ticket, whatever happened")
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"serve"}, {"serve", "-as", "alice"}, {"serve", "-as", "other/alice", "-stdio"}, {"serve", "-as", "acme/alice"}, {"tell"}, {"-nosuch"}} {
		require.Error(t, run(t.Context(), args, &bytes.Buffer{}), args)
	}
}
