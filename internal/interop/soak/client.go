package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// counts are what happened, of all clients.
type counts struct {
	Requests  atomic.Int64 // that were sent whole
	Answers   atomic.Int64 // good ones, each held against its caller
	Refused   atomic.Int64 // errors that were due
	Cancelled atomic.Int64
	HungUp    atomic.Int64
	Malformed atomic.Int64

	Crossed atomic.Int64 // answers with something of somebody else
	Wrong   atomic.Int64 // other answers that should not be
	first   atomic.Pointer[string]
}

func (c *counts) blame(n *atomic.Int64, format string, args ...any) {
	n.Add(1)
	text := fmt.Sprintf(format, args...)
	c.first.CompareAndSwap(nil, &text)
}

// A client does one thing after the other.
type client struct {
	n      int
	url    string
	addr   string
	http   *http.Client
	random *rand.Rand
	all    *counts
	id     int
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch c.random.IntN(12) {
		case 0, 1:
			c.list(ctx, c.random.IntN(3) > 0)
		case 2, 3, 4:
			c.call(ctx, "who.am_i", true, 0, false)
		case 5:
			c.call(ctx, own(c.n), c.random.IntN(2) > 0, 5, true)
		case 6:
			c.call(ctx, "who.am_i", false, 0, c.random.IntN(2) > 0)
		case 7:
			c.hidden(ctx)
		case 8:
			c.stranger(ctx)
		case 9:
			c.cancel(ctx)
		case 10:
			c.hangUp()
		case 11:
			c.malformed(ctx)
		}
	}
}

// request is one with a body of either revision.
func (c *client) request(method, name, params string, modern bool) (*http.Request, string) {
	c.id++
	nonce := fmt.Sprintf("%s-%d", subject(c.n), c.id)
	params = strings.ReplaceAll(params, "NONCE", nonce)
	if modern {
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
		if strings.HasPrefix(params, `"_meta":{`) {
			params = meta + "," + strings.TrimPrefix(params, `"_meta":{`)
		} else {
			params = strings.TrimSuffix(meta+"},"+params, ",")
		}
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, c.id, method, params)
	r, err := http.NewRequest("POST", c.url, strings.NewReader(body))
	if err != nil {
		panic(err) // the URL is ours
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token(c.n))
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	if modern {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	}
	return r, nonce
}

// answer is the message in a response.
type answer struct {
	ID     json.RawMessage
	Result *struct {
		Tools             []struct{ Name string }
		StructuredContent struct{ Data *reply }
	}
	Error *struct{ Code int }
}

// send sends a request and reads all of the answer. It returns nil if there is
// none because ctx ended.
func (c *client) send(ctx context.Context, r *http.Request) (*answer, int, string) {
	resp, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		if ctx.Err() == nil {
			c.all.blame(&c.all.Wrong, "%s: no answer: %v", subject(c.n), err)
		}
		return nil, 0, ""
	}
	defer resp.Body.Close()
	c.all.Requests.Add(1)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		if ctx.Err() == nil {
			c.all.blame(&c.all.Wrong, "%s: half an answer: %v", subject(c.n), err)
		}
		return nil, 0, ""
	}
	c.crossed(string(text))
	if i := bytes.LastIndex(text, []byte("\ndata: ")); i >= 0 { // the last event
		text = text[i+len("\ndata: "):]
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		a = answer{}
	}
	return &a, resp.StatusCode, string(text)
}

// crossed looks for an answer to anybody else in a text.
func (c *client) crossed(text string) {
	const who = `"subject":"`
	for rest := text; ; {
		_, after, found := strings.Cut(rest, who)
		if !found {
			return
		}
		if !strings.HasPrefix(after, subject(c.n)+`"`) {
			c.all.blame(&c.all.Crossed, "%s got %s", subject(c.n), text)
			return
		}
		rest = after
	}
}

// mine holds an answer against the request.
func (c *client) mine(a *answer, status int, text string) bool {
	if a == nil {
		return false
	}
	if status != 200 || a.Result == nil || string(a.ID) != fmt.Sprint(c.id) {
		c.all.blame(&c.all.Wrong, "%s, request %d: status %d, %s", subject(c.n), c.id, status, text)
		return false
	}
	return true
}

func (c *client) list(ctx context.Context, modern bool) {
	r, _ := c.request("tools/list", "", "", modern)
	a, status, text := c.send(ctx, r)
	if !c.mine(a, status, text) {
		return
	}
	names := []string{}
	for _, t := range a.Result.Tools {
		names = append(names, t.Name)
	}
	if strings.Join(names, " ") != own(c.n)+" who.am_i" {
		c.all.blame(&c.all.Crossed, "%s sees %v", subject(c.n), names)
		return
	}
	c.all.Answers.Add(1)
}

func (c *client) call(ctx context.Context, name string, modern bool, wait int, progress bool) {
	params := fmt.Sprintf(`"name":%q,"arguments":{"nonce":"NONCE","wait":%d}`, name, wait)
	if progress {
		params = fmt.Sprintf(`"_meta":{"progressToken":%q},`, subject(c.n)) + params
	}
	r, nonce := c.request("tools/call", name, params, modern)
	a, status, text := c.send(ctx, r)
	if !c.mine(a, status, text) {
		return
	}
	if got := a.Result.StructuredContent.Data; got == nil || got.Subject != subject(c.n) || got.Nonce != nonce {
		c.all.blame(&c.all.Crossed, "%s asked with %s and got %s", subject(c.n), nonce, text)
		return
	}
	c.all.Answers.Add(1)
}

// hidden calls the tool of another kind.
func (c *client) hidden(ctx context.Context) {
	other := own(c.n + 1 + c.random.IntN(kinds-1))
	r, _ := c.request("tools/call", other, fmt.Sprintf(`"name":%q,"arguments":{"nonce":"NONCE","wait":0}`, other), c.random.IntN(2) > 0)
	c.refused(ctx, r, -32602)
}

// stranger comes with a token that nobody knows.
func (c *client) stranger(ctx context.Context) {
	r, _ := c.request("tools/call", "who.am_i", `"name":"who.am_i","arguments":{"nonce":"NONCE","wait":0}`, c.random.IntN(2) > 0)
	r.Header.Set("Authorization", "Bearer token-x")
	c.refused(ctx, r, 401)
}

func (c *client) refused(ctx context.Context, r *http.Request, code int) {
	a, status, text := c.send(ctx, r)
	switch {
	case a == nil:
	case a.Error == nil || a.Error.Code != code || string(a.ID) != fmt.Sprint(c.id):
		c.all.blame(&c.all.Wrong, "%s, request %d: status %d, %s; want %d", subject(c.n), c.id, status, text, code)
	default:
		c.all.Refused.Add(1)
	}
}

// cancel gives a call up while it runs, or a little before or after.
func (c *client) cancel(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, time.Duration(c.random.IntN(30))*time.Millisecond)
	defer stop()
	c.call(ctx, "who.am_i", c.random.IntN(3) > 0, 20, c.random.IntN(2) > 0)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.all.Cancelled.Add(1)
	}
}

// hangUp sends a part of a request and goes.
func (c *client) hangUp() {
	conn, err := net.DialTimeout("tcp", c.addr, 5*time.Second)
	if err != nil {
		c.all.blame(&c.all.Wrong, "%s: no connection: %v", subject(c.n), err)
		return
	}
	defer conn.Close()
	r, _ := c.request("tools/call", "who.am_i", `"name":"who.am_i","arguments":{"nonce":"NONCE","wait":20}`, true)
	var whole bytes.Buffer
	if r.Write(&whole) != nil {
		return
	}
	cut := 1 + c.random.IntN(whole.Len()) // sometimes all of it, and nobody waits for the answer
	_, _ = conn.Write(whole.Bytes()[:cut])
	c.all.HungUp.Add(1)
}

// malformed sends what is no request, or not quite.
func (c *client) malformed(ctx context.Context) {
	r, _ := c.request("tools/call", "who.am_i", `"name":"who.am_i","arguments":{"nonce":"NONCE","wait":0}`, c.random.IntN(2) > 0)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch at := c.random.IntN(len(body)); c.random.IntN(5) {
	case 0:
		body = body[:at]
	case 1:
		body[at] ^= byte(1 + c.random.IntN(255))
	case 2:
		body = append(append([]byte("["), body...), ']')
	case 3:
		body = bytes.Repeat([]byte("x"), 80<<10)
	case 4:
		body = append(body[:at:at], append([]byte(`,"id":1,"method":"tools/list",`), body[at:]...)...)
	}
	r.Body, r.ContentLength, r.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	resp, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		c.all.Malformed.Add(1) // a body that is too large may be cut off while it is sent
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		c.crossed(string(text))
		c.all.Malformed.Add(1)
	}
}
