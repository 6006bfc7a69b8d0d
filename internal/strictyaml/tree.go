package strictyaml

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Kind says what a [Node] is. The zero Kind is none.
type Kind uint8

const (
	Text Kind = iota + 1
	List
	Map
)

// Node is one value of a text whose fields are the author's own, such as the
// front matter of a skill. It keeps what was written and where, and no Go value:
// what "017" or "1.10" means is the caller's to say.
type Node struct {
	Kind Kind
	Text string // of a Text; as written, without quotes

	// Plain says that a Text is neither quoted nor a block, so that a reader
	// may take it for a number, a date or nothing at all.
	Plain bool

	// Flow says that a List or a Map is written with brackets.
	Flow bool

	// Keys of a Map stand beside their Values; a List has Values alone.
	Keys, Values []*Node

	Line, Column int // from 1; columns count characters
}

// Fault is one reason why a text has no tree. Rule is one of syntax, depth,
// duplicate, alias, tag and key; Path, Text and the place are as in [Error].
type Fault struct {
	Rule, Path, Text string
	Line, Column     int
}

// Tree reads one document whose fields are not known beforehand. Unlike
// [Decode] it keeps fields without a value and does not choose types. It refuses
// all else that Decode refuses: the faults, at most 20, are in the order of the
// text, and there is then no tree. depth is how deep lists and maps may be
// nested, at most [MaxDepth].
func Tree(text []byte, depth int) (*Node, []Fault) {
	root, err := parse(text)
	if err != nil {
		f := Fault{Rule: "syntax", Text: err.Error()}
		if e, ok := errors.AsType[*Error](err); ok {
			f.Line, f.Column, f.Text = e.Line, e.column, e.Text
		}
		return nil, []Fault{f}
	}
	t := treer{max: min(depth, MaxDepth)}
	n := t.node(root, "", 0)
	if t.faults != nil {
		return nil, t.faults
	}
	return n, nil
}

type treer struct {
	max    int
	faults []Fault
}

func (t *treer) add(n *yaml.Node, rule, path, text string) {
	if len(t.faults) < maxProblems {
		t.faults = append(t.faults, Fault{rule, path, text, n.Line, n.Column})
	}
}

// hidden reports what the surface of a value does not show.
func (t *treer) hidden(n *yaml.Node, path string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Alias != nil:
		t.add(n, "alias", path, "is an alias; write the value out")
	case n.Anchor != "":
		t.add(n, "alias", path, "has an anchor; remove it and write each value out")
	case n.Style&yaml.TaggedStyle != 0:
		t.add(n, "tag", path, "has a tag; remove it")
	default:
		return false
	}
	return true
}

func (t *treer) node(n *yaml.Node, path string, depth int) *Node {
	if t.hidden(n, path) {
		return nil
	}
	out := &Node{Kind: Text, Line: n.Line, Column: n.Column, Flow: n.Style&yaml.FlowStyle != 0}
	if n.Kind == yaml.ScalarNode {
		const notPlain = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
		out.Text, out.Plain = n.Value, n.Style&notPlain == 0
		if strings.ContainsRune(n.Value, 0) {
			t.add(n, "syntax", path, "holds a NUL character; remove it")
		}
		return out
	}
	if depth >= t.max {
		t.add(n, "depth", path, "is nested too deeply; write it flatter")
		return nil
	}
	if n.Kind == yaml.MappingNode {
		out.Kind = Map
		t.entries(n, out, path, depth)
		return out
	}
	out.Kind = List
	for _, e := range n.Content {
		out.Values = append(out.Values, t.node(e, path+"[]", depth+1))
	}
	return out
}

func (t *treer) entries(n *yaml.Node, out *Node, path string, depth int) {
	size := len(n.Content) / 2
	lines := make(map[string]struct{}, size)
	out.Keys, out.Values = make([]*Node, 0, size), make([]*Node, 0, size)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Value == "<<" {
			if !t.hidden(k, path) {
				t.add(k, "key", path, "has a key that is a merge, a list or a mapping; want text")
			}
			continue
		}
		at := k.Value
		if path != "" || len(at) > 64 || strings.ContainsAny(at, ". \n") {
			at = join(path, k.Value)
		}
		if _, twice := lines[k.Value]; twice {
			t.add(k, "duplicate", at, "occurs twice; keep one")
			continue
		}
		lines[k.Value] = struct{}{}
		out.Keys = append(out.Keys, t.node(k, at, depth))
		out.Values = append(out.Values, t.node(v, at, depth+1))
	}
}
