package skill

import (
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
)

// ToolHint is one pattern of allowed-tools, such as "Bash(git add *)": what the
// author of a skill would like to be allowed. It is text to show to people. No
// function of this module takes one, and it must not become a permission
// elsewhere: who writes a skill does not decide what it may do.
type ToolHint struct{ pattern string }

// String returns the pattern as it was written.
func (h ToolHint) String() string { return h.pattern }

// hints reads every form in use: a string with blanks or commas between the
// patterns, and a list. Blanks and commas inside parentheses are the pattern's.
func hints(n *strictyaml.Node) []ToolHint {
	var out []ToolHint
	for _, v := range append([]*strictyaml.Node{n}, n.Values...) {
		if v.Kind == strictyaml.Text && n.Kind != strictyaml.Map {
			out = append(out, splitHints(textOf(v))...)
		}
	}
	return out
}

func splitHints(s string) (out []ToolHint) {
	depth, start := 0, 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i < len(s) && s[i] == '(':
			depth++
		case i < len(s) && s[i] == ')':
			depth = max(depth-1, 0)
		case i == len(s) || depth == 0 && strings.IndexByte(" ,\t\n", s[i]) >= 0:
			if i > start {
				out = append(out, ToolHint{s[start:i]})
			}
			start = i + 1
		}
	}
	return out
}
