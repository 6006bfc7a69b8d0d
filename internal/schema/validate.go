package schema

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Problem points at a value that does not fit.
type Problem = toolresult.Problem

// maxProblems is how many are reported at once.
const maxProblems = 10

// A report collects problems. A quiet one only learns whether there are any.
type report struct {
	problems []Problem
	quiet    bool
	failed   bool
	path     path
	ours     bool // names that are not in the schema are not quoted: they may be a provider's
}

func (r *report) add(format string, args ...any) {
	r.failed = true
	if !r.quiet && len(r.problems) < maxProblems {
		r.problems = append(r.problems, problem(r.path.pointer(), fmt.Sprintf(format, args...)))
	}
}

// addAt is add for a member of the value that the walk is at.
func (r *report) addAt(name, format string, args ...any) {
	r.enter(step{name, -1})
	r.add(format, args...)
	r.leave()
}

func (r *report) enter(s step) { r.path = append(r.path, s) }

func (r *report) leave() { r.path = r.path[:len(r.path)-1] }

func (r *report) done() bool { return r.quiet && r.failed || len(r.problems) >= maxProblems }

// problems returns what does not fit, sorted by place, or nil.
func (n *node) problems(v *value) []Problem {
	var r report
	n.check(v, &r)
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return strings.Compare(a.Pointer, b.Pointer) })
	return r.problems
}

// fits reports whether a value fits, without saying why not.
func (n *node) fits(v *value) bool {
	r := report{quiet: true}
	n.check(v, &r)
	return !r.failed
}

// check reports everything about v that does not fit.
func (n *node) check(v *value, r *report) {
	switch {
	case r.done():
		return
	case n.never:
		r.add("must not be here; remove it")
		return
	case n.types != 0 && !n.typeOK(v):
		r.add("want %s", n.label)
		return
	case n.enum != nil && !n.among(v), n.is != nil && !equal(v, n.is):
		r.add("want %s", n.label)
		return
	}
	switch v.kind {
	case kindNumber:
		n.checkNumber(v, r)
	case kindString:
		n.checkString(v.text, r)
	case kindArray:
		n.checkArray(v, r)
	case kindObject:
		n.checkObject(v, r)
	}
	if n.all != nil || n.any != nil || n.one != nil || n.not != nil || n.iff != nil {
		n.checkBranches(v, r)
	}
}

func (n *node) typeOK(v *value) bool {
	return n.types&v.kind != 0 || v.kind == kindNumber && n.types&kindInteger != 0 && v.num == math.Trunc(v.num)
}

// among tells whether v is one of the enum's values.
func (n *node) among(v *value) bool {
	for i := range n.enum {
		if equal(v, &n.enum[i]) {
			return true
		}
	}
	return false
}

// equal compares values as JSON Schema does (core, section 4.2.2).
func equal(a, b *value) bool {
	if a.kind != b.kind || len(a.kids) != len(b.kids) {
		return false
	}
	switch a.kind {
	case kindString:
		return a.text == b.text
	case kindNumber, kindBool:
		return a.num == b.num
	}
	for i := range a.kids {
		x := &a.kids[i]
		y := &b.kids[i]
		if a.kind == kindObject {
			y = member(b, x.name)
		}
		if y == nil || !equal(x, y) {
			return false
		}
	}
	return true
}

func member(v *value, name string) *value {
	for i := range v.kids {
		if v.kids[i].name == name {
			return &v.kids[i]
		}
	}
	return nil
}

func (n *node) checkNumber(v *value, r *report) {
	if n.min != nil && v.num < *n.min || n.max != nil && v.num > *n.max {
		r.add("want a number %s", n.between())
	}
	if n.above != nil && v.num <= *n.above {
		r.add("want a number over %v", *n.above)
	}
	if n.below != nil && v.num >= *n.below {
		r.add("want a number under %v", *n.below)
	}
	if n.multiple != nil {
		x, ok := new(big.Rat).SetString(v.text)
		if !ok || !x.Quo(x, n.multiple).IsInt() {
			r.add("want a multiple of %s", n.multiple.RatString())
		}
	}
}

func (n *node) between() string {
	plain := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch {
	case n.min == nil:
		return "up to " + plain(*n.max)
	case n.max == nil:
		return "of at least " + plain(*n.min)
	}
	return "from " + plain(*n.min) + " to " + plain(*n.max)
}

func (n *node) checkString(s string, r *report) {
	if n.minLength > 0 || n.maxLength >= 0 && len(s) > n.maxLength {
		length := utf8.RuneCountInString(s)
		if length < n.minLength || n.maxLength >= 0 && length > n.maxLength {
			r.add("want %s characters, not %d", span(n.minLength, n.maxLength), length)
			return
		}
	}
	if n.pattern != nil && !n.pattern.MatchString(s) {
		r.add("want a string that matches %s", cut(n.pattern.String()))
	}
	if n.format != nil && !n.format.valid(s) {
		r.add("want %s", n.format.want)
	}
}

// span says a range of counts.
func span(low, high int) string {
	switch {
	case high < 0:
		return "at least " + strconv.Itoa(low)
	case low <= 0:
		return "at most " + strconv.Itoa(high)
	case low == high:
		return "exactly " + strconv.Itoa(low)
	}
	return strconv.Itoa(low) + " to " + strconv.Itoa(high)
}

func (n *node) checkArray(v *value, r *report) {
	if len(v.kids) < n.minItems || n.maxItems >= 0 && len(v.kids) > n.maxItems {
		r.add("want %s items, not %d", span(n.minItems, n.maxItems), len(v.kids))
		return
	}
	for i := range v.kids {
		sub := n.items
		if i < len(n.prefix) {
			sub = n.prefix[i]
		}
		if sub != nil {
			r.enter(step{index: i})
			sub.check(&v.kids[i], r)
			r.leave()
		}
	}
	if n.unique {
		checkUnique(v, r)
	}
	if n.contains != nil {
		n.checkContains(v, r)
	}
}

// checkUnique compares canonical forms, not each with each.
func checkUnique(v *value, r *report) {
	seen := make(map[string]bool, len(v.kids))
	for i := range v.kids {
		k := string(appendCanonical(nil, &v.kids[i]))
		if seen[k] {
			r.add("want items that differ from each other; item %d occurs before", i)
			return
		}
		seen[k] = true
	}
}

func (n *node) checkContains(v *value, r *report) {
	found := 0
	for i := range v.kids {
		if n.contains.fits(&v.kids[i]) {
			found++
		}
	}
	least := 1
	if n.minContains >= 0 {
		least = n.minContains
	}
	if found < least || n.maxFound >= 0 && found > n.maxFound {
		r.add("want %s items of the kind that the schema says in contains, not %d", span(least, n.maxFound), found)
	}
}

func (n *node) checkObject(v *value, r *report) {
	for _, name := range n.required {
		if member(v, name) == nil {
			r.addAt(name, "is missing; want %s", n.wants(name))
		}
	}
	if len(v.kids) < n.minProps || n.maxPro >= 0 && len(v.kids) > n.maxPro {
		r.add("want %s members, not %d", span(n.minProps, n.maxPro), len(v.kids))
		return
	}
	for i := range v.kids {
		n.checkMember(&v.kids[i], r)
	}
	for name, needs := range n.needs {
		for _, other := range needs {
			if member(v, name) != nil && member(v, other) == nil {
				r.addAt(other, "is missing; %q needs it", cut(name))
			}
		}
	}
	for name, sub := range n.when {
		if member(v, name) != nil {
			sub.check(v, r)
		}
	}
}

func (n *node) wants(name string) string {
	if p := n.props[name]; p != nil && p.label != "" {
		return p.label
	}
	return "a value"
}

func (n *node) checkMember(m *value, r *report) {
	r.enter(step{m.name, -1})
	sub, known := n.props[m.name]
	if known {
		sub.check(m, r)
	}
	for _, p := range n.patterns {
		if p.re.MatchString(m.name) {
			known = true
			p.n.check(m, r)
		}
	}
	if !known && n.rest != nil && !n.rest.never {
		known = true
		n.rest.check(m, r)
	}
	r.leave()
	switch {
	case n.propNames != nil && !n.propNames.fits(&value{kind: kindString, text: m.name}):
		r.add("has a member whose name is not as the schema says in propertyNames")
	case known || n.rest == nil:
	case r.ours:
		r.add("has a member that is not declared; the members are %s", list(n.names))
	default:
		r.addAt(m.name, "is not known here%s; the arguments are %s", n.similar(m.name), list(n.names))
	}
}

// similar finds the name that was meant, if only case and separators differ.
func (n *node) similar(name string) string {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(s))
	}
	for _, k := range n.names {
		if plain(k) == plain(name) {
			return ", but " + k + " is"
		}
	}
	return ""
}

func (n *node) checkBranches(v *value, r *report) {
	for _, sub := range n.all {
		sub.check(v, r)
	}
	count := func(subs []*node) (fit int) {
		for _, sub := range subs {
			if sub.fits(v) {
				fit++
			}
		}
		return fit
	}
	if n.any != nil && count(n.any) == 0 {
		r.add("want one of %d forms: %s", len(n.any), forms(n.any))
	}
	if n.one != nil {
		if fit := count(n.one); fit != 1 {
			r.add("want exactly one of %d forms, not %d: %s", len(n.one), fit, forms(n.one))
		}
	}
	if n.not != nil && n.not.fits(v) {
		r.add("has a form that the schema excludes in not")
	}
	if n.iff != nil {
		branch := n.els
		if n.iff.fits(v) {
			branch = n.then
		}
		if branch != nil {
			branch.check(v, r)
		}
	}
}

// forms says what each branch asks for.
func forms(subs []*node) string {
	var out []string
	for _, s := range subs {
		text := s.label
		if len(s.required) > 0 {
			text = strings.TrimPrefix(text+" with ", " with ")
			text = strings.TrimPrefix(text, "with ") + strings.Join(s.required, " and ")
		}
		if text == "" {
			text = "see the schema"
		}
		out = append(out, cut(text))
	}
	return list(out)
}

func problem(pointer, text string) Problem { return Problem{Pointer: pointer, Text: text} }
