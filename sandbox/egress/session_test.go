package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), b)
}

// The order of the house, and what each hook sees.
func TestHooks_S3(t *testing.T) {
	var order []string
	var wire http.Header
	l := &log{}
	hooks := &egress.Hooks{
		Allow: func(_ context.Context, r *egress.Request) (egress.Effect, error) {
			order = append(order, "allow")
			require.Equal(t, &egress.Request{Method: "POST", Path: "/issues", Query: "q=1", Header: http.Header{"X-Own": {"a"}}, Body: []byte("body")}, r)
			r.Header.Set("Idempotency-Key", "k-1")
			return egress.Changes, nil
		},
		Authorize: func(_ context.Context, origin string, r *http.Request) error {
			order = append(order, "authorize")
			require.Equal(t, "http://provider.test:80", origin)
			require.Equal(t, "k-1", r.Header.Get("Idempotency-Key"))
			b, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, "body", string(b), "signers read it")
			r.Header.Set("Authorization", "Bearer tok-1234")
			r.URL.RawQuery += "&key=query-secret"
			return nil
		},
		Commit: func(_ context.Context, r *egress.Request) error {
			order = append(order, "commit")
			require.Empty(t, r.Header.Get("Authorization"))
			require.Equal(t, "q=1", r.Query)
			require.Equal(t, "k-1", r.Header.Get("Idempotency-Key"))
			return nil
		},
		Observe: func(ctx context.Context, r *egress.Request, a *egress.Response, x egress.Exchange) {
			order = append(order, "observe")
			l.observe(ctx, r, a, x)
		},
	}
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		wire = r.Header
		require.Equal(t, "key=query-secret&q=1", r.URL.Query().Encode())
		w.Header().Set("X-Request-Id", "r-1")
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(201)
		echo(w, r)
	}, hooks)
	req := request(t, "POST", egresstest.Base+"/issues?q=1", "body")
	req.Header.Set("X-Own", "a")
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	require.Equal(t, []string{"allow", "authorize", "commit", "observe"}, order)
	require.Equal(t, "Bearer tok-1234", wire.Get("Authorization"))
	require.Equal(t, 201, resp.StatusCode)
	require.Equal(t, "POST /issues?q=1&key=[redacted] body", read(t, resp))
	require.Empty(t, resp.Header.Values("Set-Cookie"))
	require.Same(t, req, resp.Request)
	require.Empty(t, resp.Request.Header.Get("Authorization"))
	_, a, x := l.only(t)
	require.Equal(t, "r-1", a.Header.Get("X-Request-Id"))
	require.Positive(t, x.Received)
	x.Received, x.Duration = 0, 0
	require.Equal(t, egress.Exchange{Profile: "test", Method: "POST", Path: "/issues", Effect: egress.Changes,
		Phase: egress.PhaseAnswered, Status: 201, Sent: 4}, x)
}

// E3: a hook's no keeps the request here, and can be told from a mishap.
func TestHookRefuses_E3(t *testing.T) {
	no := toolresult.NewError(toolresult.PermissionDenied, "not granted")
	for name, row := range map[string]struct {
		hooks  egress.Hooks
		reason egress.Reason
	}{
		"allow": {egress.Hooks{Allow: func(context.Context, *egress.Request) (egress.Effect, error) { return 0, no }}, egress.ReasonRefused},
		"allow with its own reason": {egress.Hooks{Allow: func(context.Context, *egress.Request) (egress.Effect, error) {
			return 0, errors.Join(no, &egress.Error{Reason: egress.ReasonSecond})
		}}, egress.ReasonSecond},
		"a mishap is no reason of a hook": {egress.Hooks{Allow: func(context.Context, *egress.Request) (egress.Effect, error) {
			return 0, errors.Join(no, &egress.Error{Phase: egress.PhaseAnswered, Reason: egress.ReasonBroken})
		}}, egress.ReasonRefused},
		"authorize": {egress.Hooks{Authorize: func(context.Context, string, *http.Request) error { return no }}, egress.ReasonRefused},
		"commit":    {egress.Hooks{Commit: func(context.Context, *egress.Request) error { return no }}, egress.ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			l, served := &log{}, 0
			row.hooks.Observe = l.observe
			s := open(t, func(http.ResponseWriter, *http.Request) { served++ }, &row.hooks)
			_, err := s.Client().Do(request(t, "POST", egresstest.Base+"/x", ""))
			e := failed(t, err)
			require.ErrorIs(t, err, toolresult.EgressDenied)
			require.NotErrorIs(t, err, toolresult.PermissionDenied, "the cause is not in the chain")
			require.ErrorIs(t, e.Cause(), toolresult.PermissionDenied)
			require.Equal(t, egress.PhaseNotSent, e.Phase)
			require.Equal(t, row.reason, e.Reason)
			_, a, x := l.only(t)
			require.Nil(t, a)
			require.Equal(t, row.reason, x.Reason)
			require.Equal(t, egress.PhaseNotSent, x.Phase)
			require.Zero(t, served)
		})
	}
}

// Commit is asked for changes alone; the default effect is by method.
func TestEffect_W5(t *testing.T) {
	for method, want := range map[string]egress.Effect{
		"GET": egress.Reads, "HEAD": egress.Reads, "POST": egress.Changes, "PUT": egress.Changes,
		"DELETE": egress.Changes, "OPTIONS": egress.Changes, "PROPFIND": egress.Changes,
	} {
		l, commits := &log{}, 0
		s := open(t, echo, &egress.Hooks{Observe: l.observe, Commit: func(context.Context, *egress.Request) error { commits++; return nil }})
		_, err := s.RoundTrip(request(t, method, egresstest.Base+"/", ""))
		require.NoError(t, err)
		_, _, x := l.only(t)
		require.Equal(t, want, x.Effect, method)
		require.Equal(t, want == egress.Changes, commits == 1, method)
	}
	commits := 0
	s := open(t, echo, &egress.Hooks{
		Allow:  func(context.Context, *egress.Request) (egress.Effect, error) { return egress.Reads, nil },
		Commit: func(context.Context, *egress.Request) error { commits++; return nil },
	})
	_, err := s.RoundTrip(request(t, "POST", egresstest.Base+"/search", "q"))
	require.NoError(t, err)
	require.Zero(t, commits)
}

// Authorize changes headers and query of its copy, and nothing else.
func TestAuthorizeIsHeldToItsPart_S3(t *testing.T) {
	for why, change := range map[string]func(*http.Request){
		"method":        func(r *http.Request) { r.Method = "DELETE" },
		"host":          func(r *http.Request) { r.URL.Host = "evil.test" },
		"Host header":   func(r *http.Request) { r.Host = "evil.test" },
		"path":          func(r *http.Request) { r.URL.Path = "/admin" },
		"raw path":      func(r *http.Request) { r.URL.RawPath = "/%78" },
		"scheme":        func(r *http.Request) { r.URL.Scheme = "https" },
		"user":          func(r *http.Request) { r.URL.User = nil; r.URL.Opaque = "x" },
		"URL":           func(r *http.Request) { r.URL = nil },
		"connection":    func(r *http.Request) { r.Header.Set("Connection", "X-Secret") },
		"forwarding":    func(r *http.Request) { r.Header.Set("X-Forwarded-For", "1.1.1.1") },
		"a header line": func(r *http.Request) { r.Header.Set("X-Key", "a\r\nb: c") },
		"a query line":  func(r *http.Request) { r.URL.RawQuery = "a b" },
		"an encoding":   func(r *http.Request) { r.Header.Set("Accept-Encoding", "br") },
	} {
		t.Run(why, func(t *testing.T) {
			served := 0
			s := open(t, func(http.ResponseWriter, *http.Request) { served++ },
				&egress.Hooks{Authorize: func(_ context.Context, _ string, r *http.Request) error { change(r); return nil }})
			_, err := s.RoundTrip(request(t, "GET", egresstest.Base+"/x", ""))
			e := failed(t, err)
			require.Equal(t, egress.ReasonRefused, e.Reason)
			require.Equal(t, egress.PhaseNotSent, e.Phase)
			require.Zero(t, served)
		})
	}
	// What it does to the body is not sent.
	s := open(t, echo, &egress.Hooks{Authorize: func(_ context.Context, _ string, r *http.Request) error {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("other")), 5
		return nil
	}})
	resp, err := s.RoundTrip(request(t, "POST", egresstest.Base+"/x", "mine"))
	require.NoError(t, err)
	require.Equal(t, "POST /x mine", read(t, resp))
}

// S3: requests that do not leave, through a client.
func TestRefusedRequests_S3(t *testing.T) {
	for why, row := range map[string]struct {
		change func(*http.Request)
		reason egress.Reason
	}{
		"another host":           {func(r *http.Request) { r.URL.Host = "evil.test" }, egress.ReasonDestination},
		"CONNECT":                {func(r *http.Request) { r.Method = "CONNECT" }, egress.ReasonDestination},
		"TRACE":                  {func(r *http.Request) { r.Method = "TRACE" }, egress.ReasonDestination},
		"a method with a line":   {func(r *http.Request) { r.Method = "GET /\r\nX: " }, egress.ReasonDestination},
		"Authorization":          {func(r *http.Request) { r.SetBasicAuth("a", "b") }, egress.ReasonDestination},
		"a cookie":               {func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "a", Value: "b"}) }, egress.ReasonDestination},
		"an upgrade":             {func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, egress.ReasonDestination},
		"a trailer":              {func(r *http.Request) { r.Trailer = http.Header{"X": nil} }, egress.ReasonDestination},
		"a transfer encoding":    {func(r *http.Request) { r.TransferEncoding = []string{"gzip"} }, egress.ReasonDestination},
		"a length that lies":     {func(r *http.Request) { r.ContentLength = 99 }, egress.ReasonDestination},
		"a Content-Length":       {func(r *http.Request) { r.Header.Set("Content-Length", "99") }, egress.ReasonDestination},
		"an encoding to be read": {func(r *http.Request) { r.Header.Set("Accept-Encoding", "br, gzip") }, egress.ReasonDestination},
		"a long body": {func(r *http.Request) {
			r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(strings.Repeat("x", 2<<20)))
		}, egress.ReasonTooLarge},
		"long headers":       {func(r *http.Request) { r.Header.Set("X-A", strings.Repeat("x", 70<<10)) }, egress.ReasonTooLarge},
		"a body that breaks": {func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader("a"), broken{})) }, egress.ReasonBroken},
	} {
		t.Run(why, func(t *testing.T) {
			l, served := &log{}, 0
			s := open(t, func(http.ResponseWriter, *http.Request) { served++ }, &egress.Hooks{Observe: l.observe})
			req := request(t, "POST", egresstest.Base+"/x", "body")
			row.change(req)
			_, err := s.RoundTrip(req)
			e := failed(t, err)
			require.Equal(t, row.reason, e.Reason, "%v", e.Cause())
			require.Equal(t, egress.PhaseNotSent, e.Phase)
			require.Equal(t, row.reason == egress.ReasonDestination, errors.Is(err, toolresult.EgressDenied))
			_, a, x := l.only(t)
			require.Nil(t, a)
			require.Equal(t, egress.PhaseNotSent, x.Phase)
			require.Zero(t, x.Sent)
			require.Zero(t, served)
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

// S3: a host with one refused address is refused, whatever the others are.
func TestAddressGuard_S3(t *testing.T) {
	for why, row := range map[string]struct {
		addrs []string
		ok    bool
	}{
		"permitted":            {[]string{"10.0.0.1"}, true},
		"public":               {[]string{"8.8.8.8"}, true},
		"permitted and public": {[]string{"10.0.0.1", "::ffff:8.8.8.8"}, true},
		"one is not permitted": {[]string{"8.8.8.8", "192.168.0.1"}, false},
		"metadata":             {[]string{"169.254.169.254"}, false},
		"mapped":               {[]string{"::ffff:127.0.0.1"}, false},
		"none":                 {nil, false},
	} {
		t.Run(why, func(t *testing.T) {
			p, opts := egresstest.Serve(t, http.HandlerFunc(echo))
			opts.Resolve = func(context.Context, string) ([]addr, error) { return addrs(row.addrs...), nil }
			l := &log{}
			s := session(t, p, opts, &egress.Hooks{Observe: l.observe})
			_, err := s.RoundTrip(request(t, "POST", egresstest.Base+"/x", "b"))
			_, _, x := l.only(t)
			if row.ok {
				require.NoError(t, err)
				return
			}
			e := failed(t, err)
			require.Equal(t, egress.PhaseNotSent, x.Phase)
			if len(row.addrs) > 0 {
				require.Equal(t, egress.ReasonAddress, e.Reason)
				require.ErrorIs(t, err, toolresult.EgressDenied)
			} else {
				require.Equal(t, egress.ReasonDial, e.Reason)
			}
		})
	}
}

// A6, A8: a client dies with its session, whoever kept a copy and whatever
// context comes with the request.
func TestSessionEnds_A8(t *testing.T) {
	l := &log{}
	s := open(t, echo, &egress.Hooks{Observe: l.observe})
	client := *s.Client()
	other := &http.Client{Transport: client.Transport}
	_, err := client.Get(egresstest.Base + "/")
	require.NoError(t, err)
	s.Close()
	s.Close()
	for _, c := range []*http.Client{&client, other, s.Client()} {
		_, err := c.Get(egresstest.Base + "/")
		e := failed(t, err)
		require.Equal(t, egress.ReasonOver, e.Reason)
		require.Equal(t, egress.PhaseNotSent, e.Phase)
		require.ErrorIs(t, err, toolresult.EgressDenied)
	}
	require.Len(t, l.exchanges, 4, "those were observed too")
}

func TestSessionEndsWithItsContext_A8(t *testing.T) {
	p, opts := egresstest.Serve(t, http.HandlerFunc(echo))
	e, err := egress.New(p, opts)
	require.NoError(t, err)
	t.Cleanup(e.CloseIdleConnections)
	ctx, cancel := context.WithCancel(t.Context())
	s := e.Open(ctx, nil)
	_, err = s.Client().Get(egresstest.Base + "/")
	require.NoError(t, err)
	cancel()
	_, err = s.Client().Get(egresstest.Base + "/")
	require.Equal(t, egress.ReasonOver, failed(t, err).Reason)
}

// The zero values refuse, and nothing panics.
func TestZeroRefuses(t *testing.T) {
	for _, s := range []*egress.Session{nil, {}, (&egress.Endpoint{}).Open(t.Context(), nil)} {
		_, err := s.RoundTrip(request(t, "GET", "http://provider.test/", ""))
		require.Equal(t, egress.ReasonOver, failed(t, err).Reason)
		_, err = s.RoundTrip(nil)
		failed(t, err)
		s.Close()
	}
	_, err := (&egress.Session{}).Client().Get("http://provider.test/")
	require.Equal(t, egress.ReasonOver, failed(t, err).Reason)
}

// In flight, the session's end is a cancellation: the request may have arrived.
func TestCloseCancelsWhatIsInFlight_W5(t *testing.T) {
	for name, end := range map[string]struct {
		end    func(s *egress.Session, cancel func())
		reason egress.Reason
	}{
		"close":          {func(s *egress.Session, _ func()) { s.Close() }, egress.ReasonCancelled},
		"cancel":         {func(_ *egress.Session, cancel func()) { cancel() }, egress.ReasonCancelled},
		"total deadline": {func(*egress.Session, func()) {}, egress.ReasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, opts := egresstest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
				p.Limits.Headers = time.Hour
				e, err := egress.New(p, opts)
				require.NoError(t, err)
				l := &log{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := e.Open(ctx, &egress.Hooks{Observe: l.observe})
				req, _ := http.NewRequest("POST", egresstest.Base+"/", nil) // another context
				done := make(chan error)
				go func() { _, err := s.RoundTrip(req); done <- err }()
				synctest.Wait()
				end.end(s, cancel)
				x := failed(t, <-done)
				require.Equal(t, end.reason, x.Reason)
				require.Equal(t, egress.PhaseUnanswered, x.Phase)
				require.NotErrorIs(t, x, toolresult.EgressDenied)
				_, a, _ := l.only(t)
				require.Nil(t, a)
			})
		})
	}
}

// R10: what a handler hangs into its context or its request sees no credential.
func TestHandlersTraceSeesNothing_R10(t *testing.T) {
	type key struct{}
	seen := 0
	trace := &httptrace.ClientTrace{
		GetConn:          func(string) { seen++ },
		WroteHeaderField: func(string, []string) { seen++ },
	}
	s := open(t, echo, &egress.Hooks{
		Allow: func(ctx context.Context, _ *egress.Request) (egress.Effect, error) {
			require.Nil(t, ctx.Value(key{}), "the handler's values reach no hook")
			return egress.Reads, nil
		},
		Authorize: func(ctx context.Context, _ string, r *http.Request) error {
			require.Nil(t, httptrace.ContextClientTrace(ctx))
			require.Nil(t, httptrace.ContextClientTrace(r.Context()))
			require.Nil(t, r.GetBody)
			r.Header.Set("Authorization", "Bearer tok-1234")
			return nil
		},
	})
	ctx := httptrace.WithClientTrace(context.WithValue(t.Context(), key{}, "v"), trace)
	_, err := s.RoundTrip(request(t, "GET", egresstest.Base+"/", "").WithContext(ctx))
	require.NoError(t, err)
	require.Zero(t, seen)
}

// Hooks do see the values of the context that the session was opened with.
func TestHooksHaveTheSessionsValues(t *testing.T) {
	type key struct{}
	p, opts := egresstest.Serve(t, http.HandlerFunc(echo))
	e, err := egress.New(p, opts)
	require.NoError(t, err)
	t.Cleanup(e.CloseIdleConnections)
	var got any
	s := e.Open(context.WithValue(t.Context(), key{}, "call"), &egress.Hooks{
		Commit: func(ctx context.Context, _ *egress.Request) error {
			sub, cancel := context.WithCancel(ctx)
			defer cancel()
			got = sub.Value(key{})
			return sub.Err()
		},
	})
	defer s.Close()
	_, err = s.RoundTrip(request(t, "POST", egresstest.Base+"/", ""))
	require.NoError(t, err)
	require.Equal(t, "call", got)
}

// A handler that changes its request while hooks run changes nothing.
func TestRequestIsCopied_W1(t *testing.T) {
	req := request(t, "POST", egresstest.Base+"/approved", "approved")
	s := open(t, echo, &egress.Hooks{Commit: func(context.Context, *egress.Request) error {
		req.URL.Path, req.Method = "/other", "DELETE"
		req.Header.Set("X-Other", "x")
		return nil
	}})
	resp, err := s.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, "POST /approved approved", read(t, resp))
}

// Redirects: the profile's number, inside it, for GET and HEAD.
func TestRedirects_S3(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/there":
			_, _ = io.WriteString(w, "there")
		case "/elsewhere":
			w.Header().Set("Location", "http://evil.test/?leak")
			w.WriteHeader(http.StatusFound)
		case "/odd":
			w.Header()["Location"] = []string{"http://[bad"}
			w.WriteHeader(http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		}
	}
	auths := 0
	s := open(t, h, &egress.Hooks{Authorize: func(_ context.Context, origin string, _ *http.Request) error {
		auths++
		require.Equal(t, "http://provider.test:80", origin)
		return nil
	}}, func(p *egress.Profile) { p.Redirects = 2 })
	for _, row := range []struct {
		why, method, path string
		status, auths     int
	}{
		{"followed", "GET", "/here", 200, 2},
		{"followed, HEAD", "HEAD", "/here", 200, 2},
		{"a change is not", "POST", "/here", 307, 1},
		{"elsewhere is the answer", "GET", "/elsewhere", 302, 1},
		{"as is a place that is none", "GET", "/odd", 302, 1},
		{"as many as the profile says", "GET", "/loop", 302, 3},
	} {
		auths = 0
		resp, err := s.Client().Do(request(t, row.method, egresstest.Base+row.path, ""))
		require.NoError(t, err, row.why)
		require.Equal(t, row.status, resp.StatusCode, row.why)
		require.Equal(t, row.auths, auths, row.why)
	}
	// Another client on the same session is held to it as well.
	auths = 0
	_, err := (&http.Client{Transport: s}).Get(egresstest.Base + "/loop")
	require.Equal(t, egress.ReasonDestination, failed(t, err).Reason)
	require.Equal(t, 3, auths)
	_, err = (&http.Client{Transport: s}).Post(egresstest.Base+"/loop", "", nil)
	require.Equal(t, egress.ReasonDestination, failed(t, err).Reason)

	none := open(t, h, nil)
	resp, err := none.Client().Get(egresstest.Base + "/here")
	require.NoError(t, err)
	require.Equal(t, 307, resp.StatusCode)
}

func TestConcurrentRequests(t *testing.T) {
	l := &log{}
	s := open(t, echo, &egress.Hooks{Observe: l.observe, Authorize: func(_ context.Context, _ string, r *http.Request) error {
		r.Header.Set("X-Key", "key-"+r.URL.Path)
		return nil
	}})
	var running sync.WaitGroup
	for i := range 40 {
		running.Go(func() {
			method := []string{"GET", "POST"}[i%2]
			resp, err := s.Client().Do(request(t, method, fmt.Sprintf("%s/%d", egresstest.Base, i), ""))
			if err != nil {
				t.Error(err)
				return
			}
			if got, want := read(t, resp), fmt.Sprintf("%s /%d ", method, i); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
	running.Wait()
	require.Len(t, l.exchanges, 40)
}
