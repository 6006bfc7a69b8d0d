package mcpwire

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"
)

// Link is a way to a server before anything was agreed.
type Link interface {
	// Send sends a message. A nil peer is one with whom nothing was agreed. The
	// headers are nil unless the way is HTTP.
	Send(ctx context.Context, p *Peer, m *Message) (*Answer, http.Header, error)
}

// Negotiate finds out which revision the server speaks, the newest first.
// probe, if over 0, is how long a server may be silent to a method that it does
// not know, before it counts as one of the older revisions.
func Negotiate(ctx context.Context, l Link, c Client, probe time.Duration) (*Peer, error) {
	p, err := discover(ctx, l, probe)
	if p != nil || err != nil {
		return p, err
	}
	return initialize(ctx, l, c)
}

// discover returns nil and nil for a server of an older revision.
func discover(ctx context.Context, l Link, probe time.Duration) (*Peer, error) {
	inner := ctx
	if probe > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeout(ctx, probe)
		defer cancel()
	}
	for try := 0; ; try++ {
		a, _, err := l.Send(inner, nil, &Message{ID: "discover", Method: "server/discover"})
		switch {
		case err != nil && ctx.Err() == nil && (older(err) || inner.Err() != nil):
			return nil, nil
		case err != nil:
			return nil, err
		case a.Err != nil && a.Err.Code == CodeVersion && try == 0 && offers(a.Err.Data):
			continue // it says no, and that it speaks it
		case a.Err != nil && a.Err.Code == CodeVersion && offersNothing(a.Err.Data):
			return nil, FaultVersion
		case a.Err != nil:
			return nil, nil
		}
		if err := a.Complete(); err != nil {
			return nil, err
		}
		return peerOf(a.Result)
	}
}

// older reports whether a failure is one with which a server of an older
// revision meets what it does not know: any but those that say who may not.
func older(err error) bool {
	s, ok := errors.AsType[*Status](err)
	return ok && Older(s.Code)
}

// Older reports whether a status can be a server's of an older revision to what
// it does not know.
func Older(status int) bool {
	return !slices.Contains([]int{401, 403, 407, 408, 429, 502, 503, 504}, status)
}

func versions(v any, key string) (out []string, ok bool) {
	o, _ := v.(map[string]any)
	l, ok := o[key].([]any)
	for _, e := range l {
		if s, isText := e.(string); isText {
			out = append(out, s)
		}
	}
	return out, ok
}

func offers(data any) bool {
	list, _ := versions(data, "supported")
	return slices.Contains(list, Modern)
}

func offersNothing(data any) bool {
	list, ok := versions(data, "supported")
	return ok && !slices.ContainsFunc(list, func(v string) bool { return v == Modern || slices.Contains(Legacy, v) })
}

func peerOf(r map[string]any) (*Peer, error) {
	list, ok := versions(r, "supportedVersions")
	switch {
	case !ok:
		return nil, FaultResult
	case !slices.Contains(list, Modern):
		return nil, nil // it may speak an older one
	}
	meta, _ := r["_meta"].(map[string]any)
	p := &Peer{Version: Modern, Server: clientOf(meta["io.modelcontextprotocol/serverInfo"])}
	p.Instructions, _ = r["instructions"].(string)
	p.Capabilities, _ = r["capabilities"].(map[string]any)
	return p, nil
}

func clientOf(v any) (c Client) {
	o, _ := v.(map[string]any)
	c.Name, _ = o["name"].(string)
	c.Version, _ = o["version"].(string)
	return c
}

// initialize is the handshake of the revisions with sessions.
func initialize(ctx context.Context, l Link, c Client) (*Peer, error) {
	a, header, err := l.Send(ctx, &Peer{}, &Message{ID: "initialize", Method: "initialize", Params: map[string]any{
		"protocolVersion": Legacy[0], "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": c.Name, "version": c.Version},
	}})
	switch {
	case err != nil:
		return nil, err
	case a.Err != nil && (a.Err.Code == CodeVersion || a.Err.Code == CodeMethod || a.Err.Code == CodeParams):
		return nil, FaultVersion
	case a.Err != nil:
		return nil, a.Err
	}
	p := &Peer{Server: clientOf(a.Result["serverInfo"])}
	p.Version, _ = a.Result["protocolVersion"].(string)
	if !slices.Contains(Legacy, p.Version) {
		return nil, FaultVersion
	}
	p.Instructions, _ = a.Result["instructions"].(string)
	p.Capabilities, _ = a.Result["capabilities"].(map[string]any)
	if header != nil {
		if p.Session = header.Get(HeaderSession); !sessionForm(p.Session) {
			return nil, FaultSession
		}
	}
	_, _, err = l.Send(ctx, p, &Message{Method: "notifications/initialized"})
	return p, err
}

// sessionForm: visible ASCII, of a length that a header may have.
func sessionForm(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= 1024
}
