package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// repeated is what a surface does with a key that it has seen: a result, or
// another key.
func (s *surface) repeated(req *connector.InvokeRequest) *toolresult.Result {
	if req.Capability != "desk.create" {
		return nil
	}
	s.keyless(req.Key == "")
	s.mu.Lock()
	old, ok := s.written[req.Key]
	limited := s.limited
	s.mu.Unlock()
	switch {
	case limited && !ok && s.is("key-lost-after-429"):
		req.Key += "-lost"
	case !ok || req.Key == "":
	case old.who != req.Principal.Key() && s.is("key-global"):
		return clone(old.r)
	case old.who == req.Principal.Key() && s.is("idem-dropped"):
		s.mu.Lock()
		s.attempts++
		req.Key, req.Approval = fmt.Sprintf("%s-attempt-%d", req.Key, s.attempts), ""
		s.mu.Unlock()
	}
	return nil
}

// wrote is what a surface makes of the result of a change.
func (s *surface) wrote(ctx context.Context, key string, req *connector.InvokeRequest, r *toolresult.Result) *toolresult.Result {
	if req.Capability != "desk.create" {
		return r
	}
	s.mu.Lock()
	old, ok := s.written[key]
	s.mu.Unlock()
	unknown := r.Effect.Disposition == toolresult.EffectUnknown
	lost := r.Error != nil && r.Error.Diagnostics.HTTPStatus == 0
	switch {
	case toolresult.Code(r.Err()) == toolresult.ApprovalRequired:
		return r
	case toolresult.Code(r.Err()) == toolresult.Conflict && ok && old.who == req.Principal.Key() && s.is("key-ignores-args"):
		return clone(old.r)
	case unknown && lost && ctx.Err() == nil && s.is("drop-is-not-applied"), unknown && ctx.Err() != nil && s.is("cancel-is-not-applied"):
		r.Effect = toolresult.Effect{Disposition: toolresult.EffectNotApplied}
	case unknown && lost && ctx.Err() == nil && s.is("drop-is-success"):
		return toolresult.Applied(r.CallID, r.Effect.OperationID, json.RawMessage(`{"id":"acme-1","project":"acme-p1","title":"new","size":"0"}`))
	case r.Effect.Disposition == toolresult.EffectNotApplied && lost && s.is("all-unknown"):
		r.Effect.Disposition = toolresult.EffectUnknown
	}
	s.mu.Lock()
	s.limited = toolresult.Code(r.Err()) == toolresult.RateLimited
	s.written[key] = owned{req.Principal.Key(), r}
	s.mu.Unlock()
	return r
}

// keyless and isKeyless tell the host whether the caller gave a key.
func (s *Switch) keyless(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noKey = yes
}

func (s *Switch) isKeyless() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noKey
}

// hop is a proxy on the way to the provider. The clean one passes every byte on.
func (h *host) hop(to *check.Host) {
	if to.Options.Egress == nil {
		return
	}
	eg := *to.Options.Egress
	dial := eg.Dial
	eg.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		c, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		return &replaying{Conn: c, host: h, again: func() (net.Conn, error) { return dial(context.WithoutCancel(ctx), addr) }}, nil
	}
	to.Options.Egress = &egress.Options{Resolve: eg.Resolve, Dial: eg.Dial}
}

// replaying keeps what is sent on a connection, to be able to send it again.
type replaying struct {
	net.Conn
	host  *host
	again func() (net.Conn, error)

	mu   sync.Mutex
	sent bytes.Buffer
	done bool // something came back, or it was sent again
}

// Write implements [net.Conn].
func (c *replaying) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *replaying) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := n == 0 && err == io.EOF && !c.done && strings.HasPrefix(c.sent.String(), http.MethodPost)
	c.done = true
	if !lost || !(c.host.isKeyless() && c.host.is("retry-without-key") || !c.host.isKeyless() && c.host.is("getbody-set")) {
		return n, err
	}
	next, err := c.again()
	if err != nil {
		return 0, io.EOF
	}
	_ = c.Conn.Close()
	c.Conn = next
	if _, err := next.Write(c.sent.Bytes()); err != nil {
		return 0, io.EOF
	}
	return next.Read(p)
}

// rekey is what a layer does to the key of a change on its way out.
func (b *broker) rekey(r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if r.Method != http.MethodPost || key == "" {
		return
	}
	b.mu.Lock()
	b.sent[key]++
	n := b.sent[key]
	b.mu.Unlock()
	switch {
	case n > 1 && b.is("retry-new-key"):
		r.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", key, n))
	case b.is("no-dedupe"):
		r.Header.Del("Idempotency-Key")
	}
}
