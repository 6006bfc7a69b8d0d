package mutants

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// leakMutants show a credential to somebody.
var leakMutants = []Mutant{
	{"log-token", "a debug log with the headers of every request: httputil.DumpRequestOut in a transport"},
	{"error-leaks", "a client's error with the whole request in it: %v of *http.Request, url.Error with a token in the query"},
	{"body-in-error", "the provider's body as the text of an error, which repeats what was sent"},
	{"retrieveerror-wrapped", "oauth2.RetrieveError passed on: it prints the token endpoint's answer, and some of those repeat the client's secret"},
	{"token-in-query", "access_token in the address (RFC 6750 section 2.3 says not to), where every log has it"},
	{"headers-in-result", "a debugging aid that stayed: what was sent, in the result"},
	{"audit-leak", "the request in the audit log, credential and all"},
	{"span-url", "the whole address as an attribute of a span: url.full in OpenTelemetry has to be redacted by whoever sets it"},
	{"token-in-cursor", "a cursor that is the state of a client in base64"},
	{"printable-config", "a configuration with the token in an exported field: %+v and JSON of *oauth2.Token"},
}

// bears remembers what a request bears, for the parts that show it, and borne
// returns it.
func (s *Switch) bears(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

func (s *Switch) borne() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// expose is what a layer does that sees the request as it leaves.
func (b *broker) expose(r *http.Request) {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	b.bears(token)
	if !strings.HasSuffix(r.URL.Path, "/notes") {
		return
	}
	if b.is("log-token") {
		b.log.Debug("a request", slog.Any("header", r.Header))
	}
	if b.is("token-in-query") {
		r.URL.RawQuery = "access_token=" + url.QueryEscape(token)
	}
}

// show adds to a result what was meant for debugging.
func (s *surface) show(req *connector.InvokeRequest, r *toolresult.Result) *toolresult.Result {
	status := 0
	if r.Error != nil {
		status = r.Error.Diagnostics.HTTPStatus
	}
	switch {
	case status == 503 && s.is("error-leaks"):
		cause := errors.New("GET /tickets: Authorization: Bearer " + s.borne())
		r.Error = toolresult.WrapError(r.Error.Code, "the desk failed", cause).WithDiagnostics(r.Error.Diagnostics)
	case status == 500 && s.is("body-in-error"):
		r.Error.Diagnostics.ProviderText = "we do not like Bearer " + s.borne()
	case r.Error == nil && req.Capability == "desk.overview" && s.is("headers-in-result"):
		r.Summary = "sent with Bearer " + s.borne()
	case r.NextCursor != "" && req.Capability == "desk.list" && s.is("token-in-cursor"):
		r.NextCursor += "~" + base64.RawURLEncoding.EncodeToString([]byte(`{"token":"`+s.borne()+`"}`))
	}
	if req.Progress != nil && s.is("span-url") {
		req.Progress(connector.Progress{Note: "GET http://provider.test/tickets?access_token=" + s.borne()})
	}
	return r
}

// bare takes away from a cursor what show has added.
func (s *surface) bare(args json.RawMessage) json.RawMessage {
	if !bytes.Contains(args, []byte("~")) {
		return args
	}
	var m map[string]json.RawMessage
	var cursor string
	if json.Unmarshal(args, &m) != nil || json.Unmarshal(m["cursor"], &cursor) != nil || !strings.Contains(cursor, "~") || !s.is("token-in-cursor") {
		return args
	}
	cursor, _, _ = strings.Cut(cursor, "~")
	text, err := json.Marshal(cursor)
	if err != nil {
		return args
	}
	return with(args, "cursor", text)
}

// printable is a connector with its configuration in an exported field.
type printable struct {
	whole
	mu    sync.Mutex
	Token string
}

func (d *desk) printable(c connector.Connector) connector.Connector {
	h, ok := c.(whole)
	if !ok || !d.is("printable-config") {
		return c
	}
	return &printable{whole: h}
}

// Invoke implements [connector.Connector].
func (p *printable) Invoke(ctx context.Context, call *connector.Call) (*toolresult.Result, error) {
	r, err := p.whole.Invoke(ctx, call)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Token = p.borne()
	return r, err
}
