// Package cli makes a program with JSON output, such as gh or kubectl, a
// connector: each command that the operator describes is a governed capability.
//
//	c, err := cli.New(&cli.Program{
//		Info: connector.Info{ID: "cluster", Version: "1.0.0", Owner: "platform", Auth: connector.Auth{Mode: connector.AuthNone}},
//		Path: "/usr/bin/kubectl", Rules: rules, Executor: executor,
//		Commands: []cli.Command{{
//			Name: "cluster.pods", Class: reads, Input: schema, Output: pods,
//			Args: []cli.Arg{{Text: "get"}, {Text: "pods"}, {Text: "--output=json"}, {Text: "--namespace=", From: "namespace"}, {Text: "--"}, {From: "name"}},
//		}},
//	})
//
// # Arguments
//
// The argument vector is the operator's, with places for what a model says. No
// shell reads it, and a value is never more than one argument. A value on its
// own that begins with a dash is refused unless "--" stands before it, so that
// none becomes an option that nobody declared; behind "--name=" it may be
// anything that the schema permits. A value that is left out leaves out its
// argument, which only the last of those on their own may do.
//
// # What runs
//
// The executor runs the program under the rules: with its files, its hosts, its
// time and its variables. Env gives the caller's credential as variables; what
// the program prints is rid of those of at least 8 bytes. Rules and executor are asked before a
// change is recorded as sent, so that a sandbox that refuses is no unknown
// effect.
//
// # Answers
//
// Exit code 0 and one strict JSON text on standard output are an answer. Other
// exit codes are the codes that the command says, or PROVIDER_ERROR; more than
// the rules' max_output_bytes is RESULT_TOO_LARGE and never half an answer. What
// the program says on standard error is kept for people, as a stranger's. A
// change that has begun and did not end with 0 is an unknown effect.
//
// # What this package does not do
//
// Every call touches the whole connection: nothing holds a program to one object.
// It cannot look up what became of a change. It knows nothing of a program's own
// conventions, such as "@file" for the contents of a file: say in the schema
// (pattern, enum) what a value may be, and in the rules which files there are.
package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Program is a program as the operator describes it.
type Program struct {
	// Info is the connector's. Its Auth is AuthNone: the credential is a matter
	// of Env. It has no Endpoint.
	Info connector.Info

	// Path is the program, absolute; Dir where it starts. Empty: the workspace
	// of the rules. Pins fix its contents; see sandbox.Command.
	Path, Dir string
	Pins      []sandbox.Pin

	Rules    *sandbox.Rules
	Executor sandbox.Executor

	// Env returns the variables for one caller, such as a token. Each is listed
	// in the rules' credentials.env, and its value is taken to be secret. Nil:
	// none.
	Env func(ctx context.Context, who authz.Principal) (map[string]string, error)

	// Commands are those that may be used.
	Commands []Command
}

// Command is one capability.
type Command struct {
	// Name, Title and Description are as in connector.Spec.
	Name, Title, Description string

	// Class says what it may change and reveal. A command that changes
	// something is approved by a person each time.
	Class risk.Class

	// Input is the schema of the arguments: an object whose properties are
	// strings, integers, booleans, or lists of strings or integers, each of
	// which is used in Args. Output is that of the answer.
	Input, Output json.RawMessage

	// Args are the argument vector.
	Args []Arg

	// Exit says what exit codes other than 0 mean. Others: PROVIDER_ERROR.
	Exit map[int]toolresult.ErrorCode

	// NoMatch are exit codes that say that nothing matched. Only for reads.
	NoMatch []int

	// Limits bound one call.
	Limits connector.Limits
}

// Arg is an element of the argument vector, or a place for some.
type Arg struct {
	// Text stands as it is. With From it is an option that ends with "=" and
	// has the value behind it, or, for a boolean, the option that stands there
	// if it is true.
	Text string

	// From names the property of Input whose value stands here; a list stands
	// here once for each of its elements. Empty: Text alone.
	From string
}

// Connector is a program behind the governed path. It is safe for concurrent
// use.
type Connector struct {
	program  Program
	commands map[string]*command
	manifest connector.Manifest
}

type command struct {
	Command
	writes bool
}

// New checks the description. It starts nothing. The error lists all that is
// wrong.
func New(p *Program) (*Connector, error) {
	if p == nil {
		return nil, invalid("", "there is no program")
	}
	c := &Connector{program: *p, commands: map[string]*command{}}
	c.manifest.Info = p.Info
	errs := []error{p.Rules.Check()}
	if p.Executor == nil {
		errs = append(errs, invalid("", "there is no executor"))
	}
	if p.Info.Auth.Mode != connector.AuthNone || p.Info.Endpoint != "" {
		errs = append(errs, invalid("", "a program has no endpoint and AuthNone: its credential is a matter of Env"))
	}
	if errs[0] == nil {
		errs = append(errs, p.Rules.CheckCommand(&sandbox.Command{Path: p.Path, Dir: p.Dir, Pins: p.Pins}))
	}
	for i := range p.Commands {
		k := &command{Command: p.Commands[i], writes: p.Commands[i].Class.SideEffect != risk.ReadOnly}
		errs = append(errs, k.check()...)
		if c.commands[k.Name] != nil {
			errs = append(errs, invalid(k.Name, "is described twice"))
		}
		c.commands[k.Name] = k
		c.manifest.Capabilities = append(c.manifest.Capabilities, k.declaration())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

func invalid(name, text string) error {
	return fmt.Errorf("cli: %q %s: %w", name, text, toolresult.NewError(toolresult.InvalidInput, "the description of a program is wrong").With("/commands", text))
}

func (k *command) declaration() connector.Declaration {
	d := connector.Declaration{
		Kind: connector.KindRead, Name: k.Name, Title: k.Title, Description: k.Description, Class: k.Class,
		Input: k.Input, Output: k.Output, Limits: k.Limits,
	}
	if k.writes {
		d.Kind, d.Approval = connector.KindWrite, connector.ApprovalAlways
	}
	return d
}

// Manifest implements connector.Connector.
func (c *Connector) Manifest() connector.Manifest {
	m := c.manifest
	m.Capabilities = slices.Clone(m.Capabilities)
	return m
}

// Invoke implements connector.Connector.
func (c *Connector) Invoke(ctx context.Context, call *connector.Call) (*toolresult.Result, error) {
	k := c.commands[call.Capability()]
	if k == nil {
		return nil, toolresult.NewError(toolresult.Internal, "the connector has no such capability")
	}
	run, err := c.prepare(ctx, call, k)
	if err != nil {
		return nil, err
	}
	if k.writes {
		if err := call.Dispatch(ctx); err != nil {
			return nil, err
		}
	}
	res, err := run.start(ctx, c.program.Executor, c.program.Rules)
	if err != nil {
		return nil, err
	}
	return run.answer(ctx, call, k, res)
}

// A run is one start of the program.
type run struct {
	command sandbox.Command
	out, er bounded
	secrets []string
}

// prepare does everything that can refuse before a change is recorded as sent.
func (c *Connector) prepare(ctx context.Context, call *connector.Call, k *command) (*run, error) {
	args, err := k.vector(call.Arguments())
	if err != nil {
		return nil, err
	}
	p := &c.program
	r := &run{command: sandbox.Command{Path: p.Path, Dir: p.Dir, Pins: p.Pins, Args: args}}
	if err := c.environment(ctx, call.Principal(), r); err != nil {
		return nil, err
	}
	r.out.left, r.er.left = p.Rules.MaxOutput, min(p.Rules.MaxOutput, 64<<10)
	r.command.Stdout, r.command.Stderr = &r.out, &r.er
	if err := p.Rules.CheckCommand(&r.command); err != nil {
		return nil, err
	}
	rep, err := p.Executor.Probe(ctx, p.Rules)
	if err != nil {
		return nil, err
	}
	return r, rep.Check(p.Rules, &r.command)
}

// environment asks for the caller's variables, and remembers them as secrets, the
// longest first: one may be the beginning of another.
func (c *Connector) environment(ctx context.Context, who authz.Principal, r *run) (err error) {
	if c.program.Env == nil {
		return nil
	}
	if r.command.Env, err = c.program.Env(ctx, who); err != nil {
		return err
	}
	for _, v := range r.command.Env {
		r.secret(v)
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return nil
}

func (r *run) start(ctx context.Context, x sandbox.Executor, rules *sandbox.Rules) (*sandbox.Result, error) {
	running, err := x.Start(ctx, rules, &r.command)
	if err != nil {
		return nil, err
	}
	return running.Wait()
}

// answer says what the end of the program means.
func (r *run) answer(ctx context.Context, call *connector.Call, k *command, res *sandbox.Result) (*toolresult.Result, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case res.TimedOut:
		return nil, toolresult.NewError(toolresult.Timeout, "the program did not end in time")
	case slices.Contains(k.NoMatch, res.ExitCode) && res.Signal == "":
		return toolresult.NoMatch(call.ID()), nil
	case res.ExitCode != 0 || res.Signal != "":
		return nil, r.failed(k, res)
	case res.Truncated || r.out.cut:
		return nil, toolresult.NewError(toolresult.ResultTooLarge, "the program printed more than the rules permit")
	}
	data, err := r.data()
	if err != nil && !(k.writes && len(bytes.TrimSpace(r.out.Bytes())) == 0) {
		return nil, err
	}
	out := toolresult.Complete(call.ID(), data)
	if op, ok := call.Operation(); ok && k.writes {
		out.Effect = toolresult.Effect{Disposition: toolresult.EffectApplied, OperationID: op.ID}
	}
	out.Provenance = toolresult.Provenance{Object: k.Name, Sources: []toolresult.Provenance{{Service: call.Capability(), Object: k.Name, FetchedAt: time.Now().UTC()}}}
	return out, nil
}

// data is what was printed, as one strict JSON text without the secrets. Each text
// in it is looked at as it is read: a program may write a slash or a letter in any
// of the ways that JSON knows.
func (r *run) data() (json.RawMessage, error) {
	v, err := strictjson.Parse(r.out.Bytes())
	if err != nil {
		return nil, toolresult.WrapError(toolresult.ProviderError, "the program did not print one JSON text", err)
	}
	var b bytes.Buffer
	if clean, changed := r.without(v); changed {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(clean); err != nil {
			return nil, toolresult.WrapError(toolresult.ProviderError, "the program did not print one JSON text", err)
		}
		return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
	}
	if err := json.Compact(&b, r.out.Bytes()); err != nil {
		return nil, toolresult.WrapError(toolresult.ProviderError, "the program did not print one JSON text", err)
	}
	return b.Bytes(), nil
}

// without returns a value without the secrets, and whether there was one.
func (r *run) without(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		s := r.redact(v)
		return s, s != v
	case json.Number:
		if s := r.redact(v.String()); s != v.String() {
			return s, true // a secret of digits
		}
	case []any:
		changed := false
		for i := range v {
			e, c := r.without(v[i])
			v[i], changed = e, changed || c
		}
		return v, changed
	case map[string]any:
		out, changed := make(map[string]any, len(v)), false
		for _, name := range slices.Sorted(maps.Keys(v)) {
			value, c := r.without(v[name])
			key := r.redact(name)
			for _, taken := out[key]; taken; _, taken = out[key] {
				key += "'" // two names that differ in a secret are still two
			}
			out[key], changed = value, changed || c || key != name
		}
		return out, changed
	}
	return v, false
}

// failed is the error for an exit code. A cause that is a stranger's text stays
// in the diagnostics.
func (r *run) failed(k *command, res *sandbox.Result) error {
	code := toolresult.ProviderError
	if c, ok := k.Exit[res.ExitCode]; ok && res.Signal == "" {
		code = c
	}
	text, _ := defuse.Clean(r.redact(r.er.String()))
	return toolresult.NewError(code, "the program ended with an error").
		WithDiagnostics(toolresult.Diagnostics{ProviderText: text[:min(len(text), 1<<10)]})
}

// secret remembers a value in the forms in which a program repeats it.
func (r *run) secret(v string) {
	if len(v) < 8 {
		return // too short to be told from ordinary text
	}
	quoted, err := json.Marshal(v)
	if err == nil {
		r.secrets = append(r.secrets, string(quoted[1:len(quoted)-1]))
	}
	r.secrets = append(r.secrets, v)
}

func (r *run) redact(s string) string {
	for _, v := range r.secrets {
		s = strings.ReplaceAll(s, v, "[redacted]")
	}
	return s
}

// bounded keeps as much as it may, whatever an executor delivers.
type bounded struct {
	bytes.Buffer
	left int64
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(int64(len(p)), b.left)
	b.cut = b.cut || n < int64(len(p))
	b.left -= n
	b.Buffer.Write(p[:n])
	return len(p), nil
}

var _ io.Writer = (*bounded)(nil)
