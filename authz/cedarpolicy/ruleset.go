package cedarpolicy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// rule is one policy statement with what its annotations and its text say.
type rule struct {
	id       cedar.PolicyID // "file:line:column", for reasons
	reason   string         // for decisions that a permit made
	policy   *cedar.Policy
	ast      *ast.Policy
	approval bool
	final    bool                // @prohibit
	window   toolresult.Interval // zero: any time

	usesContext  bool // the conditions mention context
	wholeContext bool // and do more with it than look at its attributes
	usesResource bool // the conditions mention resource
	several      bool // filed under more than one action
}

// ruleset is an immutable set of rules and everything derived from it.
type ruleset struct {
	rules    []*rule
	byID     map[cedar.PolicyID]*rule
	index    index
	names    map[string]bool              // of all attributes that conditions mention
	actions  map[string][]cedar.EntityUID // parents of actions
	revision string
	warnings []Warning
}

func newRuleset(texts map[string][]byte, opts *Options) (*ruleset, error) {
	s := &ruleset{byID: map[cedar.PolicyID]*rule{}, names: map[string]bool{}, actions: map[string][]cedar.EntityUID{}}
	for _, group := range slices.Sorted(maps.Keys(opts.ActionGroups)) {
		for _, capability := range opts.ActionGroups[group] {
			s.actions[capability] = append(s.actions[capability], uid(typeAction, group))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		list, err := parse(name, texts[name])
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			r, err := newRule(p, opts.Annotations)
			if err != nil {
				return nil, err
			}
			r.read(s.names)
			s.rules, s.byID[r.id] = append(s.rules, r), r
		}
	}
	s.index = newIndex(s.rules)
	s.revision = digest(texts, opts)
	s.warnings = warnings(s.rules, opts)
	return s, nil
}

// maxStatement bounds one policy statement, in bytes. Parser and evaluation
// recurse with the nesting of its text, and a stack that overflows cannot be
// recovered: 256 KiB of brackets have ended the process.
const maxStatement = 64 << 10

func parse(name string, text []byte) (cedar.PolicyList, error) {
	if line := overlong(text); line > 0 {
		return nil, fmt.Errorf("cedarpolicy: %s:%d: a statement of more than %d bytes: name a group instead of a list", name, line, maxStatement)
	}
	list, err := cedar.NewPolicyListFromBytes(name, text)
	if err != nil {
		// the parser does not know the name yet
		return nil, fmt.Errorf("cedarpolicy: %s: %s", name, strings.ReplaceAll(err.Error(), "<input>", name))
	}
	return list, nil
}

// overlong returns the line where the first statement that is too long begins,
// or 0. Statements end with a semicolon outside strings and comments.
func overlong(text []byte) int {
	line, first, start := 1, 1, 0
	var in byte // '"' in a string, '/' in a comment
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			line++
			if in == '/' {
				in = 0
			}
		case in == '"' && c == '\\':
			i++ // what is escaped ends nothing
		case in == '"' && c == '"':
			in = 0
		case in == 0 && c == '"', in == 0 && c == '/' && i+1 < len(text) && text[i+1] == '/':
			in = c
		case in == 0 && c == ';':
			start, first = i+1, line
		}
		if i-start >= maxStatement {
			return first
		}
	}
	return 0
}

func newRule(p *cedar.Policy, known []string) (*rule, error) {
	pos := p.Position()
	r := &rule{
		id:     cedar.PolicyID(fmt.Sprintf("%s:%d:%d", pos.Filename, pos.Line, pos.Column)),
		policy: p,
		ast:    (*ast.Policy)(p.AST()),
	}
	r.reason = "permitted by " + string(r.id)
	for _, a := range r.ast.Annotations {
		if err := r.annotate(string(a.Key), string(a.Value), known); err != nil {
			return nil, fmt.Errorf("cedarpolicy: %s: @%s: %w", r.id, a.Key, err)
		}
	}
	return r, nil
}

// read notes what the conditions look at. Cedar names attributes in the text
// only, never by a value, so that an attribute that is in no text need not be
// there.
func (r *rule) read(names map[string]bool) {
	contexts, looked := 0, 0
	attribute := func(n ast.StrOpNode) {
		names[string(n.Value)] = true
		if v, ok := n.Arg.(ast.NodeTypeVariable); ok && v.Name == "context" {
			looked++
		}
	}
	for _, c := range r.ast.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeAccess:
				attribute(n.StrOpNode)
			case ast.NodeTypeHas:
				attribute(n.StrOpNode)
			case ast.NodeTypeVariable:
				if n.Name == "context" {
					contexts++
				}
				r.usesResource = r.usesResource || n.Name == "resource"
			}
			return true
		})
	}
	r.usesContext, r.wholeContext = contexts > 0, contexts > looked
}

// plain are the annotations that change nothing.
var plain = []string{"id", "description", "advice", "owner"}

// annotate refuses what it does not know: a misspelt @approval must not turn
// into a plain permit.
func (r *rule) annotate(key, value string, known []string) error {
	permit := r.ast.Effect == ast.EffectPermit
	switch {
	case key == "approval" && permit && value == "required":
		r.approval = true
	case key == "approval":
		return fmt.Errorf(`it is written @approval("required"), and on a permit only`)
	case key == "prohibit" && !permit && value == "":
		r.final = true
	case key == "prohibit":
		return fmt.Errorf("it has no value, and stands on a forbid only")
	case key == "window":
		_ = r.window.UnmarshalText([]byte(value)) // never fails: what is no window has no start
		if !permit || r.window.Start.IsZero() || !r.window.Start.Before(r.window.End) {
			return fmt.Errorf(`it is two RFC 3339 times, start first, with a slash between them, and stands on a permit only`)
		}
	case !slices.Contains(plain, key) && !slices.Contains(known, key):
		return fmt.Errorf("not known; list it in Options.Annotations if it is a note")
	}
	return nil
}

// digest is over everything that is fixed and can change a decision, each part
// after its length.
func digest(texts map[string][]byte, opts *Options) string {
	buf := []byte("cedarpolicy 1")
	part := func(s string) { buf = append(binary.AppendUvarint(buf, uint64(len(s))), s...) }
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		part(name)
		part(string(texts[name]))
	}
	for _, group := range slices.Sorted(maps.Keys(opts.ActionGroups)) {
		part("group")
		part(group)
		for _, capability := range slices.Sorted(slices.Values(opts.ActionGroups[group])) {
			part(capability)
		}
	}
	part(fmt.Sprint(opts.Groups != nil, opts.Candidates != nil))
	sum := sha256.Sum256(buf)
	return "sha256:" + hex.EncodeToString(sum[:])
}
