package cedarpolicy

import (
	"cmp"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// index finds the rules that a question can satisfy.
//
// Cedar evaluates the three constraints in a rule's head before its
// conditions, they cannot fail, and where one is false nothing else of the rule
// is evaluated. So a rule whose head cannot match adds neither a reason nor an
// error, and leaving it out changes no answer. The head "x == E" or "x in E"
// can match only if E is x or an ancestor of x. The index therefore files a
// rule under the E of its head, and a look-up under x and every ancestor of x
// finds at least all rules that can match. What it finds is still evaluated
// whole.
type index struct {
	any    bucket // heads without an action
	action map[cedar.EntityUID]*bucket
}

// bucket divides rules by one further constraint of the head: the resource's
// if it names an entity, else the principal's, else none.
type bucket struct {
	rest                []*rule
	resource, principal map[cedar.EntityUID][]*rule
}

func newIndex(rules []*rule) index {
	x := index{action: map[cedar.EntityUID]*bucket{}}
	for _, r := range rules {
		uids, named := named(r.ast.Action)
		if !named {
			x.any.add(r)
			continue
		}
		slices.SortFunc(uids, func(a, b cedar.EntityUID) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID)) })
		uids = slices.Compact(uids)
		r.several = len(uids) > 1
		for _, u := range uids {
			if x.action[u] == nil {
				x.action[u] = &bucket{}
			}
			x.action[u].add(r)
		}
	}
	return x
}

func (b *bucket) add(r *rule) {
	if uids, ok := named(r.ast.Resource); ok {
		b.resource = file(b.resource, uids[0], r)
	} else if uids, ok := named(r.ast.Principal); ok {
		b.principal = file(b.principal, uids[0], r)
	} else {
		b.rest = append(b.rest, r)
	}
}

func file(m map[cedar.EntityUID][]*rule, u cedar.EntityUID, r *rule) map[cedar.EntityUID][]*rule {
	if m == nil {
		m = map[cedar.EntityUID][]*rule{}
	}
	m[u] = append(m[u], r)
	return m
}

// named returns the entities that a constraint names, and whether it can match
// only those and what is in them.
func named(scope ast.IsScopeNode) ([]cedar.EntityUID, bool) {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return []cedar.EntityUID{s.Entity}, true
	case ast.ScopeTypeIn:
		return []cedar.EntityUID{s.Entity}, true
	case ast.ScopeTypeIsIn:
		return []cedar.EntityUID{s.Entity}, true
	case ast.ScopeTypeInSet:
		return slices.Clone(s.Entities), true // an empty one matches nothing, and is filed nowhere
	}
	return nil, false
}

// find appends the rules that can match to rules. Each slice holds an entity
// and all its ancestors.
func (x *index) find(rules []*rule, action, principal, resource []cedar.EntityUID) []*rule {
	rules = x.any.find(rules, principal, resource)
	for _, a := range action {
		b := x.action[a]
		if b == nil {
			continue
		}
		from := len(rules)
		rules = b.find(rules, principal, resource)
		rules = once(rules, from)
	}
	return rules
}

// once drops from rules[from:] what an earlier action's bucket held already.
func once(rules []*rule, from int) []*rule {
	kept := rules[:from]
	for _, r := range rules[from:] {
		if !r.several || !slices.Contains(kept[:from], r) {
			kept = append(kept, r)
		}
	}
	return kept
}

func (b *bucket) find(rules []*rule, principal, resource []cedar.EntityUID) []*rule {
	rules = append(rules, b.rest...)
	if b.resource != nil {
		for _, u := range resource {
			rules = append(rules, b.resource[u]...)
		}
	}
	if b.principal != nil {
		for _, u := range principal {
			rules = append(rules, b.principal[u]...)
		}
	}
	return rules
}

// concerns reports whether a forbid may apply to an object of the connection
// that q asks about without applying to the connection itself. It errs on the
// side of yes.
func (r *rule) concerns(q *question) bool {
	if r.ast.Effect == ast.EffectPermit || !within(r.ast.Action, q.actions) || !within(r.ast.Principal, q.users) {
		return false
	}
	object := func(u cedar.EntityUID) bool {
		_, ours := builtin[u.Type]
		return !ours && len(u.ID) > len(q.prefix) && string(u.ID[:len(q.prefix)]) == q.prefix
	}
	around := func(u cedar.EntityUID) bool { return u == q.connector || u == q.tenant }
	switch s := r.ast.Resource.(type) {
	case ast.ScopeTypeEq:
		return object(s.Entity)
	case ast.ScopeTypeIn:
		return object(s.Entity) || around(s.Entity) && r.usesResource
	case ast.ScopeTypeIs:
		return s.Type != typeConnector
	case ast.ScopeTypeIsIn:
		return s.Type != typeConnector && (object(s.Entity) || around(s.Entity))
	}
	return r.usesResource
}

// within reports whether a constraint can match the first of line, whose
// ancestors are the rest.
func within(scope ast.IsScopeNode, line []cedar.EntityUID) bool {
	uids, ok := named(scope)
	return !ok || slices.ContainsFunc(uids, func(u cedar.EntityUID) bool { return slices.Contains(line, u) })
}
