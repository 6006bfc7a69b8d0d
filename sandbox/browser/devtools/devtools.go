// Package devtools drives a Chromium by the Chrome DevTools protocol, for package
// browser:
//
//	b, err := devtools.Start(ctx, &devtools.Options{Program: "/usr/bin/chromium", Hosts: []string{"desk.example.com"}})
//	defer b.Close()
//	tab, err := b.Open(ctx, "https://desk.example.com/tickets/new")
//	outcome, err := browser.Do(ctx, tab, change, hooks)
//
// Each browser has a profile of its own in a temporary directory, which is removed
// with it: no cookie outlives it, and two people's browsers share none. It
// resolves the hosts that were named and no other, takes nothing down to disk,
// and is given no variables of the environment but PATH, HOME (the profile) and
// the locale.
//
// # What this package does not do
//
// The list of hosts is held by the browser's own resolver: it is no boundary
// against a page that breaks the browser, and not one against addresses that are
// written as numbers. Give Options.Proxy a filtering proxy of package sandbox for
// that. It signs nobody in: a session that the host has is given to Open as a cookie.
package devtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/drawbridge-sdk/drawbridge/sandbox/browser"
)

// world is the name of the world that functions run in.
const world = "drawbridge"

// Options are options of Start.
type Options struct {
	// Program is the browser. Empty: the first of chromium, chromium-headless-shell
	// and google-chrome in PATH.
	Program string

	// Hosts are the names and addresses that it may resolve; a port is not part
	// of one. Empty: none, and no page can be opened.
	Hosts []string

	// Proxy is the address of a filtering proxy ("127.0.0.1:3128"). Empty: none,
	// and never that of the environment.
	Proxy string

	// NoSandbox starts it without its own sandbox, as root needs it. Then a page
	// that breaks the renderer has the rights of this process: put it into a
	// container.
	NoSandbox bool

	// Width and Height of the window in pixels; 0: 1280 and 900.
	Width, Height int

	// Dark asks pages for dark colours.
	Dark bool
}

// Browser is a running browser. It is safe for concurrent use.
type Browser struct {
	ctx     context.Context
	end     []context.CancelFunc
	profile string
	opts    Options
	once    sync.Once
	closed  error
}

// Start starts a browser. It lives until Close or the end of ctx. opts may be
// nil.
func Start(ctx context.Context, opts *Options) (*Browser, error) {
	b := &Browser{}
	if opts != nil {
		b.opts = *opts
	}
	var err error
	if b.profile, err = os.MkdirTemp("", "drawbridge-browser-"); err != nil {
		return nil, fmt.Errorf("devtools: no profile can be made: %w", err)
	}
	alloc, end := chromedp.NewExecAllocator(ctx, b.flags()...)
	b.end = append(b.end, end)
	b.ctx, end = chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
	b.end = append(b.end, end)
	if err := chromedp.Do(b.ctx, call(cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{Behavior: cdpbrowser.SetDownloadBehaviorBehaviorDeny})); err != nil {
		return nil, errors.Join(fmt.Errorf("devtools: the browser does not start: %w", err), b.Close())
	}
	return b, nil
}

// flags are the library's, with what they leave open closed.
func (b *Browser) flags() []chromedp.ExecAllocatorOption {
	rules := "MAP * ~NOTFOUND"
	for _, h := range b.opts.Hosts {
		rules += ", EXCLUDE " + h
	}
	w, h := b.opts.Width, b.opts.Height
	if w <= 0 || h <= 0 {
		w, h = 1280, 900
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.UserDataDir(b.profile), chromedp.WindowSize(w, h),
		chromedp.NoInheritEnv, chromedp.Env("HOME="+b.profile, "PATH="+os.Getenv("PATH"), "LANG="+os.Getenv("LANG")),
		chromedp.Flag("host-resolver-rules", rules),
		chromedp.Flag("no-proxy-server", b.opts.Proxy == ""),
		chromedp.Flag("disable-extensions", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-sandbox", b.opts.NoSandbox),
	)
	if b.opts.Proxy != "" {
		flags = append(flags, chromedp.ProxyServer(b.opts.Proxy), chromedp.Flag("proxy-bypass-list", "<-loopback>"))
	}
	if p := b.program(); p != "" {
		flags = append(flags, chromedp.ExecPath(p))
	}
	return flags
}

func (b *Browser) program() string {
	if b.opts.Program != "" {
		return b.opts.Program
	}
	for _, name := range []string{"chromium", "chromium-headless-shell", "google-chrome"} {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	return ""
}

// Close ends the browser and removes its profile. Closing again does nothing.
func (b *Browser) Close() error {
	b.once.Do(func() { b.closed = b.close() })
	return b.closed
}

func (b *Browser) close() error {
	if b.ctx != nil {
		_ = chromedp.Cancel(b.ctx) // waits for the process
	}
	for i := len(b.end) - 1; i >= 0; i-- {
		b.end[i]()
	}
	return os.RemoveAll(b.profile)
}

// Tab is one tab. It is safe for concurrent use.
type Tab struct {
	ctx  context.Context
	end  context.CancelFunc
	hold *Browser
}

var _ browser.Tab = (*Tab)(nil)

// Open opens a page in a new tab and waits until it is loaded. The page may have
// led elsewhere: package browser compares. cookies are set before.
func (b *Browser) Open(ctx context.Context, address string, cookies ...Cookie) (*Tab, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
		return nil, errors.New("devtools: a page is opened by http or https, without a user in it")
	}
	t := &Tab{hold: b}
	t.ctx, t.end = chromedp.NewContext(b.ctx)
	yes, secure := true, u.Scheme == "https"
	var steps []chromedp.Action[chromedp.Void]
	for _, c := range cookies {
		steps = append(steps, call(network.SetCookie, network.SetCookieParams{
			Name: c.Name, Value: c.Value, URL: address, HTTPOnly: &yes, Secure: &secure, SameSite: network.CookieSameSiteStrict,
		}))
	}
	if err := chromedp.Do(t.ctx); err != nil { // the tab lives as long as the context of its first call
		t.Close()
		return nil, fmt.Errorf("devtools: no tab can be opened: %w", err)
	}
	_, err = run(ctx, t, chromedp.Steps(append(steps, t.media(), chromedp.Navigate(address))...))
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("devtools: the page cannot be opened: %w", err)
	}
	return t, nil
}

// Cookie is a session that the host has got by its own means.
type Cookie struct{ Name, Value string }

// Close closes the tab.
func (t *Tab) Close() { t.end() }

// Evaluate implements [browser.Tab].
func (t *Tab) Evaluate(ctx context.Context, function string, argument, result any) error {
	arg, err := json.Marshal(argument)
	if err != nil {
		return errors.Join(browser.ErrNotRun, err)
	}
	sent, yes := false, true
	_, err = run(ctx, t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		w, err := cdp.Call(ctx, target, cdppage.CreateIsolatedWorld, cdppage.CreateIsolatedWorldParams{FrameID: cdp.FrameID(target.TargetID), WorldName: world})
		if err != nil {
			return err
		}
		sent = true
		out, err := cdp.Call(ctx, target, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: function, ExecutionContextID: w.ExecutionContextID, ReturnByValue: &yes, Silent: &yes,
			Arguments: []*runtime.CallArgument{{Value: arg}},
		})
		switch {
		case err != nil:
			return err
		case out.ExceptionDetails != nil || out.Result == nil:
			return errors.New("devtools: the function failed in the page")
		}
		return json.Unmarshal(out.Result.Value, result)
	}))
	if err != nil && !sent {
		return errors.Join(browser.ErrNotRun, err)
	}
	return err
}

// Screenshot returns the whole page as PNG.
func (t *Tab) Screenshot(ctx context.Context) (png []byte, err error) {
	return run(ctx, t, chromedp.FullScreenshot(100))
}

// media tells pages which colours are wanted.
func (t *Tab) media() chromedp.Action[chromedp.Void] {
	scheme := "light"
	if t.hold.opts.Dark {
		scheme = "dark"
	}
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// call is a command as a step.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// run runs a step until it is done or ctx ends.
func run[T any](ctx context.Context, t *Tab, step chromedp.Action[T]) (T, error) {
	both, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	out, err := chromedp.Run(both, step)
	if cause := context.Cause(both); err != nil && cause != nil {
		return out, cause
	}
	return out, err
}
