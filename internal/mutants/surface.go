package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// surface stands between callers and the governed path, as a gateway does. The
// clean one passes everything on.
type surface struct {
	*Switch
	next check.Surface

	mu       sync.Mutex
	cursors  map[string]*connector.InvokeRequest // who got a cursor, and for what
	results  map[string]owned                    // by the question
	written  map[string]owned                    // of changes, by the key
	attempts int
	limited  bool // the last change was refused for its rate
}

func newSurface(s *Switch, next check.Surface) *surface {
	return &surface{Switch: s, next: next, cursors: map[string]*connector.InvokeRequest{}, results: map[string]owned{}, written: map[string]owned{}}
}

// Invoke implements [check.Surface].
func (s *surface) Invoke(ctx context.Context, in *connector.InvokeRequest) *toolresult.Result {
	req := *in
	if err := ctx.Err(); err != nil && s.is("ctx-not-checked") {
		ctx = context.WithoutCancel(ctx)
	}
	if until, ok := ctx.Deadline(); ok && time.Until(until) < time.Hour {
		if s.is("body-no-deadline") && req.Capability == "desk.get" || s.is("starts-anyway") && req.Capability == "desk.create" {
			ctx = context.WithoutCancel(ctx)
		}
	}
	s.tell(string(in.Arguments[:min(len(in.Arguments), 1000)]))
	req.Arguments = s.bare(req.Arguments)
	cursor := s.before(&req)
	if kept := s.kept(&req); kept != nil {
		return kept
	}
	if kept := s.repeated(&req); kept != nil {
		return kept
	}
	r := s.next.Invoke(ctx, &req)
	r = s.again(ctx, &req, cursor, r)
	r = s.wrote(ctx, in.Key, &req, r)
	s.after(&req, r)
	return s.show(&req, r)
}

// owned is a result and whose it is.
type owned struct {
	who authz.PrincipalKey
	r   *toolresult.Result
}

// kept is a result of an earlier call, for surfaces that keep them.
func (s *surface) kept(req *connector.InvokeRequest) *toolresult.Result {
	s.mu.Lock()
	old, ok := s.results[req.Capability+string(req.Arguments)]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	now := req.Principal.Key()
	switch failed := old.r.Error != nil; {
	case failed:
		if old.who == now && req.Capability == "desk.compare" && s.is("negative-cache") {
			return clone(old.r)
		}
	case old.who.Tenant != now.Tenant && old.who.Subject == now.Subject && s.is("cache-by-user"),
		old.who != now && s.is("cache-shared"),
		old.who == now && req.Capability == "desk.compare" && s.is("cache-by-token-user"),
		old.who == now && req.Capability == "desk.list" && s.is("stale-after-write"),
		old.who == now && req.Capability == "desk.overview" && s.is("cache-survives"):
		return clone(old.r)
	case old.who == now && req.Capability == "desk.get" && s.is("shared-result"):
		return old.r
	}
	return nil
}

func clone(r *toolresult.Result) *toolresult.Result {
	out := *r
	out.Data = bytes.Clone(r.Data)
	return &out
}

// before changes a request; it returns its cursor.
func (s *surface) before(req *connector.InvokeRequest) (cursor string) {
	var args map[string]json.RawMessage
	if !bytes.Contains(req.Arguments, []byte(`"cursor"`)) || json.Unmarshal(req.Arguments, &args) != nil || args["cursor"] == nil {
		return ""
	}
	_ = json.Unmarshal(args["cursor"], &cursor)
	s.mu.Lock()
	first := s.cursors[cursor]
	s.mu.Unlock()
	switch {
	case first == nil:
	case req.Principal.Key() != first.Principal.Key() && s.is("cursor-unbound"):
		req.Principal = first.Principal
	case !bytes.Equal(first.Arguments, without(args, "cursor")) && s.is("cursor-any-query"):
		req.Capability = first.Capability
		req.Arguments = with(first.Arguments, "cursor", args["cursor"])
	}
	return cursor
}

// again tries once more what failed, in another way.
func (s *surface) again(ctx context.Context, req *connector.InvokeRequest, cursor string, r *toolresult.Result) *toolresult.Result {
	s.mu.Lock()
	first := s.cursors[cursor]
	s.mu.Unlock()
	switch code := toolresult.Code(r.Err()); {
	case code == toolresult.CapabilityUnknown && req.Capability != "desk.get" && s.is("panic-unknown-op"):
		panic("no such tool: " + req.Capability)
	case code == toolresult.CursorInvalid && first == nil && s.is("cursor-plain"),
		code == toolresult.CursorInvalid && first != nil && first.Principal.Key() == req.Principal.Key() && s.is("cursor-immortal"):
		req.Arguments = with(req.Arguments, "cursor", nil)
		return s.next.Invoke(ctx, req)
	case code == toolresult.InvalidInput && len(req.Arguments) > 100<<10 && s.is("args-unbounded"):
		req.Arguments = json.RawMessage(`{"id":"acme-1","project":"acme-p1","ids":["acme-1"],"title":"cut"}`)
		return s.next.Invoke(ctx, s.known(req))
	case code == toolresult.InvalidInput && len(req.Arguments) < 100<<10 && s.is("no-arg-validation"):
		return s.next.Invoke(ctx, s.known(req))
	}
	return r
}

// known keeps the arguments that a capability knows, and makes up the others.
func (s *surface) known(req *connector.InvokeRequest) *connector.InvokeRequest {
	good := map[string]string{"desk.get": `{"id":"acme-1"}`, "desk.overview": `{"id":"acme-1"}`, "desk.compare": `{"ids":["acme-1"]}`,
		"desk.list": `{"project":"acme-p1"}`, "desk.search": `{}`, "desk.create": `{"project":"acme-p1","title":"cut"}`}
	out := *req
	out.Arguments = json.RawMessage(good[req.Capability])
	return &out
}

// after changes a result, and remembers what was given to whom.
func (s *surface) after(req *connector.InvokeRequest, r *toolresult.Result) {
	if r.NextCursor != "" {
		copied := *req
		copied.Arguments = with(req.Arguments, "cursor", nil)
		s.mu.Lock()
		s.cursors[r.NextCursor] = &copied
		s.mu.Unlock()
	}
	if req.Capability != "desk.create" && (r.Error == nil || r.Error.Diagnostics.HTTPStatus >= 401) {
		s.mu.Lock()
		s.results[req.Capability+string(req.Arguments)] = owned{req.Principal.Key(), r}
		s.mu.Unlock()
	}
	if r.Error != nil && r.Error.Approval != nil && s.is("hidden-field") {
		r.Error.Approval.Rendering, _, _ = strings.Cut(r.Error.Approval.Rendering, "\n")
	}
	if r.Error == nil && s.is("no-provenance") {
		r.Provenance = toolresult.Provenance{}
	}
	if r.Error != nil && r.Effect.Disposition == toolresult.EffectUnknown && s.is("unknown-retryable") {
		r.Error.Retryable = true
	}
}

func with(args json.RawMessage, name string, v json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(args, &m) != nil {
		return args
	}
	if m[name] = v; v == nil {
		delete(m, name)
	}
	out, err := json.Marshal(m)
	if err != nil {
		return args
	}
	return out
}

func without(m map[string]json.RawMessage, name string) json.RawMessage {
	text, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return with(text, name, nil)
}
