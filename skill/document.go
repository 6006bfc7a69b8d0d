package skill

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
)

const (
	// MaxText is how long a SKILL.md may be, in bytes.
	MaxText = 1 << 20

	// MaxFrontMatter is how long its front matter may be, in bytes. The
	// longest that we saw in use has 2 KiB.
	MaxFrontMatter = 64 << 10

	// MaxNesting is how deep lists and maps of the front matter may be nested.
	MaxNesting = 8
)

// Document is one SKILL.md that could be read. It says what was written, which
// may break any rule of a [Profile]: check it. It is not changed by this package
// and safe for concurrent use if nobody changes it.
type Document struct {
	// Fields of the specification, as text: "1.10" stays "1.10". A field that
	// is missing, or a list where text is wanted, is empty.
	Name, Description, License, Compatibility string

	// Metadata holds the entries of the field metadata whose values are text.
	Metadata map[string]string

	// AllowedTools are what the author would like to be allowed. They grant
	// and restrict nothing.
	AllowedTools []ToolHint

	// Unknown are the names of other fields, in the order of the text.
	Unknown []string

	// Body is the text after the front matter, as it was written.
	Body string

	root     *strictyaml.Node
	fields   map[string]field
	front    string // the front matter
	bodyLine int    // the line that Body begins on
	marks    []mark // what was seen of the text before YAML was
}

// field is a field of the front matter with its name.
type field struct{ key, value *strictyaml.Node }

// mark is a breach of a rule about the text itself.
type mark struct {
	rule         Rule
	line, column int
}

// Parse reads the text of a SKILL.md. It does not keep or change text. The error
// is an [*Invalid] with every reason why there is no Document; the rules that it
// can name are those that no [Profile] turns off.
func Parse(text []byte) (*Document, error) {
	d := &Document{}
	front, body, fault := d.split(text)
	if fault != nil {
		return nil, &Invalid{*fault}
	}
	root, faults := strictyaml.Tree([]byte(front), MaxNesting)
	if faults != nil {
		return nil, unreadable(faults)
	}
	if root.Kind != strictyaml.Map {
		return nil, &Invalid{refusal(RuleYAMLSyntax, 1+root.Line, root.Column, "the front matter is not a list of fields")}
	}
	d.root, d.front, d.Body = root, front, body
	d.fill()
	return d, nil
}

// unreadable turns the faults of the front matter, which begins on line 2, into
// violations.
func unreadable(faults []strictyaml.Fault) *Invalid {
	rules := map[string]Rule{"depth": RuleYAMLDepth, "duplicate": RuleYAMLDuplicate, "alias": RuleYAMLAlias, "tag": RuleYAMLTag, "key": RuleYAMLKey}
	var out Invalid
	for _, f := range faults {
		rule, ok := rules[f.Rule]
		if !ok {
			rule = RuleYAMLSyntax
		}
		what := f.Text
		if f.Path != "" {
			what = f.Path + " " + f.Text
		}
		out = append(out, refusal(rule, 1+max(f.Line, 1), f.Column, "front matter: "+what))
	}
	return &out
}

const fence = "---"

// split finds the front matter by lines: a fence inside a value does not end it.
func (d *Document) split(text []byte) (front, body string, fault *Violation) {
	refuse := func(r Rule, line int, text string) (string, string, *Violation) {
		v := refusal(r, line, 1, text)
		return "", "", &v
	}
	if len(text) > MaxText {
		return refuse(RuleSize, 1, fmt.Sprintf("the file is longer than %d bytes", MaxText))
	}
	if line, what := notText(text); what != "" {
		return refuse(RuleEncoding, line, what)
	}
	s := string(text)
	if rest, ok := strings.CutPrefix(s, "\ufeff"); ok {
		s = rest
		d.marks = append(d.marks, mark{RuleBOM, 1, 1})
	}
	if i := strings.IndexByte(s, '\r'); i >= 0 {
		d.marks = append(d.marks, mark{RuleLineEnds, 1 + strings.Count(s[:i], "\n"), 1})
	}
	first, rest, _ := strings.Cut(s, "\n")
	if !d.isFence(first, 1) {
		return refuse(RuleFence, 1, "the file does not begin with a line of three dashes")
	}
	for line, at := 2, 0; ; line++ {
		one, _, more := strings.Cut(rest[at:], "\n")
		if d.isFence(one, line) {
			front, body = rest[:at], rest[min(at+len(one)+1, len(rest)):]
			d.bodyLine = line + 1
			break
		}
		if i := strings.Index(one, fence); i >= 0 {
			d.marks = append(d.marks, mark{RuleFenceInside, line, 1 + utf8.RuneCountInString(one[:i])})
		}
		if at += len(one) + 1; !more || at > MaxFrontMatter {
			return d.endless(at, line)
		}
	}
	if strings.TrimSpace(front) == "" {
		return refuse(RuleYAMLSyntax, 2, "the front matter is empty")
	}
	return front, body, nil
}

func (d *Document) endless(at, line int) (string, string, *Violation) {
	v := refusal(RuleFence, 1, 1, "the front matter that begins here has no line of three dashes that ends it")
	if at > MaxFrontMatter {
		v = refusal(RuleSize, line, 1, fmt.Sprintf("the front matter is longer than %d bytes, or does not end", MaxFrontMatter))
	}
	return "", "", &v
}

// isFence reports whether a line is a fence, and marks one with blanks after it.
func (d *Document) isFence(line string, n int) bool {
	line = strings.TrimSuffix(line, "\r")
	if strings.TrimRight(line, " \t") != fence {
		return false
	}
	if len(line) > len(fence) {
		d.marks = append(d.marks, mark{RuleFenceBlanks, n, 1 + len(fence)})
	}
	return true
}

// notText finds the first byte that is no text.
func notText(text []byte) (line int, what string) {
	at := bytes.IndexByte(text, 0)
	what = "the file holds a NUL character"
	if !utf8.Valid(text) {
		for i := 0; i < len(text); {
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				if at < 0 || i < at {
					at, what = i, "the file is not UTF-8 here"
				}
				break
			}
			i += n
		}
	}
	if at < 0 {
		return 0, ""
	}
	return 1 + bytes.Count(text[:at], []byte("\n")), what
}

// fill sets the exported fields from the tree.
func (d *Document) fill() {
	d.fields = make(map[string]field, len(d.root.Keys))
	for i, k := range d.root.Keys {
		v := d.root.Values[i]
		d.fields[k.Text] = field{k, v}
		switch k.Text {
		case "name":
			d.Name = textOf(v)
		case "description":
			d.Description = textOf(v)
		case "license":
			d.License = textOf(v)
		case "compatibility":
			d.Compatibility = textOf(v)
		case "metadata":
			d.Metadata = textsOf(v)
		case "allowed-tools":
			d.AllowedTools = hints(v)
		default:
			d.Unknown = append(d.Unknown, k.Text)
		}
	}
}

func textOf(n *strictyaml.Node) string {
	if n.Kind != strictyaml.Text || n.Plain && isNull(n.Text) {
		return ""
	}
	return n.Text
}

func textsOf(n *strictyaml.Node) map[string]string {
	if n.Kind != strictyaml.Map {
		return nil
	}
	out := make(map[string]string, len(n.Keys))
	for i, k := range n.Keys {
		if n.Values[i].Kind == strictyaml.Text {
			out[k.Text] = textOf(n.Values[i])
		}
	}
	return out
}
