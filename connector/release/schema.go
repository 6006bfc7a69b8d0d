package release

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// direction says who is bound by a schema.
type direction uint8

const (
	accepts  direction = iota // arguments: may be accepted more widely
	promises                  // answers: may be promised more narrowly
)

// relation is how one keyword's meaning has moved.
type relation uint8

const (
	same relation = iota
	wider
	narrower
	different // neither, or nobody can tell
)

// weight is what a relation means in a direction.
func (d direction) weight(r relation) Weight {
	if (d == accepts && r == wider) || (d == promises && r == narrower) {
		return Compatible
	}
	return Breaking
}

// schemas compares two whole schemas.
func (c *comparison) schemas(where string, was, now json.RawMessage, d direction) {
	if len(was) == 0 && len(now) == 0 {
		return
	}
	a, err1 := parse(was)
	b, err2 := parse(now)
	if err1 != nil || err2 != nil {
		c.add(Breaking, where, "one of the two schemas cannot be read")
		return
	}
	c.schema(where, a, b, d)
}

func parse(text json.RawMessage) (any, error) {
	if len(text) == 0 {
		return true, nil // no schema allows everything
	}
	return strictjson.Parse(text)
}

// schema compares two schemas at one place. true and {} allow everything.
func (c *comparison) schema(at string, was, now any, d direction) {
	a, okA := object(was)
	b, okB := object(now)
	if !okA || !okB {
		if !equal(was, now) {
			c.add(Breaking, at, "was %s, is %s", brief(was), brief(now))
		}
		return
	}
	for _, k := range keywords(a, b) {
		c.keyword(at, k, a, b, d)
	}
}

// keyword compares one keyword. One whose movement is not understood breaks when
// it differs.
func (c *comparison) keyword(at, k string, a, b map[string]any, d direction) {
	switch k {
	case "title", "description", "examples", "$comment", "x-drawbridge-business":
		c.text(at, k, a, b)
	case "default":
		c.fallback(at, a, b, d)
	case "type":
		c.moved(at, k, a, b, d, types(a[k], b[k]))
	case "enum", "const":
		c.moved(at, k, a, b, d, values(k, a, b))
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		c.moved(at, k, a, b, d, bound(a[k], b[k], -1))
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		c.moved(at, k, a, b, d, bound(a[k], b[k], 1))
	case "pattern", "format", "multipleOf", "uniqueItems":
		c.moved(at, k, a, b, d, constraint(a[k], b[k]))
	case "required":
		c.required(at, a, b, d)
	case "properties":
		c.properties(at, a, b, d)
	case "items", "additionalProperties":
		c.below(at, k, a, b, d)
	default:
		c.moved(at, k, a, b, d, opaque(a[k], b[k]))
	}
}

// object returns a schema's members. The schema true has none.
func object(s any) (map[string]any, bool) {
	if b, ok := s.(bool); ok && b {
		return nil, true
	}
	m, ok := s.(map[string]any)
	return m, ok
}

// keywords returns what either has, sorted.
func keywords(a, b map[string]any) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// moved reports a keyword that means something else.
func (c *comparison) moved(at, k string, a, b map[string]any, d direction, r relation) {
	if r == same {
		return
	}
	how := map[relation]string{wider: "is wider", narrower: "is narrower", different: "is different"}[r]
	c.add(d.weight(r), join(at, k), "%s: was %s, is %s", how, shown(a, k), shown(b, k))
}

// text reports words that a model or a person reads.
func (c *comparison) text(at, k string, a, b map[string]any) {
	if !equal(a[k], b[k]) {
		c.add(Review, join(at, k), "reads differently: was %s, is %s", shown(a, k), shown(b, k))
	}
}

// fallback reports a default that differs: a call that leaves the argument out
// means something else now. In answers a default says nothing.
func (c *comparison) fallback(at string, a, b map[string]any, d direction) {
	if d == promises || equal(a["default"], b["default"]) {
		return
	}
	c.add(Breaking, join(at, "default"), "a call that leaves it out means something else: was %s, is %s", shown(a, "default"), shown(b, "default"))
}

// required compares who has to be there. An argument that must be there is
// narrower, an answer's member that need not be is wider.
func (c *comparison) required(at string, a, b map[string]any, d direction) {
	gone, fresh := differ(stringList(a["required"]), stringList(b["required"]))
	w, x := Compatible, Breaking
	if d == promises {
		w, x = Breaking, Compatible
	}
	c.each(w, join(at, "required"), gone, "%s need not be there any more")
	c.each(x, join(at, "required"), fresh, "%s has to be there now")
}

// properties compares members by name. A new argument that may be left out is
// fine, unless unknown ones passed before; a new member of an answer is fine.
func (c *comparison) properties(at string, a, b map[string]any, d direction) {
	was, _ := a["properties"].(map[string]any)
	now, _ := b["properties"].(map[string]any)
	for _, name := range keywords(was, now) {
		old, had := was[name]
		fresh, has := now[name]
		here := join(join(at, "properties"), name)
		switch {
		case had && has:
			c.schema(here, old, fresh, d)
		case had:
			c.add(Breaking, here, "is gone")
		case d == accepts && a["additionalProperties"] != false:
			c.add(Breaking, here, "is new where anything was accepted, so it is held to a schema now")
		default:
			c.add(Compatible, here, "is new")
		}
	}
}

// below compares a schema that stands in a keyword. Its absence allows
// everything.
func (c *comparison) below(at, k string, a, b map[string]any, d direction) {
	was, now := allow(a, k), allow(b, k)
	switch {
	case equal(was, now):
	case was == false:
		c.moved(at, k, a, b, d, wider)
	case now == false:
		c.moved(at, k, a, b, d, narrower)
	default:
		c.schema(join(at, k), was, now, d)
	}
}

func allow(m map[string]any, k string) any {
	if v, ok := m[k]; ok {
		return v
	}
	return true
}

// types compares sets of types; an integer is a number.
func types(was, now any) relation {
	return sets(typeSet(was), typeSet(now))
}

func typeSet(v any) map[string]bool {
	list := stringList(v)
	if s, ok := v.(string); ok {
		list = []string{s}
	}
	if v == nil {
		list = []string{"null", "boolean", "object", "array", "number", "string"}
	}
	out := map[string]bool{}
	for _, s := range list {
		out[s] = true
	}
	if out["number"] {
		out["integer"] = true
	}
	return out
}

// values compares what enum or const allow. Without either, everything is
// allowed.
func values(k string, a, b map[string]any) relation {
	was, had := valueSet(k, a)
	now, has := valueSet(k, b)
	switch {
	case !had && !has:
		return same
	case !had:
		return narrower
	case !has:
		return wider
	}
	return sets(was, now)
}

func valueSet(k string, m map[string]any) (map[string]bool, bool) {
	v, ok := m[k]
	if !ok {
		return nil, false
	}
	list, isList := v.([]any)
	if k == "const" || !isList {
		list = []any{v}
	}
	out := map[string]bool{}
	for _, x := range list {
		out[brief(x)] = true
	}
	return out, true
}

// sets compares two sets of what is allowed.
func sets(was, now map[string]bool) relation {
	less, more := false, false
	for v := range was {
		less = less || !now[v]
	}
	for v := range now {
		more = more || !was[v]
	}
	switch {
	case less && more:
		return different
	case less:
		return narrower
	case more:
		return wider
	}
	return same
}

// bound compares a limit; up is 1 for one from above and -1 for one from below.
// Numbers are compared exactly.
func bound(was, now any, up int) relation {
	switch {
	case was == nil && now == nil:
		return same
	case was == nil:
		return narrower
	case now == nil:
		return wider
	}
	a, okA := exact(was)
	b, okB := exact(now)
	if !okA || !okB {
		return opaque(was, now)
	}
	switch b.Cmp(a) * up {
	case 1:
		return wider
	case -1:
		return narrower
	}
	return same
}

// exact returns a number without rounding it. One that is written with an
// exponent may need gigabytes to write out, and is none here.
func exact(v any) (*big.Rat, bool) {
	text := brief(v)
	if len(text) > 100 || strings.ContainsAny(text, "eE\"/") {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// constraint compares something that narrows when it is there.
func constraint(was, now any) relation {
	switch {
	case equal(was, now):
		return same
	case was == nil || was == false:
		return narrower
	case now == nil || now == false:
		return wider
	}
	return different
}

// opaque compares as it stands.
func opaque(was, now any) relation {
	if equal(was, now) {
		return same
	}
	return different
}

func stringList(v any) (out []string) {
	list, _ := v.([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// equal compares two JSON values; the order of members does not count.
func equal(a, b any) bool { return brief(a) == brief(b) }

// brief writes a JSON value in one line with sorted members.
func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(text)
}

// shown is a keyword's value for people, bounded.
func shown(m map[string]any, k string) string {
	v, ok := m[k]
	if !ok {
		return "not there"
	}
	text := []rune(brief(v))
	const most = 200
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
