package functioncall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall/dialect"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// StatusTool is the name of the tool that looks an operation up.
const StatusTool = "operation_status"

// Options are options of [Definitions] and [Dispatch]; give both the same. The
// zero value offers everything that the caller sees, and refuses changes.
type Options struct {
	// Strict asks OpenAI or Azure to hold the model to the schema. Tools whose
	// schema they cannot take so are offered without, and that is a [Loss]. It
	// means nothing for the others.
	Strict bool

	// Profile names the profile that the caller works under; see
	// [connector.InvokeRequest].
	Profile string

	// OperationID gives the operation key of a change, the same for every
	// attempt at the same intent. It must be the runtime's choice and never
	// come from the arguments; the vendor's id of the call together with the
	// host's id of the conversation is a good one. Nil or "": the change is
	// refused. It is called from one goroutine.
	OperationID func(ctx context.Context, c *Call) string

	// Run is the run that calls belong to, for audit and policy.
	Run string

	// Progress is told how far each call is. May be nil. It must not block, and
	// is called from several goroutines.
	Progress func(callID string, p connector.Progress)

	// Envelope gives the model the whole envelope as JSON. Otherwise it gets
	// [toolresult.Result.Text].
	Envelope bool

	// MaxTextBytes bounds that text. 0: 32 KiB.
	MaxTextBytes int
}

// A Toolset is what a request to a model holds.
type Toolset struct {
	// Tools are sorted by the capability's name. They are the request's tools,
	// but for Gemini, where they are functionDeclarations of one tool, and
	// Bedrock, where they are toolConfig.tools.
	Tools  []json.RawMessage
	Losses []Loss // also which tools are not offered
}

// surface is what calls say about themselves to audit and policy.
const surface = "functioncall"

// Definitions returns the tools that the principal may see now, in the form of
// the vendor. Seeing is not being allowed: [Dispatch] asks again. opts may be
// nil. A tool that has no form for the vendor is left out and among the losses. The
// errors are those of [connector.Invoker.Visible], and a vendor that there is not.
func Definitions(ctx context.Context, inv *connector.Invoker, who authz.Principal, v Vendor, opts *Options) (*Toolset, error) {
	if err := v.check(inv); err != nil {
		return nil, err
	}
	o := complete(opts)
	visible, err := see(ctx, inv, who, &o)
	if err != nil {
		return nil, err
	}
	out := &Toolset{Tools: []json.RawMessage{}}
	taken := map[string]string{}
	writes := false
	for i := range visible {
		d := &visible[i]
		name := toolName(d.Name)
		if other, ok := taken[name]; ok || name == StatusTool {
			out.drop(name, fmt.Sprintf("%q cannot be told from %q; rename one", d.Name, max(other, StatusTool)))
			continue
		}
		taken[name] = d.Name
		writes = writes || d.Kind == connector.KindWrite
		if err := out.add(v, &o, name, d.Description, d.Input); err != nil {
			return nil, err
		}
	}
	if writes {
		if err := out.add(v, &o, StatusTool, statusDescription, json.RawMessage(statusInput)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (v Vendor) check(inv *connector.Invoker) error {
	switch {
	case inv == nil:
		return errors.New("functioncall: an Invoker is needed")
	case rules[v].plain == nil:
		return errors.New("functioncall: the vendor is not one of this package's constants")
	}
	return nil
}

func complete(opts *Options) Options {
	if opts == nil {
		return Options{}
	}
	return *opts
}

func see(ctx context.Context, inv *connector.Invoker, who authz.Principal, o *Options) ([]connector.Declaration, error) {
	return inv.Visible(ctx, &connector.VisibleRequest{Principal: who, Profile: o.Profile, Surface: surface,
		Kinds: []connector.Kind{connector.KindRead, connector.KindList, connector.KindWrite}})
}

// maxName is the shortest bound of a vendor. Names of capabilities keep it.
const maxName = 64

// toolName writes a capability's name as vendors take it, and capability reads
// it back. Names of capabilities hold no hyphen.
func toolName(capability string) string { return strings.ReplaceAll(capability, ".", "-") }

// capability returns "" for what toolName does not return.
func capability(tool string) string {
	if strings.Contains(tool, ".") || len(tool) > maxName {
		return ""
	}
	return strings.ReplaceAll(tool, "-", ".")
}

const statusDescription = "Says what became of a change that was sent, by the operation_id of its result. " +
	"Use it when a result's effect is unknown or pending. It never sends the change again."

const statusInput = `{"type":"object","properties":{"operation_id":{"type":"string","description":"effect.operation_id of the result"}},` +
	`"required":["operation_id"],"additionalProperties":false}`

// add projects one tool. One that has no form is left out and reported: it must
// not take the others with it.
func (s *Toolset) add(v Vendor, o *Options, name, description string, input json.RawMessage) error {
	p, strict, err := v.project(name, input, o.Strict)
	if err != nil {
		s.drop(name, err.Error())
		return nil
	}
	said, lost := rules[v].plain.Describe(name, description)
	def, err := v.definition(name, said, p, strict)
	if err != nil {
		return err
	}
	s.Tools = append(s.Tools, def)
	s.Losses = append(append(s.Losses, lost...), p.Losses...)
	return nil
}

func (s *Toolset) drop(name, why string) {
	s.Losses = append(s.Losses, Loss{Tool: name, Kind: dialect.Dropped, What: "is not offered: " + why})
}

// text is what a model gets of a result.
func (o *Options) text(r *toolresult.Result) (string, error) {
	if !o.Envelope {
		return r.Text(&toolresult.TextOptions{MaxBytes: o.MaxTextBytes}), nil
	}
	text, err := r.AppendJSON(nil)
	return string(text), err
}
