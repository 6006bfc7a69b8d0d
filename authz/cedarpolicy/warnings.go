package cedarpolicy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Warning is something in a policy that is probably a mistake. It changes no
// decision.
type Warning struct {
	Policy string // "name:line:column"; "" if it is about all of them
	Text   string
}

// String returns the policy and the text.
func (w Warning) String() string {
	if w.Policy == "" {
		return w.Text
	}
	return w.Policy + ": " + w.Text
}

func warnings(rules []*rule, opts *Options) []Warning {
	if len(rules) == 0 {
		return []Warning{{Text: "there are no policies: everything is denied"}}
	}
	actions := slices.Clone(opts.Actions)
	for group := range opts.ActionGroups {
		actions = append(actions, group)
	}
	w := warner{opts: opts, actions: actions}
	for _, r := range rules {
		w.rule(r)
	}
	return w.found
}

type warner struct {
	opts    *Options
	actions []string
	at      string
	found   []Warning
}

func (w *warner) warn(format string, args ...any) {
	one := Warning{w.at, fmt.Sprintf(format, args...)}
	if !slices.Contains(w.found, one) {
		w.found = append(w.found, one)
	}
}

func (w *warner) rule(r *rule) {
	w.at = string(r.id)
	for _, scope := range []ast.IsScopeNode{r.ast.Principal, r.ast.Action, r.ast.Resource} {
		uids, _ := named(scope)
		for _, u := range uids {
			w.entity(u)
		}
		switch s := scope.(type) {
		case ast.ScopeTypeIs:
			w.typ(s.Type)
		case ast.ScopeTypeIsIn:
			w.typ(s.Type)
		}
	}
	for _, c := range r.ast.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool { w.node(n); return true })
	}
}

func (w *warner) node(n ast.IsNode) {
	switch n := n.(type) {
	case ast.NodeTypeIs:
		w.typ(n.EntityType)
	case ast.NodeTypeIsIn:
		w.typ(n.EntityType)
	case ast.NodeValue:
		w.value(n.Value)
	}
}

// value looks into literals, which the parser may have folded into sets.
func (w *warner) value(v cedar.Value) {
	switch v := v.(type) {
	case cedar.EntityUID:
		w.entity(v)
	case cedar.Set:
		for e := range v.All() {
			w.value(e)
		}
	case cedar.Record:
		for e := range v.Values() {
			w.value(e)
		}
	}
}

func (w *warner) typ(t cedar.EntityType) {
	if _, ok := builtin[t]; !ok && w.opts.Types != nil && !slices.Contains(w.opts.Types, string(t)) {
		w.warn("there is no object of type %s", t)
	}
}

func (w *warner) entity(u cedar.EntityUID) {
	w.typ(u.Type)
	if u.Type == typeAction && w.opts.Actions != nil && !slices.Contains(w.actions, string(u.ID)) {
		w.warn("there is no capability or group of them %s", u)
	}
	slashes, ok := builtin[u.Type]
	if !ok {
		slashes = objectSlashes
	}
	if strings.Count(string(u.ID), "/") < slashes {
		w.warn("no entity has the id %s: ids begin with the tenant", u)
	}
}
