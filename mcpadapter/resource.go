package mcpadapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// ResultMeta is the member of _meta that carries the envelope of a resource or a
// prompt without its data: whether it is whole, where it comes from.
const ResultMeta = "drawbridge.dev/result"

// Resource shows a capability that reads as a resource, or as a template of
// resources. Whoever may see the capability sees the resource in lists, and each
// reading is a call of the capability, with everything that comes with one.
type Resource struct {
	// URI is that of the resource, such as "runbook://start", or a template of
	// RFC 6570 whose variables are arguments of the capability, such as
	// "runbook://{service}". A variable stands for one segment. What a template
	// stands for has at most 512 bytes.
	URI string

	// Capability is the name of the capability. It has to read; a change is
	// never made by reading a resource.
	Capability string

	// Arguments are further arguments of the capability. No variable of the URI
	// is among them.
	Arguments map[string]any

	// Name, Title, Description and MIMEType are for lists. An empty Name is the
	// capability's, and so are the others; an empty MIMEType is that of JSON.
	Name, Title, Description, MIMEType string

	// Contents turns a result that is no error into contents. Nil: the JSON of
	// the envelope.
	Contents func(uri string, r *toolresult.Result) ([]*mcp.ResourceContents, error)

	// Completions say how variables are completed.
	Completions map[string]Completion

	// Tool shows the capability as a tool as well.
	Tool bool
}

// resource is a Resource with its template.
type resource struct {
	Resource
	template *uritemplate.Template // nil: one resource
}

// artifactTemplate is where the artifact of a data_ref is read.
const artifactTemplate = "artifact://{run}/{name}/{n}"

func newResources(list []Resource) ([]resource, error) {
	var out []resource
	for _, r := range list {
		u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(r.URI))
		if err != nil || u.Scheme == "" {
			return nil, fmt.Errorf("mcpadapter: the resource %q has no URI with a scheme", r.URI)
		}
		if u.Scheme == "artifact" {
			return nil, fmt.Errorf("mcpadapter: the resource %q has the scheme of artifacts; see Options.Artifacts", r.URI)
		}
		x := resource{Resource: r}
		if strings.Contains(r.URI, "{") {
			if x.template, err = uritemplate.New(r.URI); err != nil {
				return nil, fmt.Errorf("mcpadapter: the template %q: %w", r.URI, err)
			}
			for _, name := range x.template.Varnames() {
				if _, fixed := r.Arguments[name]; fixed {
					return nil, fmt.Errorf("mcpadapter: the template %q lets a client choose %q, which Arguments fix", r.URI, name)
				}
			}
		}
		out = append(out, x)
	}
	return out, nil
}

// arguments returns what the capability is called with for a URI, and false if
// the URI is not one of this resource.
func (r *resource) arguments(uri string) (json.RawMessage, bool) {
	args := maps.Clone(r.Arguments)
	if args == nil {
		args = map[string]any{}
	}
	switch {
	case r.template == nil && r.URI != uri:
		return nil, false
	case r.template != nil:
		match := r.template.Match(uri)
		if match == nil {
			return nil, false
		}
		for _, name := range r.template.Varnames() {
			value := match.Get(name).String()
			if value == "" {
				return nil, false
			}
			args[name] = value
		}
	}
	text, err := json.Marshal(args)
	return text, err == nil
}

// maxURI bounds a URI, in bytes. One that is held against templates is shorter:
// the time that takes grows with the square of the length.
const (
	maxURI       = 2048
	maxTemplated = 512
)

// find returns the resource that a URI belongs to.
func (a *Adapter) find(uri string) (*resource, json.RawMessage) {
	if len(uri) > maxURI || !utf8.ValidString(uri) {
		return nil, nil
	}
	for _, templates := range []bool{false, true} {
		for i := range a.resources {
			r := &a.resources[i]
			if (r.template != nil) != templates || templates && len(uri) > maxTemplated {
				continue
			}
			if args, ok := r.arguments(uri); ok {
				return r, args
			}
		}
	}
	return nil, nil
}

// seen returns what a caller may see now, by name.
func (a *Adapter) seen(ctx context.Context, who authz.Principal) (map[string]connector.Declaration, error) {
	list, err := a.inv.Visible(ctx, &connector.VisibleRequest{Principal: who, Profile: a.profile(ctx, who), Surface: surface,
		Kinds: []connector.Kind{connector.KindRead, connector.KindList}})
	if err != nil {
		return nil, a.refusal(ctx, err).rpc()
	}
	out := map[string]connector.Declaration{}
	for _, d := range list {
		out[d.Name] = d
	}
	return out, nil
}

// listResources answers resources/list; the list is whole.
func (a *Adapter) listResources(ctx context.Context, cursor string) (*mcp.ListResourcesResult, error) {
	out := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}, Cacheable: private()}
	err := a.eachSeen(ctx, cursor, func(r *resource, d connector.Declaration) {
		if r.template == nil {
			out.Resources = append(out.Resources, &mcp.Resource{URI: r.URI, Name: first(r.Name, d.Name), Title: first(r.Title, d.Title),
				Description: first(r.Description, d.Description), MIMEType: first(r.MIMEType, "application/json")})
		}
	})
	if err != nil {
		return nil, err
	}
	more, err := a.extensionResources(ctx)
	out.Resources = append(out.Resources, more...)
	return out, err
}

func (a *Adapter) listTemplates(ctx context.Context, cursor string) (*mcp.ListResourceTemplatesResult, error) {
	out := &mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{}, Cacheable: private()}
	if a.opts.Artifacts {
		out.ResourceTemplates = append(out.ResourceTemplates, &mcp.ResourceTemplate{URITemplate: artifactTemplate, Name: "artifact", Title: "Artifact",
			Description: "What is behind the data_ref of a result. It is read with the rights that the reader has now."})
	}
	err := a.eachSeen(ctx, cursor, func(r *resource, d connector.Declaration) {
		if r.template != nil {
			out.ResourceTemplates = append(out.ResourceTemplates, &mcp.ResourceTemplate{URITemplate: r.URI, Name: first(r.Name, d.Name), Title: first(r.Title, d.Title),
				Description: first(r.Description, d.Description), MIMEType: first(r.MIMEType, "application/json")})
		}
	})
	return out, err
}

func (a *Adapter) eachSeen(ctx context.Context, cursor string, each func(*resource, connector.Declaration)) error {
	who, err := a.identify(ctx)
	if err != nil {
		return err
	}
	if cursor != "" {
		return badCursor()
	}
	seen, err := a.seen(ctx, who)
	if err != nil {
		return err
	}
	for i := range a.resources {
		if d, ok := seen[a.resources[i].Capability]; ok {
			each(&a.resources[i], d)
		}
	}
	return nil
}

// badCursor is the answer to a cursor where no list has a second page.
func badCursor() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such cursor"}
}

// noResource is the one answer for what is not there and what may not be read.
func noResource(uri string) error { return mcp.ResourceNotFoundError(uri) }

// readResource answers resources/read.
func (a *Adapter) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (mcp.Result, error) {
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	uri := req.Params.URI
	if strings.HasPrefix(uri, "artifact://") {
		out, err := a.readArtifact(ctx, who, uri)
		if err != nil {
			return nil, err
		}
		return newWhole(out, req.ProtocolVersion(), nil), nil
	}
	if out, ok, err := a.readExtension(ctx, who, uri); ok {
		if err != nil {
			return nil, err
		}
		return newWhole(out, req.ProtocolVersion(), nil), nil
	}
	res, args := a.find(uri)
	if res == nil {
		return nil, noResource(uri)
	}
	if hidden, err := a.hidden(ctx, who, res.Capability); hidden || err != nil {
		return nil, orElse(err, noResource(uri))
	}
	d, err := newDialogue(ctx, a, req, who, res.Capability, args, params{method: "resources/read", name: uri, responses: req.Params.InputResponses, state: req.Params.RequestState})
	if err != nil {
		return nil, err
	}
	r, ask, err := d.run(ctx, a.reader(who, res.Capability))
	switch {
	case err != nil:
		return nil, rpcError(err)
	case ask != nil:
		return &asked{needs: ask}, nil
	case r.Status == toolresult.StatusError:
		return nil, readError(r, noResource(uri))
	}
	out := &mcp.ReadResourceResult{Cacheable: private()}
	if res.Contents != nil {
		if out.Contents, err = res.Contents(uri, r); err != nil || out.Contents == nil {
			return nil, a.failed(ctx, "a result cannot be shown as a resource", orElse(err, errors.New("the function Contents returned nothing")))
		}
	} else {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, internalError()
		}
		out.Contents = []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(text)}}
	}
	for _, c := range out.Contents {
		c.URI, c.MIMEType = first(c.URI, uri), first(c.MIMEType, res.MIMEType)
	}
	if a.tooLarge(out.Contents) {
		return nil, tooLarge()
	}
	return newWhole(out, req.ProtocolVersion(), mcp.Meta{ResultMeta: withoutData(r)}), nil
}

// orElse returns err, or what it is if it is nothing.
func orElse(err, otherwise error) error {
	if err == nil {
		return otherwise
	}
	return err
}

// reader returns the call of a capability behind a resource or a prompt, which
// was found to read when the adapter was made.
func (a *Adapter) reader(who authz.Principal, capability string) func(context.Context, json.RawMessage, string) *toolresult.Result {
	return func(ctx context.Context, args json.RawMessage, _ string) *toolresult.Result {
		return a.inv.Invoke(ctx, &connector.InvokeRequest{Principal: who, Capability: capability, Arguments: args, Profile: a.profile(ctx, who), Surface: surface})
	}
}

// hidden reports whether a caller may not see a capability. It is asked before
// anything that could tell a caller that there is one; the call asks again.
func (a *Adapter) hidden(ctx context.Context, who authz.Principal, capability string) (bool, error) {
	seen, err := a.seen(ctx, who)
	_, ok := seen[capability]
	return !ok, err
}

// reads refuses a capability that is not there or may change something, for
// what is shown as a resource or a prompt.
func (a *Adapter) reads(what, capability string) error {
	d, ok := a.inv.Declaration(capability)
	switch {
	case !ok:
		return fmt.Errorf("mcpadapter: %s: there is no capability %q", what, capability)
	case d.Kind != connector.KindRead && d.Kind != connector.KindList:
		return fmt.Errorf("mcpadapter: %s: the capability %q is not one that reads", what, capability)
	}
	return nil
}

// readArtifact reads what is behind a data_ref; having the ref grants nothing.
func (a *Adapter) readArtifact(ctx context.Context, who authz.Principal, uri string) (*mcp.ReadResourceResult, error) {
	ref, err := artifact.ParseRef(uri)
	if err != nil || !a.opts.Artifacts || len(uri) > maxURI {
		return nil, noResource(uri)
	}
	meta, body, err := a.inv.ReadArtifact(ctx, &connector.ArtifactRequest{Principal: who, Ref: ref})
	if err != nil {
		return nil, readError(toolresult.Failure(newCallID(), err), noResource(uri))
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, a.maxContents()+1))
	switch {
	case err != nil:
		return nil, a.failed(ctx, "an artifact cannot be read", err)
	case int64(len(text)) > a.maxContents():
		return nil, tooLarge()
	}
	c := &mcp.ResourceContents{URI: uri, MIMEType: meta.MediaType}
	if utf8.Valid(text) {
		c.Text = string(text)
	} else {
		c.Blob = text
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}, Cacheable: private()}, nil
}

const defaultContents = 4 << 20

func (a *Adapter) maxContents() int64 {
	if a.opts.MaxContentBytes != 0 {
		return a.opts.MaxContentBytes
	}
	return defaultContents
}

func (a *Adapter) tooLarge(list []*mcp.ResourceContents) bool {
	n := 0
	for _, c := range list {
		n += len(c.Text) + len(c.Blob)
	}
	return int64(n) > a.maxContents()
}

func tooLarge() error {
	return readError(toolresult.Failure(newCallID(), toolresult.NewError(toolresult.ResultTooLarge, "this is over the limit of one answer; ask for less")), nil)
}

// readError is the JSON-RPC error for a result that is one: with the envelope,
// or, for what is not there and what may not be read, missing.
func readError(r *toolresult.Result, missing error) error {
	switch r.Error.Code {
	case toolresult.CapabilityUnknown, toolresult.NotFound, toolresult.PermissionDenied:
		if missing != nil {
			return missing
		}
	case toolresult.AuthenticationRequired:
		return refusal{status: 401, code: r.Error.Code, message: "the caller is not known"}.rpc()
	}
	out := &jsonrpc.Error{Code: applicationError, Message: r.Error.Error()}
	if r.Error.Code == toolresult.InvalidInput {
		out.Code = jsonrpc.CodeInvalidParams
	}
	if text, err := json.Marshal(r); err == nil {
		out.Data = text
	}
	return out
}

// applicationError is a code outside of what JSON-RPC and MCP keep for
// themselves. What happened is in the error's data, which is an envelope.
const applicationError = 1

// rpcError makes a JSON-RPC error of what ended a request before its call.
func rpcError(err error) error {
	if e, ok := errors.AsType[*toolresult.Error](err); ok {
		return readError(toolresult.Failure(newCallID(), e), nil)
	}
	return err
}

// withoutData is an envelope whose data went into contents. Its member is left
// out and not null, which would say that nothing matched.
func withoutData(r *toolresult.Result) json.RawMessage {
	text, err := json.Marshal(r)
	members := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	delete(members, "data")
	if err == nil {
		text, err = json.Marshal(members)
	}
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}

func first(texts ...string) string {
	if i := slices.IndexFunc(texts, func(s string) bool { return s != "" }); i >= 0 {
		return texts[i]
	}
	return ""
}

// asked is the answer to a resources/read or a prompts/get that asks back.
type asked struct {
	mcp.ResultBase
	needs *needs
}

// MarshalJSON implements [json.Marshaler].
func (a *asked) MarshalJSON() ([]byte, error) { return a.needs.json(a.GetMeta()) }

// whole is an answer to a resources/read or a prompts/get that is complete. The
// SDK says so only of answers that it asked a handler of its own for.
type whole struct {
	mcp.ResultBase
	answer mcp.Result
	modern bool
}

func newWhole(answer mcp.Result, version string, meta mcp.Meta) *whole {
	w := &whole{answer: answer, modern: version >= modernVersion}
	w.SetMeta(meta)
	return w
}

// MarshalJSON implements [json.Marshaler].
func (w *whole) MarshalJSON() ([]byte, error) {
	w.answer.SetMeta(w.GetMeta())
	text, err := json.Marshal(w.answer)
	if err != nil || !w.modern {
		return text, err
	}
	return append(text[:len(text)-1], `,"resultType":"complete"}`...), nil
}
