package connection_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"expvar"
	"fmt"
	htmltemplate "html/template"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	texttemplate "text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// secrets are what must not come out, by what they are.
type secrets struct {
	mu   sync.Mutex
	all  map[string]string
	hunt map[string]string // twelve bytes of a secret, in some spelling -> what it is
}

func (s *secrets) add(what, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all, s.hunt = map[string]string{}, map[string]string{}
	}
	if len(secret) < 12 || s.all[what+secret] != "" {
		return
	}
	s.all[what+secret] = what
	windows := func(text string, size int, spelling string) {
		for i := 0; i+size <= len(text); i++ {
			s.hunt[text[i:i+size]] = what + ", " + spelling
		}
	}
	quoted, _ := json.Marshal(secret)
	for spelling, text := range map[string]string{
		"raw": secret, "in a query": url.QueryEscape(secret), "in a path": url.PathEscape(secret), "in JSON": strings.Trim(string(quoted), `"`),
		"in HTML": htmltemplate.HTMLEscapeString(secret), "quoted": strings.Trim(fmt.Sprintf("%q", secret), `"`),
	} {
		windows(text, 12, spelling)
	}
	windows(hex.EncodeToString([]byte(secret)), 24, "hex")
	windows(strings.ToUpper(hex.EncodeToString([]byte(secret))), 24, "hex in capitals")
	numbers := make([]string, 0, len(secret))
	for _, b := range []byte(secret) {
		numbers = append(numbers, fmt.Sprint(b))
	}
	for i := 0; i+12 <= len(numbers); i++ { // a slice of bytes under %v, and in JSON
		s.hunt[strings.Join(numbers[i:i+12], " ")[:24]] = what + ", numbers"
		s.hunt[strings.Join(numbers[i:i+12], ",")[:24]] = what + ", numbers"
	}
	for shift := range 3 { // base64 has three spellings of a secret inside of something longer
		padded := append(make([]byte, shift), secret...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString(padded[:len(padded)/3*3])
			windows(text[min(len(text), 4*min(shift, 1)):], 16, "base64")
		}
	}
}

// found says which secrets are in a text.
func (s *secrets) found(text string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, size := range []int{12, 16, 24} {
		for i := 0; i+size <= len(text); i++ {
			if what := s.hunt[text[i:i+size]]; what != "" {
				out = append(out, fmt.Sprintf("%s at %d: …%s…", what, i, text[max(0, i-20):min(len(text), i+size+4)]))
				i += size
			}
		}
	}
	return out
}

// sinks are the places where things are written to.
type sinks map[string]*bytes.Buffer

func (s sinks) to(name string) *bytes.Buffer {
	if s[name] == nil {
		s[name] = &bytes.Buffer{}
	}
	return s[name]
}

type wrapped struct{ inside any }

// show writes a value in every way in which programs write values.
func (s sinks) show(v any) {
	s.open(v)
	s.write(v, wrapped{v}, &wrapped{v})
}

// open is show without fields that are not exported, through which fmt looks at
// what is inside without asking it.
func (s sinks) open(v any) { s.write(v, v, &v, []any{v}, map[string]any{"k": v}, struct{ V any }{v}) }

func (s sinks) write(v any, nests ...any) {
	for _, nest := range nests {
		for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%s", "%x", "%d"} {
			fmt.Fprintf(s.to(verb), verb+"\n", nest)
		}
		if text, err := json.Marshal(nest); err == nil {
			s.to("json").Write(text)
		} else {
			s.to("json").WriteString(err.Error())
		}
		if text, err := xml.Marshal(nest); err == nil {
			s.to("xml").Write(text)
		} else {
			s.to("xml").WriteString(err.Error())
		}
		if err := gob.NewEncoder(s.to("gob")).Encode(nest); err != nil {
			s.to("gob").WriteString(err.Error())
		}
		_ = texttemplate.Must(texttemplate.New("").Parse("{{.}} {{printf \"%+v\" .}}")).Execute(s.to("text/template"), nest)
		_ = htmltemplate.Must(htmltemplate.New("").Parse("{{.}} <a href=\"/?{{.}}\"> <script>{{.}}</script>")).Execute(s.to("html/template"), nest)
		for _, h := range []slog.Handler{slog.NewTextHandler(s.to("slog"), nil), slog.NewJSONHandler(s.to("slog"), nil)} {
			slog.New(h).Error("x", "v", nest)
		}
	}
	func() {
		defer func() { fmt.Fprintf(s.to("panic"), "panic: %v\n%+v\n%s", recover(), v, debug.Stack()) }()
		panic(v)
	}()
	if err, ok := v.(error); ok {
		s.unwrap(err)
	}
}

// unwrap shows an error at each depth, and around.
func (s sinks) unwrap(err error) {
	fmt.Fprintf(s.to("errors"), "%v\n%+v\n%#v\n%q\n", err, err, err, err)
	outer := fmt.Errorf("call: %w", errors.Join(err, io.EOF))
	fmt.Fprintf(s.to("errors"), "%v\n%+v\n%#v\n%q\n", outer, outer, outer, outer)
	if e, ok := err.(*toolresult.Error); ok && e.Cause() != nil {
		s.show(e.Cause())
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		if in := u.Unwrap(); in != nil {
			s.show(in)
		}
	case interface{ Unwrap() []error }:
		for _, in := range u.Unwrap() {
			s.show(in)
		}
	}
}

// leaky is a world whose API repeats what it was sent, and whose connector shows
// all that it can get hold of.
type leaky struct {
	*world
	secrets *secrets
	sinks   sinks
	inv     *connector.Invoker
}

type pageRequest struct {
	Project string `json:"project" jsonschema:"name of the project"`
}

// newInvoker puts two capabilities over the API: one reads, one lists pages.
func (l *leaky) newInvoker() {
	l.t.Helper()
	project := func(in pageRequest) authz.ResourceID { return authz.ResourceID{Type: "project", ID: in.Project} }
	spec := func(name, route string) connector.Spec {
		return connector.Spec{Name: name, Description: "For a test.", Sensitivity: risk.Internal, Scopes: []string{"read"},
			Routes: []connector.Route{{Pattern: route, Effect: connector.Reads, Touches: []string{"project:{project}"}}}}
	}
	read := connector.Read(spec("tickets.get", "GET /echo/{project}"), connector.ByArgs(project),
		func(ctx context.Context, c *connector.ReadCall, in pageRequest) (*connector.Answer[ticket], error) {
			l.sinks.show(c)
			l.sinks.show(ctx)
			var out ticket
			_, err := c.Get(ctx, "/echo/{project}", connector.Params{"project": in.Project}, &out)
			if err != nil {
				l.sinks.show(err)
				return nil, fmt.Errorf("as the connector has it: %w", err)
			}
			return connector.Found(out), nil
		})
	list := connector.List(connector.ListSpec{Spec: spec("tickets.list", "GET /list/{project}"), More: provider.LinkNext()}, connector.ByArgs(project),
		func(ctx context.Context, c *connector.ReadCall, in pageRequest, p connector.PageRequest) (*connector.Page[ticket], error) {
			var out []ticket
			resp, err := c.Get(ctx, "/list/{project}", connector.Params{"project": in.Project}, &out)
			l.sinks.show(resp)
			l.sinks.show(p)
			return connector.NewPage(out, cursor.At("page-2")), err
		})
	c, err := connector.New(connector.Info{ID: "tickets", Version: "1.0.0", Owner: "team", Endpoint: "test", Auth: connector.Auth{Mode: connector.AuthDelegatedOAuth}}, read, list)
	require.NoError(l.t, err)
	l.inv, err = connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{l.host}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{egresstest.Profile()}, Egress: l.eg, Credentials: l.m, Forgetful: true, Logger: l.opts.Log,
			Audit: connector.AuditFunc(func(_ context.Context, e *connector.AuditEvent) error { l.sinks.show(*e); return nil })})
	require.NoError(l.t, err)
}

func (l *leaky) call(capability string) {
	l.t.Helper()
	r := l.inv.Invoke(context.WithValue(l.t.Context(), inboundKey{}, func() string { return "Bearer " + inbound }), &connector.InvokeRequest{Principal: l.alice, Capability: capability, Arguments: json.RawMessage(`{"project":"inc"}`)})
	l.sinks.show(r)
	l.sinks.show(*r)
	l.sinks.to("cursors").WriteString(r.NextCursor)
	l.sinks.to("results").Write(r.Data)
	if err := r.Err(); err != nil {
		l.t.Logf("%s: %v", capability, err)
		l.sinks.show(err)
	}
}

type inboundKey struct{}

const inbound = "CANARY-inbound-eyJhbGciOiJSUzI1NiJ9"

// watch learns the secrets of the issuer and of the browser.
func (l *leaky) watch() {
	l.as.Fail(authserver.Fault{Endpoint: "token", Times: -1, Edit: func(m map[string]any) {
		for _, name := range []string{"access_token", "refresh_token"} {
			if s, ok := m[name].(string); ok {
				l.secrets.add(name, s)
			}
		}
	}})
}

// consents goes through the flow, of which every part is shown but the two that
// are for the browser alone.
func (l *leaky) consents() connection.Connection {
	l.t.Helper()
	link, err := l.m.Begin(l.t.Context(), l.alice, &connection.BeginRequest{Provider: "tickets", Scopes: []string{"read"}})
	require.NoError(l.t, err)
	d, err := l.m.Open(l.t.Context(), l.alice, link.ID)
	require.NoError(l.t, err)
	q := l.consent(d, ann, nil)
	_, state, _ := strings.Cut(q.Get("state"), ".")
	l.secrets.add("state", state)
	l.secrets.add("code", q.Get("code"))
	l.secrets.add("browser", d.Browser)
	out, err := l.m.Callback(l.t.Context(), l.alice, d.Browser, q)
	tx, txErr := l.store.Transaction(l.t.Context(), "acme", link.ID)
	require.NoError(l.t, txErr)
	p, pErr := l.m.Pending(l.t.Context(), l.alice, link.ID)
	require.NoError(l.t, pErr)
	for _, v := range []any{link, tx, p, out, err} {
		if v != nil {
			l.sinks.show(v)
		}
	}
	return out.Connection
}

// echoes are answers that repeat what was sent.
var echoes = []authserver.Fault{
	{Before: true, Status: 400, Body: `{"error":"invalid_request","error_description":"%s"}`},
	{Before: true, Status: 400, Body: `{"error":"%s"}`},
	{Before: true, Status: 401, Body: `{"error":"invalid_client","error_description":"%s"}`},
	{Before: true, Status: 500, Body: `<html>%s</html>`},
	{Before: true, Status: 200, Body: `{"token_type":"%s","access_token":"x"}`},
	{Before: true, Status: 200, Body: `%s`},
	{Before: true, Status: 307, Header: map[string]string{"Location": "http://127.0.0.1/token"}, Body: `%s`},
	{Before: true, Status: 429, Header: map[string]string{"Retry-After": "1"}, Body: `%s`},
	{Before: true, Drop: true},
}

// verifiers learns the code verifiers from what went to the issuer.
func (l *leaky) verifiers() {
	_, rest, _ := strings.Cut(l.sent("127.0.0.1"), "code_verifier=")
	for rest != "" {
		l.secrets.add("verifier", rest[:43])
		_, rest, _ = strings.Cut(rest, "code_verifier=")
	}
}

// check looks into every sink.
func (l *leaky) check() {
	l.t.Helper()
	l.verifiers()
	for _, what := range l.kinds() {
		l.t.Log("hunting for ", what)
	}
	l.sinks.to("log").Write(l.logs.Bytes())
	rec := httptest.NewRecorder()
	expvar.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/vars", nil))
	dump, err := httputil.DumpResponse(rec.Result(), true)
	require.NoError(l.t, err)
	l.sinks.to("/debug/vars").Write(dump)
	require.NoError(l.t, pprof.Lookup("goroutine").WriteTo(l.sinks.to("goroutines"), 2))
	for name, b := range l.sinks {
		require.Empty(l.t, l.secrets.found(b.String()), "the sink %s", name)
	}
	require.NotEmpty(l.t, l.sinks.to("log").String())
	require.NotContains(l.t, l.sent("127.0.0.1")+l.sent("provider.test"), inbound[:12], "C6: nothing of the first hop goes out")
}

func (l *leaky) kinds() []string {
	l.secrets.mu.Lock()
	defer l.secrets.mu.Unlock()
	seen := map[string]bool{}
	for _, what := range l.secrets.all {
		seen[what] = true
	}
	var out []string
	for what := range seen {
		out = append(out, what)
	}
	slices.Sort(out)
	return out
}

func newLeaky(t *testing.T, s setup) *leaky {
	l := &leaky{secrets: &secrets{}, sinks: sinks{}}
	s.api = func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/list/") {
			rw.Header().Set("Link", `</list/inc?page=2>; rel="next"`)
			fmt.Fprint(rw, `[{"id":"1"}]`)
			return
		}
		rw.Header().Set("X-Echo", r.Header.Get("Authorization"))
		rw.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(rw, `{"error":"%s %s"}`, r.Header.Get("Authorization"), r.URL)
	}
	s.opts = func(o *connection.Options) {
		o.Cleanup = append(o.Cleanup, func(_ context.Context, c connection.Connection) error { l.sinks.show(c); return errors.New("not now") })
	}
	l.world = newWorld(t, s)
	l.secrets.add("client secret", clientSecret)
	l.secrets.add("sealing key", strings.Repeat("1", 32))
	l.secrets.add("inbound token", inbound)
	l.newInvoker()
	return l
}

// H2-70 H2-72 H2-93 C6 R10: of a connection's whole life, with an issuer and an
// API that repeat what they are sent, nothing secret comes out anywhere.
func TestNothingLeaks_H2_70_H2_72_H2_93_C6_R10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaky(t, setup{})
		l.watch()
		for _, e := range echoes {
			l.as.Recover()
			e.Endpoint = "token"
			l.as.Fail(e)
			l.consents() // fails, each time in another way
		}
		l.as.Recover()
		l.watch()
		l.call("tickets.get")
		c := l.consents()
		require.NotEmpty(t, c.ID)
		l.call("tickets.get")
		l.call("tickets.list")
		require.NotEmpty(t, l.sinks.to("cursors").String())
		resolved, err := l.resolve(l.m)
		require.NoError(t, err)
		l.sinks.show(resolved)
		l.sinks.show(resolved.Handle)
		for _, e := range echoes {
			elapse(2 * time.Hour)
			e.Endpoint = "token"
			l.as.Recover()
			l.as.Fail(e)
			l.call("tickets.get")
			l.sinks.show(l.record(c.ID))
		}
		l.as.Recover()
		l.as.Fail(authserver.Fault{Endpoint: "revoke", Before: true, Times: -1, Status: 500, Body: "%s"})
		gone, err := l.m.Disconnect(t.Context(), l.alice, c.ID)
		l.sinks.show(gone)
		if err != nil {
			l.sinks.show(err)
		}
		_, err = l.m.Resume(t.Context(), 10)
		require.NoError(t, err)
		l.call("tickets.get")
		l.verifiers()
		require.Equal(t, []string{"access_token", "browser", "client secret", "code", "inbound token", "refresh_token", "sealing key", "state", "verifier"}, l.kinds())
		l.check()
	})
}

// H2-63 H2-93: the same of an API key, in a query, and of a service account's
// private key.
func TestKeysDoNotLeak_H2_63_H2_93(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "CANARY/api+key&7f3d=\\\""
		l := newLeaky(t, setup{provider: func(p *connection.Provider) {
			p.Grant, p.Confirm, p.Secret, p.ClientAuth, p.ClientID = connection.APIKey, nil, nil, "", ""
			p.Token.BaseURL, p.Revocation.BaseURL = "", ""
			p.Placement.Query = "api_key"
		}})
		l.secrets.add("API key", key)
		req := connection.InstallRequest{Provider: "tickets", Account: "robot", Owner: authz.PrincipalKey{Tenant: "acme"}, Key: []byte(key), Scopes: []string{"read"}}
		for _, bad := range []string{"CANARY key of two words", "CANARY-key\r\nX-Evil: 1", "CANARY-kéy"} {
			odd := req
			odd.Key = []byte(bad)
			_, err := l.m.Install(t.Context(), &odd)
			require.ErrorIs(t, err, toolresult.InvalidInput, "a key that cannot be sent is not taken")
			l.secrets.add("API key", bad)
			l.sinks.show(err)
		}
		c, err := l.m.Install(t.Context(), &req)
		require.NoError(t, err)
		l.sinks.show(c)
		l.call("tickets.get")
		l.call("tickets.list")
		require.Contains(t, l.sent("provider.test"), url.QueryEscape(key)[:12], "control: the key was sent")
		l.opts.Log.Info("seen")
		l.check()
	})
	synctest.Test(t, func(t *testing.T) {
		pub, priv, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		l := newLeaky(t, setup{provider: func(p *connection.Provider) {
			p.Grant, p.Confirm, p.Secret, p.ClientAuth, p.Key, p.Assert = connection.ServiceAccount, nil, nil, connection.PublicClient, priv, "robot@acme"
		}})
		der, err := x509.MarshalPKCS8PrivateKey(priv)
		require.NoError(t, err)
		l.secrets.add("service key", string(priv.Seed()))
		l.secrets.add("service key", string(der[len(der)-32:]))
		l.as.AddClient(authserver.Client{ID: "host", Key: pub})
		l.watch()
		install(t, l.world, connection.InstallRequest{Account: "robot", Scopes: []string{"read"}})
		l.call("tickets.get")
		for _, e := range echoes {
			elapse(2 * time.Hour)
			e.Endpoint = "token"
			l.as.Recover()
			l.as.Fail(e)
			l.call("tickets.get")
		}
		l.check()
	})
}

type shown struct{ Token string }

// The control: each secret is found in each spelling, in a cut of twelve bytes.
func TestLeaksAreFound(t *testing.T) {
	const secret = "CANARY/secret+with \"odd\" & signs ü"
	s := &secrets{}
	s.add("it", secret)
	part := secret[3:25]
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	for _, text := range []string{
		secret, "x" + part, url.QueryEscape(secret), url.PathEscape(secret), string(quoted), fmt.Sprintf("%q", secret), fmt.Sprintf("%x", secret), fmt.Sprintf("%X", part),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte("a" + secret)), base64.StdEncoding.EncodeToString([]byte("ab" + part)),
		fmt.Sprint([]byte(secret)), htmltemplate.HTMLEscapeString(secret), secret[10:22],
	} {
		require.NotEmpty(t, s.found("before "+text+" after"), text)
	}
	require.Empty(t, s.found(strings.Repeat("nothing of it here; ", 100)))
	in := sinks{}
	in.show(struct{ token string }{secret})
	for _, name := range []string{"%v", "%+v", "%#v", "%s", "%x", "text/template", "slog", "panic"} {
		require.NotEmpty(t, s.found(in.to(name).String()), "a field that is not exported, in %s", name)
	}
	in.show(shown{secret})
	for _, name := range []string{"json", "xml", "gob", "html/template"} {
		require.NotEmpty(t, s.found(in.to(name).String()), name)
	}
	in.show(fmt.Errorf("a: %w", errors.New(secret)))
	require.NotEmpty(t, s.found(in.to("errors").String()))
}

// C2, H2-93: what a host gives with a secret in it, and what it is given, prints
// none of it, wherever fmt and encoders ask it.
func TestWhatHoldsASecretPrintsNone_C2_H2_93(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	s, in := &secrets{}, sinks{}
	s.add("API key", "CANARY/api+key&7f3d")
	s.add("service key", string(private))
	s.add("browser", "CANARYBROWSERSECRET")
	s.add("state", "CANARYSTATESECRET")
	for _, v := range []any{
		connection.InstallRequest{Provider: "tickets", Key: []byte("CANARY/api+key&7f3d")},
		connection.Provider{Name: "tickets", Key: private},
		connection.Departure{URL: "https://as.test/authorize?state=id.CANARYSTATESECRET", Browser: "CANARYBROWSERSECRET"},
	} {
		in.open(v)
	}
	require.Contains(t, in.to("%+v").String(), `connection.Provider("tickets")`)
	for name, b := range in {
		require.Empty(t, s.found(b.String()), name)
	}
}
