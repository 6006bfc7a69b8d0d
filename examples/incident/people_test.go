package main

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

// W1: a person is shown what would be sent, and a no sends nothing. L6: the page
// says so.
func TestAPersonSaysNo_W1_L6(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"", "yes please\n"} {
		said, page := tellWith(t, strings.NewReader(typed), "-approve", "ask")
		require.Contains(t, said, `| {"issue":{"project_id":"inc","subject":"ALR-20260429-017`)
		require.Contains(t, said, "alice, may this be sent? [y/N]")
		require.Contains(t, said, "refused: the ticket: a person said no (alice, at the terminal)")
		require.Contains(t, said, "the same ticket, asked for again: APPROVAL_INVALID")
		require.NotContains(t, said, "created once")
		require.Contains(t, page, "No ticket: a person said no.")
		require.NotContains(t, page, "INC-4821")
	}
}

func TestAPersonSaysYes_W1_W4(t *testing.T) {
	t.Parallel()
	said, page := tellWith(t, strings.NewReader("y\n"), append(patience, "-approve", "ask")...)
	require.Contains(t, said, "approved by alice, at the terminal")
	require.Contains(t, said, "other words under a new key: APPROVAL_REQUIRED", "a person is not asked for a demonstration")
	require.Contains(t, said, "INC-4821, created once.")
	require.NotContains(t, page, "no person looked")
}

// watched is what a program says, while it says it.
type watched struct {
	*io.PipeWriter
	seen bytes.Buffer
}

func (w *watched) Write(b []byte) (int, error) {
	w.seen.Write(b)
	return w.PipeWriter.Write(b)
}

// W1: the page shows the request byte for byte; the link signs in once; nobody
// else is let in, and another site's form is not an answer.
func TestThePage_W1(t *testing.T) {
	t.Parallel()
	r, pipe := io.Pipe()
	out := &watched{PipeWriter: pipe}
	links := make(chan string, 1)
	go func() {
		text, link := "", regexp.MustCompile(`http://127\.0\.0\.1:\d+/sign-in\?ticket=\w+`)
		b := make([]byte, 4096)
		for {
			n, err := r.Read(b)
			if text += string(b[:n]); link.MatchString(text) {
				links <- link.FindString(text)
				_, _ = io.Copy(io.Discard, r)
				return
			}
			if err != nil {
				return
			}
		}
	}()
	file := filepath.Join(t.TempDir(), "page.html")
	ended := make(chan error, 1)
	go func() {
		err := run(t.Context(), self, append(patience, "-approve", "page", "-page", file), strings.NewReader(""), out)
		_ = pipe.Close()
		ended <- err
	}()
	var link string
	select {
	case link = <-links:
	case err := <-ended:
		t.Fatalf("it ended without a page: %v\n%s", err, out.seen.String())
	}
	approveOn(t, link)
	require.NoError(t, <-ended)
	require.Contains(t, out.seen.String(), "approved by alice, on the approval page")
	require.Contains(t, out.seen.String(), "INC-4821, created once.")
}

func approveOn(t *testing.T, link string) {
	t.Helper()
	at, err := url.Parse(link)
	require.NoError(t, err)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	browser, stranger := &http.Client{Jar: jar, Transport: transport}, &http.Client{Transport: transport}
	landed := ""
	get := func(c *http.Client, url string) (int, string) {
		resp, err := c.Get(url)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		landed = resp.Request.URL.String()
		return resp.StatusCode, string(body)
	}
	status, _ := get(stranger, "http://"+at.Host+"/approvals/")
	require.Equal(t, http.StatusUnauthorized, status, "nobody is let in without the link")
	status, _ = get(stranger, "http://"+at.Host+"/sign-in?ticket=guess")
	require.Equal(t, http.StatusForbidden, status, "a guess is not the link")
	status, page := get(browser, link)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, html.UnescapeString(page), `"project_id":"inc","subject":"ALR-20260429-017`)
	action := landed
	status, _ = get(stranger, link)
	require.Equal(t, http.StatusForbidden, status, "the link signs in once")

	digest := regexp.MustCompile(`name="digest" value="([^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, digest)
	answer := func(origin, digest string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, action, strings.NewReader(url.Values{"answer": {"approve"}, "digest": {digest}}.Encode()))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", origin)
		resp, err := browser.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	require.Equal(t, http.StatusForbidden, answer("http://elsewhere.example.test", digest[1]), "another site's form")
	require.Equal(t, http.StatusConflict, answer("http://"+at.Host, "sha256:0"), "something else than was shown")
	require.Equal(t, http.StatusOK, answer("http://"+at.Host, digest[1]))
}

// S2: without the helper this machine holds less than the policy requires.
// Nothing is started, and the report says what is missing for it.
func TestASandboxThatDoesNotHold_S2_X1(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, run(t.Context(), process.Self{}, append(patience, "-approve", "script", "-page", file), strings.NewReader(""), &out), "%s", &out)
	require.Contains(t, out.String(), "refused: the analysis: this machine does not hold what the policy requires, so nothing was started")
	require.Contains(t, out.String(), "proc.tree", "it says what is not held")
	require.Contains(t, out.String(), "not known: sandboxed_analysis, the analysis did not run on this machine")
	require.NotContains(t, out.String(), "computed in a sandbox")
	require.Contains(t, out.String(), "INC-4821, created once.")
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(page), "The analysis did not run: this machine does not hold")
}

// E5: a system that is not there is a failure that is told, and nothing is
// claimed on it: the report that is left has gaps, and still holds.
func TestWithoutMetrics_E5_X2(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := run(t.Context(), self, append(patience, "-page=", "-prometheus", "http://127.0.0.1:1"), strings.NewReader(""), &out)
	require.EqualError(t, err, "not as it has to be: prometheus_query_range answers", "the report has no other fault")
	require.Contains(t, out.String(), "not known: provider_unavailable")
	require.Contains(t, out.String(), "refused: the analysis: there are no samples to look at")
	require.NotContains(t, out.String(), "hypothesis:")
	require.Contains(t, out.String(), "INC-4821, created once.")
}

// W2, W4: the same with PostgreSQL for the ledger, approvals and accounts, and
// once more over the same state: the receipt is there, and nothing is sent.
func TestPostgreSQL_W2_W4(t *testing.T) {
	t.Parallel()
	dsn := peers.PostgreSQL(t)
	redmine := providers.NewRedmine(nil)
	way, err := serveLoopback(redmine)
	require.NoError(t, err)
	defer way.Close()
	args := append(patience, "-postgres", dsn, "-state", t.TempDir(), "-tickets", way.url)
	said, _ := told(t, args...)
	require.Contains(t, said, "What the ledger (PostgreSQL) says")
	said, page := tellWith(t, strings.NewReader(""), args...)
	require.Contains(t, said, "An earlier run over the same state has created it")
	require.Contains(t, said, "There is nothing to send.")
	require.Contains(t, page, "INC-4821 was created once")
	require.Equal(t, 1, redmine.Issues())
}

// A terminal gets a line that is drawn again; NO_COLOR takes the colours; what a
// provider says cannot move the cursor.
func TestTheTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &printer{w: &out, live: true, colour: true}
	done := p.working("asking")
	p.line("meanwhile")
	done()
	require.Contains(t, out.String(), "\r\x1b[K")
	require.True(t, strings.HasSuffix(out.String(), "\r\x1b[K"), "the line goes away")
	require.Contains(t, p.paint(bad, "no"), "\x1b[31m")
	out.Reset()
	p.items("a log line \x1b]0;title\x07 and \u202eback")
	p.whole("POST /\x1b[2Jissues")
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\u202e")
	plain := &printer{w: &out, live: true}
	require.Equal(t, "no", plain.paint(bad, "no"), "NO_COLOR")
	require.False(t, newPrinter(&out).live, "a pipe is no terminal")
}

// M1: served to an MCP client of one's own, every system answers, and the
// profile narrows who works under it.
func TestServe_M1_L6(t *testing.T) {
	t.Parallel()
	f, err := parse(nil)
	require.NoError(t, err)
	w, err := open(t.Context(), f.real, f.where, false)
	require.NoError(t, err)
	defer w.Close()
	for user, want := range map[string]int{caller: 7, approver: 11} {
		who, err := w.Principal(user)
		require.NoError(t, err)
		all, err := w.Invoker.Visible(t.Context(), &connector.VisibleRequest{Principal: who, Profile: w.options().Profile(t.Context(), who)})
		require.NoError(t, err)
		require.Len(t, all, want, user)
		args, err := json.Marshal(rollouts().args)
		require.NoError(t, err)
		r := w.Invoker.Invoke(t.Context(), &connector.InvokeRequest{Principal: who, Capability: rollouts().tool, Arguments: args})
		require.NoError(t, r.Err(), "nobody could connect an account here")
	}
}

// The wire holds one answer back, and passes everything else on.
func TestWire(t *testing.T) {
	redmine := providers.NewRedmine(nil)
	w, err := newWire(redmine, "")
	require.NoError(t, err)
	s, err := serveLoopback(w)
	require.NoError(t, err)
	defer s.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	held := w.hold()
	send := func(c *http.Client) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/issues.json", strings.NewReader(`{"issue":{"project_id":"inc","subject":"s"}}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Redmine-API-Key", alr.TicketKey)
		resp, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	got := make(chan error, 1)
	first := &http.Transport{}
	go func() {
		_, err := send(&http.Client{Transport: first})
		got <- err
	}()
	<-held
	require.Equal(t, 1, redmine.Issues(), "the work was done")
	select {
	case <-got:
		t.Fatal("the answer was not held back")
	default:
	}
	status, err := send(c)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status, "the next one passes")
	require.NoError(t, s.Close())
	require.Error(t, <-got)
	first.CloseIdleConnections()
}
