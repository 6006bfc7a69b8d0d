package mcpadapter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Prompt shows a capability that reads as a prompt: whoever may see the
// capability sees the prompt, and getting it is a call of the capability. The
// arguments of the prompt are those of the capability, as strings.
type Prompt struct {
	// Name, Title and Description are for lists; empty ones are the
	// capability's.
	Name, Title, Description string

	// Capability is the name of the capability. It has to read.
	Capability string

	// Messages turns a result that is no error into messages. Nil: one message
	// of the user with the text of the result.
	Messages func(r *toolresult.Result) ([]*mcp.PromptMessage, error)

	// Completions say how arguments are completed.
	Completions map[string]Completion

	// Tool shows the capability as a tool as well.
	Tool bool
}

// Completion proposes values for an argument of a prompt or a variable of a
// template. What it proposes comes from a call, so it is what the caller may
// see.
type Completion struct {
	// Capability is called with the argument's value so far, and with those of
	// the other arguments that have been chosen, under their names. It has to
	// read.
	Capability string

	// Values are the proposals in a result that is no error; at most 100 are
	// sent.
	Values func(r *toolresult.Result) ([]string, error)
}

const maxCompletions = 100 // of the specification

// promptName is that of a prompt.
func (p *Prompt) name() string { return first(p.Name, p.Capability) }

func checkPrompts(list []Prompt) error {
	names := map[string]bool{}
	for i := range list {
		p := &list[i]
		if names[p.name()] {
			return fmt.Errorf("mcpadapter: two prompts are called %q", p.name())
		}
		names[p.name()] = true
	}
	return nil
}

// noPrompt is the one answer for what is not there and what may not be seen.
func noPrompt() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown prompt"}
}

func (a *Adapter) listPrompts(ctx context.Context, cursor string) (*mcp.ListPromptsResult, error) {
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	if cursor != "" {
		return nil, badCursor()
	}
	seen, err := a.seen(ctx, who)
	if err != nil {
		return nil, err
	}
	out := &mcp.ListPromptsResult{Prompts: []*mcp.Prompt{}, Cacheable: private()}
	for i := range a.opts.Prompts {
		p := &a.opts.Prompts[i]
		if d, ok := seen[p.Capability]; ok {
			out.Prompts = append(out.Prompts, &mcp.Prompt{Name: p.name(), Title: first(p.Title, d.Title),
				Description: first(p.Description, d.Description), Arguments: promptArguments(d)})
		}
	}
	slices.SortFunc(out.Prompts, func(x, y *mcp.Prompt) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// promptArguments are the properties of a capability's input.
func promptArguments(d connector.Declaration) []*mcp.PromptArgument {
	var input struct {
		Properties map[string]struct {
			Title       string `json:"title"`
			Description string `json:"description"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal(d.Input, &input) != nil {
		return nil
	}
	var out []*mcp.PromptArgument
	for name, p := range input.Properties {
		if d.Kind == connector.KindList && (name == "cursor" || name == "page_size") {
			continue
		}
		out = append(out, &mcp.PromptArgument{Name: name, Title: p.Title, Description: p.Description, Required: slices.Contains(input.Required, name)})
	}
	slices.SortFunc(out, func(x, y *mcp.PromptArgument) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// getPrompt answers prompts/get.
func (a *Adapter) getPrompt(ctx context.Context, req *mcp.GetPromptRequest) (mcp.Result, error) {
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(a.opts.Prompts, func(p Prompt) bool { return p.name() == req.Params.Name })
	if i < 0 {
		return nil, noPrompt()
	}
	p := &a.opts.Prompts[i]
	if hidden, err := a.hidden(ctx, who, p.Capability); hidden || err != nil {
		return nil, orElse(err, noPrompt())
	}
	args := json.RawMessage("{}")
	if len(req.Params.Arguments) > 0 {
		if args, err = json.Marshal(req.Params.Arguments); err != nil {
			return nil, internalError()
		}
	}
	d, err := newDialogue(ctx, a, req, who, p.Capability, args, params{method: "prompts/get", name: p.name(), responses: req.Params.InputResponses, state: req.Params.RequestState})
	if err != nil {
		return nil, err
	}
	r, ask, err := d.run(ctx, a.reader(who, p.Capability))
	switch {
	case err != nil:
		return nil, rpcError(err)
	case ask != nil:
		return &asked{needs: ask}, nil
	case r.Status == toolresult.StatusError:
		return nil, readError(r, noPromptFor(r))
	}
	out := &mcp.GetPromptResult{Description: p.Description}
	if p.Messages == nil {
		text := r.Text(&toolresult.TextOptions{MaxBytes: a.opts.MaxTextBytes})
		out.Messages = []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}
	} else if out.Messages, err = p.Messages(r); err != nil {
		return nil, a.failed(ctx, "a result cannot be shown as a prompt", err)
	}
	return newWhole(out, req.ProtocolVersion(), mcp.Meta{ResultMeta: withoutData(r)}), nil
}

// noPromptFor keeps what the capability says about an object that is not there
// apart from a prompt that is not there.
func noPromptFor(r *toolresult.Result) error {
	if r.Error.Code == toolresult.CapabilityUnknown {
		return noPrompt()
	}
	return nil
}

// complete answers completion/complete.
func (a *Adapter) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := a.seen(ctx, who)
	if err != nil {
		return nil, err
	}
	ref := req.Params.Ref
	if ref == nil || req.Params.Argument.Name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "ref and argument.name are needed"}
	}
	capability, completions, missing := a.completions(ref)
	if _, ok := seen[capability]; !ok {
		return nil, missing
	}
	out := &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}
	c, ok := completions[req.Params.Argument.Name]
	if !ok || c.Values == nil {
		return out, nil
	}
	args := map[string]string{}
	if req.Params.Context != nil {
		for k, v := range req.Params.Context.Arguments {
			args[k] = v
		}
	}
	args[req.Params.Argument.Name] = req.Params.Argument.Value
	text, err := json.Marshal(args)
	if err != nil {
		return nil, internalError()
	}
	r := a.reader(who, c.Capability)(ctx, text, "")
	if r.Status == toolresult.StatusError {
		return nil, readError(r, missing)
	}
	values, err := c.Values(r)
	if err != nil {
		return nil, a.failed(ctx, "a result cannot be shown as completions", err)
	}
	more := len(values) > maxCompletions || r.NextCursor != "" || r.Truncated
	out.Completion.Values = append(out.Completion.Values, values[:min(len(values), maxCompletions)]...)
	out.Completion.HasMore = more
	return out, nil
}

// completions returns what a reference is to, and the error if it is to nothing.
func (a *Adapter) completions(ref *mcp.CompleteReference) (string, map[string]Completion, error) {
	if ref.Type == "ref/prompt" {
		for i := range a.opts.Prompts {
			if p := &a.opts.Prompts[i]; p.name() == ref.Name {
				return p.Capability, p.Completions, noPrompt()
			}
		}
		return "", nil, noPrompt()
	}
	for i := range a.resources {
		if r := &a.resources[i]; r.URI == ref.URI {
			return r.Capability, r.Completions, noResource(ref.URI)
		}
	}
	return "", nil, noResource(ref.URI)
}
