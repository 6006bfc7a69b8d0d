package mcpwire

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Headers of the protocol.
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderSession = "Mcp-Session-Id"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
	HeaderParam   = "Mcp-Param-"
)

// HTTP is one server over Streamable HTTP. Its methods are safe for concurrent
// use.
type HTTP struct {
	URL    string
	Client Client
	Frame  int64 // most bytes of an answer
}

// Status is an answer of HTTP that holds no message: another status than 2xx.
type Status struct {
	Code   int
	Header http.Header
}

// Error implements error.
func (s *Status) Error() string {
	return "the MCP server answered with the HTTP status " + http.StatusText(s.Code)
}

// Request builds the request of a message. The version of a peer that was not
// agreed with is empty for initialize, and [Modern] otherwise.
func (h *HTTP) Request(ctx context.Context, p *Peer, m *Message) (*http.Request, error) {
	body, err := m.Encode(h.Client, p)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case p == nil || p.Modern():
		r.Header.Set(HeaderVersion, Modern)
		r.Header.Set(HeaderMethod, m.Method)
		if m.Name != "" {
			r.Header.Set(HeaderName, headerValue(m.Name))
		}
		for k, v := range m.Headers {
			r.Header.Set(k, v)
		}
	case p.Version != "":
		r.Header.Set(HeaderVersion, p.Version)
	}
	if p != nil && p.Session != "" {
		r.Header.Set(HeaderSession, p.Session)
	}
	return r, nil
}

// Do sends a message with a client that the caller chose, and returns the answer
// and the headers that it came with. A notification has no answer.
func (h *HTTP) Do(ctx context.Context, client *http.Client, p *Peer, m *Message) (*Answer, http.Header, error) {
	r, err := h.Request(ctx, p, m)
	if err != nil {
		return nil, nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, h.Frame+1))
	if err != nil {
		return nil, resp.Header, err
	}
	if int64(len(body)) > h.Frame {
		return nil, resp.Header, FaultFrame
	}
	ok := resp.StatusCode/100 == 2
	if m.ID == "" && ok {
		return nil, resp.Header, nil
	}
	a, err := ParseAnswer(resp.Header.Get("Content-Type"), body, m.ID)
	if !ok && forgotten(p, resp.StatusCode, a) {
		return nil, resp.Header, &Status{http.StatusNotFound, resp.Header}
	}
	if !ok && (err != nil || a.Err == nil || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) {
		return nil, resp.Header, &Status{resp.StatusCode, resp.Header}
	}
	return a, resp.Header, err
}

// forgotten reports whether a server does not know a session any more, such as
// after a restart. The revisions with sessions say 404; many servers say 400, and
// put an error beside it whose code means nothing.
func forgotten(p *Peer, status int, a *Answer) bool {
	if p == nil || p.Session == "" {
		return false
	}
	own := a == nil || a.Err == nil || !a.Err.Refuses()
	return status == http.StatusNotFound || status == http.StatusGone || status == http.StatusBadRequest && own
}

// AnyID lets ParseAnswer take the answer to whatever request.
const AnyID = "\x00any"

// ParseAnswer finds the answer to a request in the body of an answer of HTTP.
func ParseAnswer(contentType string, body []byte, id string) (*Answer, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && kind == "application/json":
		return one(body, id)
	case err == nil && kind == "text/event-stream":
		return stream(body, id)
	}
	return nil, FaultContentType
}

func one(body []byte, id string) (*Answer, error) {
	a, got, ok, err := parseMessage(body)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, FaultNoAnswer
	case !mine(got, id, a):
		return nil, FaultID
	}
	return a, nil
}

// mine compares ids. An error about a request that could not be read has none.
func mine(got any, id string, a *Answer) bool {
	return id == AnyID || got == id || got == nil && a.Err != nil
}

// mostEvents is how many events one answer may have.
const mostEvents = 10_000

// stream reads server-sent events up to the answer. What comes before it are
// notifications, which are not needed, and requests, which nobody answers.
func stream(body []byte, id string) (*Answer, error) {
	asks := false
	n := 0
	for data := range events(body) {
		if n++; n > mostEvents {
			return nil, FaultFlood
		}
		a, got, ok, err := parseMessage(data)
		switch {
		case err != nil:
			return nil, err
		case ok && mine(got, id, a):
			return a, nil
		case ok:
			return nil, FaultID
		}
		asks = asks || got != nil
	}
	if asks {
		return nil, FaultAsks
	}
	return nil, FaultNoAnswer
}

// events yields the data of each event that is a message.
func events(body []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		text := strings.TrimPrefix(string(body), "\ufeff")
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
		var data []string
		name := ""
		for line := range strings.SplitSeq(text+"\n\n", "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case line == "":
				if len(data) > 0 && (name == "" || name == "message") && strings.Join(data, "") != "" && !yield([]byte(strings.Join(data, "\n"))) {
					return
				}
				data, name = nil, ""
			case field == "data":
				data = append(data, value)
			case field == "event":
				name = value
			}
		}
	}
}

// headerValue writes a value that is not plain ASCII, or that looks as if it had
// been written so, as =?base64?...?=.
func headerValue(s string) string {
	plain := s != "" && s == strings.TrimSpace(s) && (!strings.HasPrefix(s, "=?base64?") || !strings.HasSuffix(s, "?="))
	for i := range len(s) {
		plain = plain && s[i] >= ' ' && s[i] <= '~'
	}
	if plain || s == "" {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}
