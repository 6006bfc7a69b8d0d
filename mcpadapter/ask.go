package mcpadapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

//lint:file-ignore SA1019 sampling and roots are deprecated, and clients still have them

// Asking is a call, before it is made, for which a host may want to ask the
// client's user something.
type Asking struct {
	Principal  authz.Principal
	Capability string
	Arguments  json.RawMessage // as the model proposed them, not validated yet

	// Answers are those to the questions so far, in all rounds. Each is of the
	// kind that was asked for and fits the form. They come from the client: an
	// answer is data, and proves nothing.
	Answers map[string]mcp.InputResponse

	// Client is what the client says that it can do; nil if it says nothing.
	Client *mcp.ClientCapabilities
}

// Questions is what a host wants to ask, or the end of asking.
type Questions struct {
	// Ask are the questions, by names of the host's choice. A form may only
	// ask for harmless choices: one with a field for a secret is refused, and
	// so is the call. A client that cannot answer all of them is told what it
	// lacks. Nil: there is nothing to ask.
	//
	// A form is an *[mcp.ElicitParams] with a RequestedSchema, a page for the
	// user one with a URL. Sampling and roots are possible and deprecated.
	Ask mcp.InputRequestMap

	// Arguments are what the capability is called with when there is nothing to
	// ask. They are validated like a model's. Nil: what the model proposed.
	Arguments json.RawMessage
}

// needs is an answer that asks back.
type needs struct {
	requests mcp.InputRequestMap
	state    string
}

func (n *needs) json(meta mcp.Meta) ([]byte, error) {
	return json.Marshal(struct {
		Type     string              `json:"resultType"`
		Requests mcp.InputRequestMap `json:"inputRequests"`
		State    string              `json:"requestState"`
		Meta     mcp.Meta            `json:"_meta,omitempty"`
	}{"input_required", n.requests, n.state, meta})
}

// A dialogue is one request with everything that is asked on its way, over one
// round or several.
type dialogue struct {
	a          *Adapter
	who        authz.Principal
	session    *mcp.ServerSession
	modern     bool                           // the request comes again with the answers; otherwise a session is asked
	client     func() *mcp.ClientCapabilities // read when it matters: reading it costs more than many a call
	capability string
	arguments  json.RawMessage
	binding    binding

	state     state
	known     bool // state came with the request and was good
	responses mcp.InputResponseMap
}

// params is what requests that may ask back have in common.
type params struct {
	method, name string
	responses    mcp.InputResponseMap
	state        string
	operation    string
}

func newDialogue[P mcp.Params](ctx context.Context, a *Adapter, req *mcp.ServerRequest[P], who authz.Principal, capability string, args json.RawMessage, p params) (*dialogue, error) {
	d := &dialogue{a: a, who: who, session: req.Session, modern: req.ProtocolVersion() >= modernVersion, client: req.ClientCapabilities,
		capability: capability, arguments: args, responses: p.responses,
		binding: binding{who: who.Key(), method: p.method, name: p.name, operation: p.operation}}
	if p.state == "" {
		return d, nil
	}
	d.binding.arguments = digestOf(args)
	st, err := a.states.open(ctx, d.binding, p.state)
	if err != nil {
		return nil, err
	}
	d.state, d.known = st, true
	return d, nil
}

// modernVersion is the first revision without sessions.
const modernVersion = "2026-07-28"

// digestOf is the same for arguments that mean the same.
func digestOf(args json.RawMessage) string {
	if text, err := strictjson.Canonical(args); err == nil {
		args = text
	}
	return strictjson.Digest(string(args))
}

// maxRounds bounds how often one session is asked for one call.
const maxRounds = 10

// run asks what the host wants to know, makes the call, and asks for what only a
// person can do about its result. It returns the result, or what to ask.
func (d *dialogue) run(ctx context.Context, do func(ctx context.Context, args json.RawMessage, approval string) *toolresult.Result) (*toolresult.Result, *needs, error) {
	for range maxRounds {
		args, ask, err := d.questions(ctx)
		if err != nil {
			return nil, nil, err
		}
		if ask == nil {
			approval := d.accepted(ctx)
			r := do(ctx, args, approval)
			if ask = d.consent(ctx, r); ask == nil {
				return r, nil, nil
			}
		}
		if d.modern {
			n, err := d.seal(ask)
			return nil, n, err
		}
		if err := d.askSession(ctx, ask); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client was asked too often"}
}

func (d *dialogue) seal(ask mcp.InputRequestMap) (*needs, error) {
	d.binding.arguments = digestOf(d.arguments)
	text, err := d.a.states.seal(d.binding, d.state)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the answers are too long"}
	}
	return &needs{requests: ask, state: text}, nil
}

// questions asks the host. It returns the arguments for the call, or questions
// to which there is no answer yet.
func (d *dialogue) questions(ctx context.Context) (json.RawMessage, mcp.InputRequestMap, error) {
	if d.a.opts.Ask == nil {
		return d.arguments, nil, nil
	}
	answers, err := d.answers()
	if err != nil {
		return nil, nil, err
	}
	for range maxRounds {
		q, err := d.a.opts.Ask(ctx, &Asking{Principal: d.who, Capability: d.capability, Arguments: slices.Clone(d.arguments), Answers: maps.Clone(answers), Client: d.client()})
		if err != nil {
			return nil, nil, d.a.failed(ctx, "the host cannot say what to ask", err)
		}
		switch {
		case q == nil:
			return d.arguments, nil, nil
		case len(q.Ask) == 0 && q.Arguments == nil:
			return d.arguments, nil, nil
		case len(q.Ask) == 0:
			return q.Arguments, nil, nil
		}
		if err := d.a.checkQuestions(ctx, q.Ask); err != nil {
			return nil, nil, err
		}
		if lacks := d.lacks(q.Ask); lacks != nil {
			return nil, nil, d.cannotAsk(lacks)
		}
		open, err := d.take(q.Ask, answers)
		if err != nil || len(open) > 0 {
			return nil, open, err
		}
	}
	return nil, nil, d.a.failed(ctx, "the host asks without an end", errors.New(d.capability))
}

// answers are those of earlier rounds.
func (d *dialogue) answers() (map[string]mcp.InputResponse, error) {
	out := mcp.InputResponseMap{}
	if len(d.state.Answers) == 0 {
		return out, nil
	}
	text, err := json.Marshal(d.state.Answers)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return nil, badState()
	}
	return out, nil
}

// take moves the answers that fit from the request to the answers, and returns
// the questions that are still open. A question that was declined ends the call.
func (d *dialogue) take(ask mcp.InputRequestMap, answers map[string]mcp.InputResponse) (mcp.InputRequestMap, error) {
	open := mcp.InputRequestMap{}
	for name, question := range ask {
		r := d.responses[name]
		if e, ok := r.(*mcp.ElicitResult); ok && e != nil && (e.Action == "decline" || e.Action == "cancel") {
			return nil, declined()
		}
		if !d.fits(question, r) {
			open[name] = question
			continue
		}
		delete(d.responses, name)
		answers[name] = r
		text, err := json.Marshal(r)
		if err != nil {
			return nil, internalError()
		}
		if d.state.Answers == nil {
			d.state.Answers = map[string]json.RawMessage{}
		}
		d.state.Answers[name] = text
	}
	return open, nil
}

func declined() error {
	return toolresult.NewError(toolresult.Cancelled, "the user was asked, and did not agree; nothing was done")
}

// fits reports whether an answer is one to the question. That a page was seen is
// believed of a client that was sent to it; what is filled in a form may come
// with the first request as well.
func (d *dialogue) fits(question mcp.InputRequest, answer mcp.InputResponse) bool {
	switch q := question.(type) {
	case *mcp.ElicitParams:
		a, ok := answer.(*mcp.ElicitResult)
		return ok && a != nil && a.Action == "accept" && (q.URL != "" && d.known || q.URL == "" && fitsForm(q.RequestedSchema, a.Content))
	case *mcp.ListRootsParams:
		a, ok := answer.(*mcp.ListRootsResult)
		return ok && a != nil
	default:
		a, ok := answer.(*mcp.CreateMessageWithToolsResult)
		return ok && a != nil
	}
}

func fitsForm(form any, content map[string]any) bool {
	want, err := json.Marshal(form)
	if err != nil {
		return false
	}
	have, err := json.Marshal(content)
	return err == nil && schema.FitsForm(want, have)
}

// checkQuestions refuses what a host must not ask in a form.
func (a *Adapter) checkQuestions(ctx context.Context, ask mcp.InputRequestMap) error {
	for name, q := range ask {
		e, ok := q.(*mcp.ElicitParams)
		if !ok {
			continue
		}
		var err error
		if e.URL != "" {
			err = checkURL(e.URL)
		} else {
			err = checkForm(name, e)
		}
		if err != nil {
			return a.failed(ctx, "a question of the host is refused", fmt.Errorf("%q: %w", name, err))
		}
	}
	return nil
}

func checkURL(u string) error {
	if !strings.HasPrefix(u, "https://") && !strings.HasPrefix(u, "http://localhost:") && !strings.HasPrefix(u, "http://127.0.0.1:") && !strings.HasPrefix(u, "http://[::1]:") {
		return errors.New("the page is not at an https URL")
	}
	return nil
}

// checkForm looks at everything in a form that a person fills in. The message is
// free text, in which the words may be about something else.
func checkForm(name string, e *mcp.ElicitParams) error {
	text, err := json.Marshal(e.RequestedSchema)
	if err != nil {
		return errors.New("the form's schema is not JSON")
	}
	if schema.AsksForSecret(name) {
		return schema.ErrSecretForm
	}
	return schema.CheckForm(text)
}

// lacks names what a client would have to be able to do, as the member of
// requiredCapabilities; nil if it can do everything.
func (d *dialogue) lacks(ask mcp.InputRequestMap) map[string]any {
	out := map[string]any{}
	for _, q := range ask {
		switch q := q.(type) {
		case *mcp.ElicitParams:
			mode := "form"
			if q.URL != "" {
				mode = "url"
			}
			if !d.can(mode) {
				modes, _ := out["elicitation"].(map[string]any)
				if modes == nil {
					modes = map[string]any{}
				}
				modes[mode] = struct{}{}
				out["elicitation"] = modes
			}
		case *mcp.ListRootsParams:
			if !d.can("roots") {
				out["roots"] = struct{}{}
			}
		default:
			if !d.can("sampling") {
				out["sampling"] = struct{}{}
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// can reports whether the client says that it can be asked in this way. One
// that says nothing more than elicitation has forms.
func (d *dialogue) can(mode string) bool {
	c := d.client()
	if c == nil {
		return false
	}
	switch mode {
	case "form":
		return c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
	case "url":
		return c.Elicitation != nil && c.Elicitation.URL != nil
	case "sampling":
		return c.Sampling != nil
	}
	return c.RootsV2 != nil || c.Roots.ListChanged
}

// cannotAsk is the refusal for a client that lacks what a question needs.
func (d *dialogue) cannotAsk(lacks map[string]any) error {
	if !d.modern {
		return toolresult.NewError(toolresult.Unsupported, "the user has to be asked something first, and this client cannot ask")
	}
	data, err := json.Marshal(map[string]any{"requiredCapabilities": lacks})
	if err != nil {
		return internalError()
	}
	return &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the user has to be asked something first, and the client does not declare that it can", Data: data}
}

// askSession asks a client of an older revision, which has to be there while
// its call runs, and keeps the answers for the next round.
func (d *dialogue) askSession(ctx context.Context, ask mcp.InputRequestMap) error {
	d.responses, d.known = mcp.InputResponseMap{}, true
	for _, name := range slices.Sorted(maps.Keys(ask)) {
		var r mcp.InputResponse
		var err error
		switch q := ask[name].(type) {
		case *mcp.ElicitParams:
			r, err = orNothing(d.session.Elicit(ctx, q))
		case *mcp.CreateMessageParams:
			var m *mcp.CreateMessageResult
			if m, err = d.session.CreateMessage(ctx, q); err == nil {
				r = &mcp.CreateMessageWithToolsResult{Model: m.Model, Role: m.Role, StopReason: m.StopReason, Content: []mcp.Content{m.Content}}
			}
		case *mcp.CreateMessageWithToolsParams:
			r, err = orNothing(d.session.CreateMessageWithTools(ctx, q))
		case *mcp.ListRootsParams:
			r, err = orNothing(d.session.ListRoots(ctx, q))
		}
		if err != nil {
			d.a.log(ctx, "a client did not answer a question", slog.String("error", err.Error()))
			return toolresult.NewError(toolresult.Cancelled, "the client was asked, and gave no answer that fits; nothing was done")
		}
		d.responses[name] = r
	}
	return nil
}

// orNothing keeps a nil answer from becoming an interface that is not nil.
func orNothing[T any, P interface {
	*T
	mcp.InputResponse
}](p P, err error) (mcp.InputResponse, error) {
	if err != nil || p == nil {
		return nil, err
	}
	return p, nil
}

// failed is the answer when a part of the host is wrong. The text is the
// operator's.
func (a *Adapter) failed(ctx context.Context, text string, err error) error {
	a.log(ctx, text, slog.String("error", err.Error()))
	return internalError()
}

// asResult makes an envelope of what ended a call before it was made.
func asResult(err error) (*toolresult.Result, error) {
	if e, ok := errors.AsType[*toolresult.Error](err); ok {
		return toolresult.Failure(newCallID(), e), nil
	}
	return nil, err
}
