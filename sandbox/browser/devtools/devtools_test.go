package devtools_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox/browser"
	"github.com/drawbridge-sdk/drawbridge/sandbox/browser/devtools"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// chromium finds the browser, which the project's own checks install.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-headless-shell", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no chromium: .ci/run installs one")
	}
	t.Skip("no chromium in PATH")
	return ""
}

func start(t *testing.T, opts devtools.Options) *devtools.Browser {
	t.Helper()
	opts.Program, opts.NoSandbox = chromium(t), os.Getuid() == 0
	if opts.Hosts == nil {
		opts.Hosts = []string{"127.0.0.1"}
	}
	b, err := devtools.Start(t.Context(), &opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// desk is a ticket system without an interface. Each page has one trap.
type desk struct {
	*httptest.Server
	mu      sync.Mutex
	tickets []url.Values // the record
	session string
	refuse  bool
}

const form = `<form method="post" action="/tickets"><input type="hidden" name="csrf" value="t">
<label for="s">Subject</label><input id="s" name="subject"><label for="p">Priority</label><select id="p" name="priority"><option>low<option>high</select>
<label><input type="checkbox" name="draft"> Draft</label> %s
<button>Create draft</button></form>`

func page(tenant, extra, after string) string {
	return `<!doctype html><title>Desk</title><p id="tenant">` + tenant + `</p><h1>New ticket in inc</h1>` + fmt.Sprintf(form, extra) + after
}

var pages = map[string]string{
	"plain":     page("acme", "", ""),
	"tenant":    page("globex", "", ""),
	"overlay":   page("acme", "", `<div id="banner" style="position:fixed;inset:0;background:#0008">Cookies?</div>`),
	"more":      page("acme", `<input name="assign_to" value="everybody">`, ""),
	"elsewhere": strings.Replace(page("acme", "", ""), `action="/tickets"`, `action="/tickets/delete"`, 1),
	"foreign":   strings.Replace(page("acme", "", ""), `action="/tickets"`, `action="https://evil.test/tickets"`, 1),
	"window":    strings.Replace(page("acme", "", ""), `action="/tickets"`, `action="/tickets" target="_blank"`, 1),
	"clobber":   page("acme", `<input name="elements"><input name="target" value="x"><input name="getAttribute">`, ""),
	"two":       page("acme", "", `<button>Create draft</button>`),
	"hidden":    strings.Replace(page("acme", "", ""), `<button>`, `<button style="visibility:hidden">`, 1),
	"closed":    strings.Replace(page("acme", "", ""), `<button>`, `<button disabled>`, 1),
	"readonly":  strings.Replace(page("acme", "", ""), `<input id="s"`, `<input readonly id="s"`, 1),
	"password":  strings.Replace(page("acme", "", ""), `<input id="s"`, `<input type="password" aria-label="Subject" role="textbox" id="s"`, 1),
	"rewrites":  page("acme", "", `<script>document.querySelector("#s").addEventListener("change", (e) => { e.target.value = "something else" })</script>`),
	// the button is made anew with every change of the form: a remembered one is stale
	"stale": page("acme", "", `<script>document.querySelector("form").addEventListener("input", () => { const b = document.querySelector("button"); const n = b.cloneNode(true); b.replaceWith(n); b.addEventListener("click", (e) => e.preventDefault()) })</script>`),
	// the page is loaded anew after the fields are filled
	"navigates": page("acme", "", `<script>if (!sessionStorage.n) document.querySelector("#s").addEventListener("change", () => { sessionStorage.n = 1; setTimeout(() => location.reload(), 0) })</script>`),
	"leaves":    page("acme", "", `<script>document.querySelector("#s").addEventListener("change", () => { history.pushState(null, "", "/tickets/other") })</script>`),
	"switches":  page("acme", "", `<script>document.querySelector("#s").addEventListener("change", () => { document.querySelector("#tenant").textContent = "globex" })</script>`),
	"lying":     page("acme", "", `<script>Document.prototype.querySelectorAll = () => []; Element.prototype.getAttribute = () => "/tickets"; Object.defineProperty(HTMLInputElement.prototype, "value", { get: () => "slow" })</script>`),
}

func newDesk(t *testing.T) *desk {
	d := &desk{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tickets/new", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c, err := r.Cookie("session"); err == nil {
			d.session = c.Value
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(pages[r.URL.Query().Get("trap")]))
	})
	mux.HandleFunc("POST /tickets", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if r.ParseForm() == nil && !d.refuse {
			d.tickets = append(d.tickets, r.PostForm)
		}
		if r.Header.Get("Lose") != "" {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("<p>Thank you</p>")) // says nothing of what became of it
	})
	d.Server = httptest.NewServer(mux)
	t.Cleanup(d.Close)
	return d
}

func (d *desk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tickets)
}

func (d *desk) change(trap string) *browser.Change {
	return &browser.Change{
		URL:    d.URL + "/tickets/new?trap=" + trap,
		Checks: []browser.Check{{At: browser.ID("tenant"), Is: "acme"}, {At: browser.Named("heading", "New ticket in inc"), Is: "New ticket in inc"}},
		Fields: []browser.Field{{At: browser.Named("textbox", "Subject"), Value: "slow"}, {At: browser.Named("combobox", "Priority"), Value: "high"}, {At: browser.Named("checkbox", "Draft"), Value: "true"}},
		Submit: browser.Named("button", "Create draft"), Action: "/tickets", Own: []string{"csrf"},
	}
}

// hooks commit, and ask the record.
func (d *desk) hooks(committed *int) *browser.Hooks {
	return &browser.Hooks{
		Commit: func(context.Context) error { *committed++; return nil },
		Confirm: func(context.Context) (browser.Outcome, error) {
			if d.count() > 0 {
				return browser.Applied, nil
			}
			return browser.Unknown, nil
		},
		Every: 20 * time.Millisecond,
	}
}

// S8: what is as declared is done once, and the record is what says so.
func TestApplied_S8(t *testing.T) {
	d, b := newDesk(t), start(t, devtools.Options{})
	for _, trap := range []string{"plain", "stale"} {
		d.tickets = nil
		tab, err := b.Open(t.Context(), d.change(trap).URL, devtools.Cookie{Name: "session", Value: "s1"})
		require.NoError(t, err)
		committed := 0
		o, err := browser.Do(t.Context(), tab, d.change(trap), d.hooks(&committed))
		require.NoError(t, err, trap)
		require.Equal(t, browser.Applied, o, trap)
		require.Equal(t, 1, committed)
		require.Equal(t, []url.Values{{"csrf": {"t"}, "subject": {"slow"}, "priority": {"high"}, "draft": {"on"}}}, d.tickets, trap)
		tab.Close()
	}
	require.Equal(t, "s1", d.session)
}

// S8: what is not as declared is not clicked, and it is said what.
func TestTraps_S8(t *testing.T) {
	d, b := newDesk(t), start(t, devtools.Options{})
	for _, row := range []struct {
		trap, why string
		reason    browser.Reason
	}{
		{"tenant", "somebody of another tenant is signed in", browser.CheckDiffers},
		{"overlay", "a banner lies over the button", browser.Covered},
		{"more", "the form sends a field more", browser.FormChanged},
		{"elsewhere", "the form goes to another path", browser.FormChanged},
		{"foreign", "the form goes to another origin", browser.FormChanged},
		{"window", "the form opens a window", browser.FormChanged},
		{"clobber", "fields are named like members of the form", browser.FormChanged},
		{"two", "there are two such buttons", browser.SubmitMissing},
		{"hidden", "the button cannot be seen", browser.SubmitMissing},
		{"closed", "the button is disabled", browser.SubmitClosed},
		{"readonly", "the field takes nothing", browser.FieldClosed},
		{"password", "a field for a password is never filled", browser.FieldClosed},
		{"rewrites", "the page changes what was filled in", browser.ValueDiffers},
		{"navigates", "the page is loaded anew in between", browser.AnotherDocument},
		{"leaves", "the page becomes another one in between", browser.Elsewhere},
		{"switches", "the tenant changes in between", browser.CheckDiffers},
		{"missing", "it is not the page", browser.CheckMissing},
	} {
		tab, err := b.Open(t.Context(), d.change(row.trap).URL)
		require.NoError(t, err)
		committed := 0
		c := d.change(row.trap)
		var slow browser.Tab = tab
		if row.trap == "navigates" {
			slow = settling{tab}
		}
		o, err := browser.Do(t.Context(), slow, c, d.hooks(&committed))
		var not *browser.NotAsDeclared
		require.ErrorAs(t, err, &not, row.why)
		require.Equal(t, row.reason, not.Reason, "%s: %s", row.why, not.What)
		require.Equal(t, browser.NotApplied, o, row.why)
		require.Zero(t, committed, row.why)
		require.Zero(t, d.count(), row.why)
		require.NotContains(t, err.Error(), "globex", "the error says nothing of the page")
		tab.Close()
	}
}

// settling waits after each function until the page that it caused is there.
type settling struct{ tab *devtools.Tab }

func (s settling) Evaluate(ctx context.Context, function string, argument, result any) error {
	err := s.tab.Evaluate(ctx, function, argument, result)
	for range 50 {
		var ready bool
		if e := s.tab.Evaluate(ctx, `() => sessionStorage.n === "1" && performance.getEntriesByType("navigation")[0].type === "reload" && document.readyState === "complete"`, nil, &ready); e == nil && ready {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return err
}

// S8: a page that replaces what its own scripts see does not change what we see.
func TestLyingPage_S8(t *testing.T) {
	d, b := newDesk(t), start(t, devtools.Options{})
	tab, err := b.Open(t.Context(), d.change("lying").URL)
	require.NoError(t, err)
	committed := 0
	o, err := browser.Do(t.Context(), tab, d.change("lying"), d.hooks(&committed))
	require.NoError(t, err)
	require.Equal(t, browser.Applied, o)
}

// S8: a click whose answer nobody gives is unknown, and is not repeated.
func TestLostReceipt_S8_R4(t *testing.T) {
	d, b := newDesk(t), start(t, devtools.Options{})
	d.refuse = true // the record never shows it
	tab, err := b.Open(t.Context(), d.change("plain").URL)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	committed := 0
	o, err := browser.Do(ctx, tab, d.change("plain"), d.hooks(&committed))
	require.Equal(t, browser.Unknown, o)
	require.ErrorIs(t, err, toolresult.OutcomeUnknown)
	require.Equal(t, 1, committed)
}

// S8: what cannot be recorded is not done.
func TestCommitFails_S8(t *testing.T) {
	d, b := newDesk(t), start(t, devtools.Options{})
	tab, err := b.Open(t.Context(), d.change("plain").URL)
	require.NoError(t, err)
	down := errors.New("the ledger is down")
	h := d.hooks(new(int))
	h.Commit = func(context.Context) error { return down }
	o, err := browser.Do(t.Context(), tab, d.change("plain"), h)
	require.ErrorIs(t, err, down)
	require.Equal(t, browser.NotApplied, o)
	require.Zero(t, d.count())
}

// The browser reaches the hosts that were named, and takes nothing from the
// environment.
func TestHosts(t *testing.T) {
	d := newDesk(t)
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	b := start(t, devtools.Options{Hosts: []string{"desk.invalid"}})
	defer func() { require.NoError(t, b.Close(), "and once more at the end of the test") }()
	for _, address := range []string{strings.Replace(d.URL, "127.0.0.1", "localhost.test", 1), "file:///etc/passwd", "http://user@127.0.0.1/", "chrome://version"} {
		_, err := b.Open(t.Context(), address+"/tickets/new?trap=plain")
		require.Error(t, err, address)
	}
}

// The browser is given no variable of the host's: its secrets are in there.
func TestEnvironment_S2(t *testing.T) {
	t.Setenv("HOST_SECRET", "canary-of-the-host")
	start(t, devtools.Options{})
	seen := 0
	all, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, dir := range all {
		status, err1 := os.ReadFile(dir + "/status")
		name, err2 := os.ReadFile(dir + "/cmdline")
		env, err3 := os.ReadFile(dir + "/environ")
		if err1 != nil || err2 != nil || err3 != nil || !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) || !bytes.Contains(name, []byte("drawbridge-browser-")) {
			continue
		}
		seen++
		require.NotContains(t, string(env), "canary-of-the-host")
		require.Contains(t, string(env), "HOME=")
	}
	if runtime.GOOS == "linux" {
		require.NotZero(t, seen, "the browser is a child of this process")
	}
}

// What a page offers for download does not get to disk.
func TestNoDownloads_S8(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Disposition", `attachment; filename="canary.bin"`)
		_, _ = w.Write(bytes.Repeat([]byte("canary"), 1<<12))
	}))
	defer server.Close()
	b := start(t, devtools.Options{})
	_, err := b.Open(t.Context(), server.URL)
	require.Error(t, err)
	require.NotZero(t, asked)
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		require.NotContains(t, path, "canary")
		return nil // what the browser removes meanwhile is no matter
	}))
}
