package skill

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
)

const (
	entry = "SKILL.md" // the name of the entry of every skill

	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
	maxBodyLines     = 500
)

// Check returns every breach of a rule, in the order of the text. dir is the
// name of the skill's directory, which its name is compared with; "" compares
// with nothing. Whether links lead to files is checked by [Package.Check].
func (d *Document) Check(p Profile, dir string) Violations {
	c := checker{d: d, p: p}
	for _, m := range d.marks {
		c.add(m.rule, m.line, m.column, markText[m.rule])
	}
	c.values()
	c.name(dir)
	c.description()
	c.optional()
	c.body()
	c.out.sort()
	return c.out
}

var markText = map[Rule]string{
	RuleBOM:         "the file begins with a byte order mark",
	RuleLineEnds:    "the file has CR line ends, which change with the system that it is checked out on",
	RuleFenceBlanks: "there are blanks after the three dashes",
	RuleFenceInside: "there are three dashes inside the front matter",
}

type checker struct {
	d   *Document
	p   Profile
	out Violations
}

// add reports a breach unless the profile does not care.
func (c *checker) add(r Rule, line, column int, problem string) {
	if l := c.p.Level(r); l != Off {
		c.out = append(c.out, Violation{r, l, entry, line, max(column, 1), problem, mend(r)})
	}
}

// at reports a breach at a value of the front matter, which begins on line 2.
func (c *checker) at(r Rule, n *strictyaml.Node, problem string) {
	c.add(r, 1+n.Line, n.Column, problem)
}

func mend(r Rule) string {
	for i := range table {
		if table[i].rule == r {
			return table[i].mend
		}
	}
	return fatal[r]
}

// quote shows a name of the author's, on one line and cut.
func quote(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// values checks what holds for every value of the front matter.
func (c *checker) values() {
	c.walk(c.d.root)
	if i := strings.IndexByte(c.d.front, '\t'); i >= 0 {
		line, column := place(c.d.front, i)
		c.add(RuleYAMLTab, 1+line, column, "there is a tab in the front matter")
	}
	c.hidden(c.d.front, 2)
}

// place turns an offset into a line and a column.
func place(s string, at int) (line, column int) {
	start := strings.LastIndexByte(s[:at], '\n') + 1
	return 1 + strings.Count(s[:at], "\n"), 1 + utf8.RuneCountInString(s[start:at])
}

func (c *checker) walk(n *strictyaml.Node) {
	if n.Flow {
		c.at(RuleYAMLFlow, n, "the value is written with brackets, which the reference validator refuses")
	}
	if n.Kind == strictyaml.Text && n.Plain && ambiguous(n.Text) {
		c.at(RuleAmbiguous, n, "readers of YAML disagree about whether the value is text, a number, a date, a truth value or nothing")
	}
	for _, k := range n.Keys {
		c.walk(k)
	}
	for _, v := range n.Values {
		c.walk(v)
	}
}

// hidden reports characters that steer text without being seen.
func (c *checker) hidden(s string, first int) {
	if ascii(s) {
		return
	}
	for i := range len(s) {
		switch s[i] {
		case 0xD8, 0xE2, 0xF3: // the first bytes of all that are invisible
			if r, _ := utf8.DecodeRuneInString(s[i:]); invisible(r) {
				line, column := place(s, i)
				c.add(RuleHidden, first-1+line, column, fmt.Sprintf("there is the invisible character U+%04X", r))
				return
			}
		}
	}
}

// invisible reports whether r is a control of text direction or a tag.
func invisible(r rune) bool {
	switch {
	case r == 0x61C, r == 0x200E, r == 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r >= 0xE0000 && r <= 0xE007F:
		return true
	}
	return false
}

func ascii(s string) bool {
	for ; len(s) >= 8; s = s[8:] { // a body has ten thousand bytes, and most have nothing else
		if (s[0]|s[1]|s[2]|s[3]|s[4]|s[5]|s[6]|s[7])&utf8.RuneSelf != 0 {
			return false
		}
	}
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// text finds a field that has to be text, and reports what is not.
func (c *checker) text(name string, missing, typ Rule) (*strictyaml.Node, bool) {
	f, ok := c.d.fields[name]
	switch {
	case !ok && missing != "":
		c.add(missing, 1, 1, "there is no "+name)
	case ok && f.value.Kind != strictyaml.Text:
		c.at(typ, f.value, name+" is a list or a map")
	case ok && missing != "" && strings.TrimSpace(textOf(f.value)) == "":
		c.at(missing, f.value, name+" is empty")
	default:
		return f.value, ok
	}
	return nil, false
}

func (c *checker) name(dir string) {
	n, ok := c.text("name", RuleNameMissing, RuleNameType)
	if !ok {
		return
	}
	trimmed := strings.TrimSpace(n.Text)
	if trimmed != n.Text {
		c.at(RuleNameSpace, n, "there are blanks around the name")
	}
	name := trimmed
	if !ascii(name) {
		c.at(RuleNameASCII, n, "the name has characters outside of ASCII")
		name = norm.NFKC.String(name)
	}
	if l := utf8.RuneCountInString(name); l > maxName {
		c.at(RuleNameLength, n, fmt.Sprintf("the name has %d characters", l))
	}
	if strings.ToLower(name) != name {
		c.at(RuleNameCase, n, "the name has upper-case letters")
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") || strings.Contains(name, "--") {
		c.at(RuleNameHyphen, n, "the name begins or ends with a hyphen, or has two in a row")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		c.at(RuleNameCharset, n, "the name has other characters than letters, digits and hyphens")
	}
	if strings.Contains(name, "claude") || strings.Contains(name, "anthropic") {
		c.at(RuleNameVendor, n, "the name holds a vendor's word")
	}
	if dir != "" && norm.NFKC.String(dir) != name {
		c.at(RuleNameDirectory, n, "the name is not that of the directory, "+quote(dir))
	}
}

func (c *checker) description() {
	n, ok := c.text("description", RuleDescriptionMissing, RuleDescriptionType)
	if !ok {
		return
	}
	if l := utf8.RuneCountInString(n.Text); l > maxDescription {
		c.at(RuleDescriptionLength, n, fmt.Sprintf("the description has %d characters", l))
	}
	if i := strings.IndexByte(n.Text, '<'); i >= 0 && strings.IndexByte(n.Text[i:], '>') > 0 {
		c.at(RuleDescriptionMarkup, n, "the description has something between < and >")
	}
}

func (c *checker) optional() {
	c.text("license", "", RuleLicenseType)
	if n, ok := c.text("compatibility", "", RuleCompatibilityType); ok {
		if l := utf8.RuneCountInString(n.Text); l > maxCompatibility {
			c.at(RuleCompatibilityLength, n, fmt.Sprintf("compatibility has %d characters", l))
		} else if textOf(n) == "" {
			c.at(RuleCompatibilityEmpty, n, "compatibility is empty")
		}
	}
	if f, ok := c.d.fields["metadata"]; ok {
		c.metadata(f.value)
	}
	if n, ok := c.text("allowed-tools", "", RuleToolsType); ok && commas(n.Text) {
		c.at(RuleToolsCommas, n, "there are commas between the patterns")
	}
	for _, u := range c.d.Unknown {
		c.at(RuleUnknown, c.d.fields[u].key, "the specification has no field "+quote(u))
	}
}

// commas reports whether one stands outside of parentheses.
func commas(s string) bool {
	depth := 0
	for _, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(depth-1, 0)
		case ',':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}

func (c *checker) metadata(n *strictyaml.Node) {
	if n.Kind != strictyaml.Map {
		c.at(RuleMetadataType, n, "metadata is not a map")
		return
	}
	for _, v := range n.Values {
		if v.Kind != strictyaml.Text || v.Plain && coreType(v.Text) != coreText {
			c.at(RuleMetadataValue, v, "the value is not text")
		}
	}
}

func (c *checker) body() {
	d := c.d
	if strings.TrimSpace(d.Body) == "" {
		c.add(RuleBodyEmpty, d.bodyLine, 1, "there is nothing below the front matter")
		return
	}
	if n := d.bodyLine + strings.Count(d.Body, "\n"); n > maxBodyLines {
		c.add(RuleBodyLong, maxBodyLines+1, 1, fmt.Sprintf("the file has more than %d lines", maxBodyLines))
	}
	c.hidden(d.Body, d.bodyLine)
	if c.p.Level(RuleLinkAbsolute) == Off && c.p.Level(RuleLinkEscape) == Off && c.p.Level(RuleLinkDeep) == Off {
		return
	}
	for l := range d.links() {
		switch l.kind {
		case linkAbsolute:
			c.add(RuleLinkAbsolute, l.line, l.column, "the link leads to an absolute path")
		case linkEscape:
			c.add(RuleLinkEscape, l.line, l.column, "the link leaves the skill's directory")
		}
		if strings.Count(l.path, "/") > 1 {
			c.add(RuleLinkDeep, l.line, l.column, "the link leads more than one level down")
		}
	}
}
