package mcpadapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

//lint:file-ignore SA1019 logging, sampling and roots are deprecated, and clients still have them

// A PrincipalFunc says who makes a request. It is called once for every request
// and from many goroutines.
//
// Over HTTP, req is the request that arrived, without its body; headers and the
// TLS state are what identity comes from. Over stdio req is nil, and the answer
// comes from the host's environment.
//
// An error means that nobody is known. Over HTTP its code chooses the status:
// PERMISSION_DENIED and INSUFFICIENT_SCOPE are 403, POLICY_UNAVAILABLE,
// PROVIDER_UNAVAILABLE, RATE_LIMITED and TIMEOUT are 503, and everything else
// is 401. Its text goes to [Options.Logger] only. If it or its cause has a method
// Challenge() string, that is the answer's WWW-Authenticate; it is "Bearer"
// otherwise.
type PrincipalFunc func(ctx context.Context, req *http.Request) (authz.Principal, error)

// A Change is a call for which an operation key is wanted.
type Change struct {
	Principal  authz.Principal
	Capability string

	// Arguments are the model's. They are for correlation in the host, and no
	// key should be made of them: the same words twice can be two intents.
	Arguments []byte
}

// Options are options of [New]. Zero fields take the values in the comments.
type Options struct {
	// Name and Version are what the server calls itself. Empty: "drawbridge"
	// and "0".
	Name, Version string

	// Instructions are for models that use the server. Empty: none.
	Instructions string

	// Profile names the profile that a caller works under; see
	// [connector.InvokeRequest]. Nil or "": no narrowing.
	Profile func(ctx context.Context, who authz.Principal) string

	// OperationID gives the operation key of a change whose call carries none
	// in _meta. Nil or "": such a change is refused. It must be the runtime's
	// choice and never come from the arguments.
	OperationID func(ctx context.Context, c *Change) string

	// Resources and Prompts show capabilities that read as resources and
	// prompts. Such a capability is no tool unless they say so. Nil: none.
	Resources []Resource
	Prompts   []Prompt

	// Extensions are further methods and resources, such as package skills
	// serves. Nil: none.
	Extensions []Extension

	// Artifacts lets callers read what is behind a data_ref as a resource,
	// with the rights that they have then. False: there are none here.
	Artifacts bool

	// Content adds what a client can show to the text of a tool's result: an
	// image, a link to a resource. It is asked for results that are no error,
	// and what it adds is bounded by MaxContentBytes. Nil: nothing.
	Content func(ctx context.Context, capability string, r *toolresult.Result) []mcp.Content

	// Ask says what a host wants to ask the client's user before a capability
	// is called, such as which of several projects is meant. Nil: nothing.
	Ask func(ctx context.Context, a *Asking) (*Questions, error)

	// ApprovalURL returns the page on which a person sees and approves a
	// change, by the id of the approval. The page is the host's and has to know
	// who looks at it. Nil or "": hosts show approvals in another way.
	ApprovalURL func(ctx context.Context, who authz.Principal, approval string) string

	// StateKey names the one of StateKeys that seals what travels through a
	// client while it is asked something; the others open. Keys have 32 random
	// bytes, and ids 1 to 32 letters, digits, dashes and underscores. Nil: a
	// key that ends with the process, which replicas do not share.
	StateKey  string
	StateKeys map[string][]byte

	// Spent remembers which of these have been used. Nil: in memory, which
	// replicas do not share.
	Spent SpentStore

	// Subscriptions lets clients subscribe to resources; the host says with
	// [Adapter.ResourceUpdated] when one has changed.
	Subscriptions bool

	// Logging lets clients ask for log messages, which are the notes of a
	// call's progress. It is deprecated in revision 2026-07-28.
	Logging bool

	// MaxRequestBytes bounds the body of an HTTP request and a line of stdio.
	// 0: 1 MiB. Arguments have a limit of their own, 256 KiB.
	MaxRequestBytes int64

	// MaxTextBytes bounds the text beside a structured result. 0: 32 KiB.
	MaxTextBytes int

	// MaxContentBytes bounds the contents of a resource, and what Content adds.
	// 0: 4 MiB.
	MaxContentBytes int64

	// Hosts lists the values of the Host header that HTTP serves, with or
	// without a port ("mcp.example.com"). Nil: every one, but only a loopback
	// name on a loopback address, against DNS rebinding.
	Hosts []string

	// Origins lists the web origins ("https://app.example.com") whose pages
	// may call over HTTP. Nil: none but the server's own.
	Origins []string

	// SessionTimeout lets clients of revisions before 2026-07-28 have sessions
	// over HTTP, without which they can be asked nothing; one that is not used
	// for so long ends. A session proves nothing: every request is
	// authenticated. Sessions are in one process, so that a client has to come
	// back to the same replica. 0: no sessions.
	SessionTimeout time.Duration

	// Logger gets what operators need: why a caller is not known, and what is
	// wrong with a declaration. Nil: nothing is logged.
	Logger *slog.Logger
}

// Adapter serves an Invoker over MCP. It is made by [New], is safe for
// concurrent use, and keeps nothing about a caller.
type Adapter struct {
	inv      *connector.Invoker
	who      PrincipalFunc
	opts     Options
	origins  *http.CrossOriginProtection
	front    *mcp.Server // for connections that stay; HTTP when the policy cannot be asked
	classes  classes
	views    views
	metas    metas
	states   *states
	sessions *sessions // nil: none
	work     *work
	streams  streams

	resources []resource
	notTools  map[string]bool // capabilities that are shown as something else

	serverInfo []byte // _meta of every result of revision 2026-07-28
	long       bool   // nothing is answered without the SDK; for tests

	mu    sync.Mutex
	tools map[string]*tool // by capability; declarations never change
}

const (
	defaultRequestBytes = 1 << 20
	surface             = "mcp"
)

// New returns an adapter. who is needed: there is no caller by default.
// opts may be nil.
func New(inv *connector.Invoker, who PrincipalFunc, opts *Options) (*Adapter, error) {
	switch {
	case inv == nil:
		return nil, errors.New("mcpadapter: New needs an Invoker")
	case who == nil:
		return nil, errors.New("mcpadapter: New needs a PrincipalFunc; without one nobody is known, and nothing is served")
	}
	a := &Adapter{inv: inv, who: who, tools: map[string]*tool{}, work: newWork()}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Name == "" {
		a.opts.Name = "drawbridge"
	}
	if a.opts.Version == "" {
		a.opts.Version = "0"
	}
	if a.opts.MaxRequestBytes == 0 {
		a.opts.MaxRequestBytes = defaultRequestBytes
	}
	if a.opts.MaxRequestBytes < 0 || a.opts.MaxTextBytes < 0 || a.opts.MaxContentBytes < 0 || a.opts.SessionTimeout < 0 {
		return nil, errors.New("mcpadapter: a limit in Options is negative; 0 is the default")
	}
	a.opts.Hosts = slices.Clone(a.opts.Hosts)
	var err error
	if a.origins, err = trust(a.opts.Origins); err != nil {
		return nil, err
	}
	if err := a.show(); err != nil {
		return nil, err
	}
	if a.states, err = newStates(a.opts.StateKey, a.opts.StateKeys, a.opts.Spent); err != nil {
		return nil, err
	}
	a.opts.StateKeys = nil // whoever prints the adapter does not print them
	status, err := statusTool()
	if err != nil {
		return nil, err
	}
	a.tools[StatusTool] = status
	if a.serverInfo, err = marshal(mcp.Meta{mcp.MetaKeyServerInfo: a.implementation()}); err != nil {
		return nil, err
	}
	a.opts.Extensions = slices.Clone(a.opts.Extensions)
	if err := a.install(mcp.NewServer(a.implementation(), nil)); err != nil {
		return nil, err
	}
	a.front = a.server(nil)
	if a.opts.SessionTimeout > 0 {
		a.sessions = newSessions(a, a.opts.SessionTimeout)
	}
	return a, nil
}

// show takes over what is shown as something else than tools.
func (a *Adapter) show() (err error) {
	a.opts.Prompts = slices.Clone(a.opts.Prompts)
	if a.resources, err = newResources(a.opts.Resources); err != nil {
		return err
	}
	a.notTools = map[string]bool{}
	shown := func(what, capability string, tool bool, completions map[string]Completion) {
		a.notTools[capability] = !tool
		err = errors.Join(err, a.reads(what, capability))
		for _, c := range completions {
			err = errors.Join(err, a.reads("a completion of "+what, c.Capability))
		}
	}
	for _, r := range a.resources {
		shown(fmt.Sprintf("the resource %q", r.URI), r.Capability, r.Tool, r.Completions)
	}
	for _, p := range a.opts.Prompts {
		shown(fmt.Sprintf("the prompt %q", p.name()), p.Capability, p.Tool, p.Completions)
	}
	if err != nil {
		return err
	}
	return checkPrompts(a.opts.Prompts)
}

// server makes a server of the SDK without tools. ids makes the ids of its
// sessions; nil is the SDK's own way.
func (a *Adapter) server(ids func() string) *mcp.Server {
	opts := &mcp.ServerOptions{
		Instructions: a.opts.Instructions,
		Capabilities: a.capabilities(),
		GetSessionID: ids,
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { *c = private() },
	}
	if a.opts.Subscriptions { // serve and send decide
		opts.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
		opts.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	}
	s := mcp.NewServer(&mcp.Implementation{Name: a.opts.Name, Version: a.opts.Version}, opts)
	_ = a.install(s) // New has tried it
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler { return a.serve(s, next) })
	s.AddSendingMiddleware(a.send)
	return s
}

func (a *Adapter) implementation() *mcp.Implementation {
	return &mcp.Implementation{Name: a.opts.Name, Version: a.opts.Version}
}

// capabilities are what the adapter offers to everybody, whether or not there is
// something in it for them.
func (a *Adapter) capabilities() *mcp.ServerCapabilities {
	c := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
	if len(a.resources) > 0 || a.opts.Artifacts {
		c.Resources = &mcp.ResourceCapabilities{Subscribe: a.opts.Subscriptions}
	}
	if len(a.opts.Prompts) > 0 {
		c.Prompts = &mcp.PromptCapabilities{}
	}
	if len(a.resources)+len(a.opts.Prompts) > 0 {
		c.Completions = &mcp.CompletionCapabilities{}
	}
	if a.opts.Logging {
		c.Logging = &mcp.LoggingCapabilities{}
	}
	for _, e := range a.opts.Extensions {
		e.Capabilities(c)
	}
	return c
}

// private is the hint on every list: what is in it depends on who asks, and may
// be taken away at any time.
func private() mcp.Cacheable { return mcp.Cacheable{CacheScope: "private"} }

// served reports whether there is a method. The SDK knows more.
func (a *Adapter) served(method string) bool {
	c := a.capabilities()
	switch method {
	case "initialize", "ping", "server/discover", "tools/list", "tools/call",
		"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed":
		return true
	case "resources/list", "resources/templates/list", "resources/read":
		return c.Resources != nil
	case "prompts/list", "prompts/get":
		return c.Prompts != nil
	case "completion/complete":
		return c.Completions != nil
	case "resources/subscribe", "resources/unsubscribe", "subscriptions/listen":
		return c.Resources != nil && a.opts.Subscriptions
	case "logging/setLevel":
		return c.Logging != nil
	}
	return a.extended(method)
}

// Connect serves one connection over a transport of the SDK, such as one end of
// [mcp.NewInMemoryTransports], and returns its session. It refuses to start when
// the [PrincipalFunc] knows nobody without an HTTP request.
func (a *Adapter) Connect(ctx context.Context, t mcp.Transport) (*mcp.ServerSession, error) {
	ctx = context.WithValue(ctx, requestKey{}, (*request)(nil)) // what belongs to another request stays there
	if _, err := a.who(ctx, nil); err != nil {
		return nil, toolresult.WrapError(toolresult.AuthenticationRequired, "mcpadapter: the host says nobody is calling, and nothing is served", err)
	}
	return a.front.Connect(ctx, t, nil)
}

// A request is what is known about one HTTP request.
type request struct {
	principal authz.Principal
	class     *class // nil: the policy cannot be asked, or it is a session
}

type requestKey struct{}

// caller says who makes the request that ctx belongs to.
func (a *Adapter) caller(ctx context.Context) (authz.Principal, error) {
	if r, _ := ctx.Value(requestKey{}).(*request); r != nil {
		return r.principal, nil
	}
	return a.who(ctx, nil)
}

// serve answers what depends on who asks, and leaves the rest to the SDK.
// Everything is asked anew with each request.
func (a *Adapter) serve(s *mcp.Server, next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if !a.served(method) {
			return nil, unknownMethod()
		}
		ctx = a.sessions.call(ctx, req)
		a.negotiated(ctx, method, req)
		r, _ := ctx.Value(requestKey{}).(*request)
		switch req := req.(type) {
		case *mcp.ListToolsRequest:
			if r == nil || r.class == nil { // otherwise the server is the class's, and has its tools
				return orError(a.list(ctx))
			}
		case *mcp.CallToolRequest:
			if r == nil || r.class == nil {
				return answer(ctx, req, a.callFront)
			}
			return answer(ctx, req, a.callClass)
		case *mcp.ListResourcesRequest:
			return orError(a.listResources(ctx, cursorOf(req.Params)))
		case *mcp.ListResourceTemplatesRequest:
			return orError(a.listTemplates(ctx, cursorOf(req.Params)))
		case *mcp.ListPromptsRequest:
			return orError(a.listPrompts(ctx, cursorOf(req.Params)))
		case *mcp.ReadResourceRequest:
			return guarded(ctx, a, req, a.readResource)
		case *mcp.GetPromptRequest:
			return guarded(ctx, a, req, a.getPrompt)
		case *mcp.CompleteRequest:
			return guarded(ctx, a, req, func(ctx context.Context, req *mcp.CompleteRequest) (mcp.Result, error) {
				return orError(a.complete(ctx, req))
			})
		case *mcp.SubscriptionsListenRequest:
			return a.listen(ctx, s, req, func(ctx context.Context) (mcp.Result, error) { return next(ctx, method, req) })
		case *mcp.SubscribeRequest:
			return a.subscribe(ctx, s, req, func(ctx context.Context) (mcp.Result, error) { return next(ctx, method, req) })
		case *mcp.UnsubscribeRequest:
			if req.Params != nil {
				a.streams.remove(req.Session, req.Params.URI)
			}
		}
		return next(ctx, method, req)
	}
}

// cursorOf returns the cursor of a listing's parameters, which may be missing.
func cursorOf(p mcp.Params) string {
	switch p := p.(type) {
	case *mcp.ListResourcesParams:
		if p != nil {
			return p.Cursor
		}
	case *mcp.ListResourceTemplatesParams:
		if p != nil {
			return p.Cursor
		}
	case *mcp.ListPromptsParams:
		if p != nil {
			return p.Cursor
		}
	}
	return ""
}

// guarded keeps a panic of the host's functions from ending the process, in a
// goroutine of the SDK.
func guarded[R mcp.Request](ctx context.Context, a *Adapter, req R, do func(context.Context, R) (mcp.Result, error)) (_ mcp.Result, err error) {
	defer a.recovered(ctx, &err)
	return do(ctx, req)
}

func (a *Adapter) recovered(ctx context.Context, err *error) {
	if r := recover(); r != nil {
		a.log(ctx, "a call panicked", slog.String("panic", fmt.Sprint(r)), slog.String("stack", string(debug.Stack())))
		*err = internalError()
	}
}

// identify says who makes a request, or the error for nobody.
func (a *Adapter) identify(ctx context.Context) (authz.Principal, error) {
	who, err := a.caller(ctx)
	if err != nil {
		return authz.Principal{}, a.refusal(ctx, err).rpc()
	}
	return who, nil
}

// answer runs a call. The SDK would do it for tools that it knows, and would
// write the result three times over.
func answer(ctx context.Context, req *mcp.CallToolRequest, call func(context.Context, *mcp.CallToolRequest) (*result, error)) (mcp.Result, error) {
	if req.Params == nil {
		return nil, unknownTool()
	}
	return orError(call(ctx, req))
}

// orError keeps a nil result from becoming an interface that is not nil.
func orError[T any, P interface {
	*T
	mcp.Result
}](r P, err error) (mcp.Result, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (a *Adapter) list(ctx context.Context) (*mcp.ListToolsResult, error) {
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	c, err := a.classOf(ctx, who)
	if err != nil {
		return nil, a.refusal(ctx, err).rpc()
	}
	return &mcp.ListToolsResult{Tools: c.list(), Cacheable: private()}, nil
}

// callFront runs a tool for whom the host says. For one that is known to be a
// tool Invoke alone decides; it is the same to it whether a capability is hidden
// or not there. But nothing is asked about a tool that the caller may not see.
func (a *Adapter) callFront(ctx context.Context, req *mcp.CallToolRequest) (*result, error) {
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	asks := a.opts.Ask != nil || a.opts.OperationID != nil || req.Params.RequestState != ""
	if t := a.known(req.Params.Name); t != nil && t.tool.Name != StatusTool && !asks {
		return a.call(ctx, req, who, t)
	}
	c, err := a.classOf(ctx, who)
	switch {
	case toolresult.Code(err) == toolresult.AuthenticationRequired:
		return nil, a.refusal(ctx, err).rpc()
	case err != nil: // Invoke says so in an envelope, and to audit
		return a.call(ctx, req, who, nil)
	}
	t := c.tools[req.Params.Name]
	if t == nil {
		return nil, unknownTool()
	}
	return a.call(ctx, req, who, t)
}

// known returns a tool that somebody has seen.
func (a *Adapter) known(name string) *tool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tools[name]
}

// unknownTool is the one answer for a tool that is not there and one that may
// not be seen.
func unknownTool() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool"}
}

func unknownMethod() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
}

func internalError() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}

// negotiated logs what a client says about itself when it introduces itself:
// the revision and what it can do. That is another fact than that somebody
// connected, which the host's server logs.
func (a *Adapter) negotiated(ctx context.Context, method string, req mcp.Request) {
	if a.opts.Logger == nil || !a.opts.Logger.Enabled(ctx, slog.LevelInfo) {
		return
	}
	var version string
	var info *mcp.Implementation
	var c *mcp.ClientCapabilities
	switch r := req.(type) {
	case *mcp.ServerRequest[*mcp.InitializeParams]:
		if r.Params != nil {
			version, info, c = r.Params.ProtocolVersion, r.Params.ClientInfo, r.Params.Capabilities
		}
	case *mcp.ServerRequest[*mcp.DiscoverParams]:
		version, info, c = r.ProtocolVersion(), r.ClientInfo(), r.ClientCapabilities()
	default:
		return
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("protocol_version", note(version))}
	if info != nil { // the client's words
		attrs = append(attrs, slog.String("client", note(info.Name)), slog.String("client_version", note(info.Version)))
	}
	if c != nil {
		form := c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
		attrs = append(attrs, slog.Bool("form", form), slog.Bool("url", c.Elicitation != nil && c.Elicitation.URL != nil),
			slog.Bool("sampling", c.Sampling != nil), slog.Bool("roots", c.RootsV2 != nil))
	}
	a.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "a client negotiated", attrs...)
}

func (a *Adapter) log(ctx context.Context, text string, attrs ...slog.Attr) {
	if a.opts.Logger != nil {
		a.opts.Logger.LogAttrs(ctx, slog.LevelWarn, text, attrs...)
	}
}
