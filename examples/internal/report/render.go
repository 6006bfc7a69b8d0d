package report

import (
	"fmt"
	"slices"
	"strings"
)

// Text is the report for people, in Markdown. Texts of systems are shown as they
// are: whoever renders the Markdown must treat them as data.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nWindow: %s. Confidence: %s.\n", r.Incident, r.Window, r.Confidence)
	claims(&b, "Conclusion", r.Conclusion)
	claims(&b, "Evidence", r.Evidence)
	list(&b, "Next steps", r.NextSteps, func(s string) string { return s })
	list(&b, "Needs a person", r.NeedPerson, func(a Action) string { return a.Capability + ": " + a.Why })
	list(&b, "Not known", r.Unknown, func(g Gap) string {
		if g.Call == "" {
			return fmt.Sprintf("%s: %s", g.What, g.Why)
		}
		return fmt.Sprintf("%s of %s: %s", g.What, g.Call, g.Why)
	})
	list(&b, "Done", r.Effects, func(e Effect) string {
		return fmt.Sprintf("%s (operation %s), read in the system's own record by %s", e.Object, e.Operation, e.Confirmed)
	})
	return b.String()
}

// Brief is the report without what its claims stand on, in a dozen lines. It is
// for a terminal and no substitute for Text.
func (r *Report) Brief() string {
	var b strings.Builder
	for _, c := range append(slices.Clone(r.Conclusion), r.Evidence...) {
		fmt.Fprintf(&b, "- %s: %s\n", c.Kind, c.Text)
	}
	fmt.Fprintf(&b, "- confidence: %s\n", r.Confidence)
	told := map[string]bool{}
	for _, g := range r.Unknown {
		if line := g.What + ", " + g.Why; !told[line] {
			told[line] = true
			fmt.Fprintf(&b, "- not known: %s\n", line)
		}
	}
	for _, e := range r.Effects {
		fmt.Fprintf(&b, "- done: %s, read in the system's own record\n", e.Object)
	}
	return b.String()
}

func claims(b *strings.Builder, title string, all []Claim) {
	list(b, title, all, func(c Claim) string {
		text := fmt.Sprintf("%s: %s", c.Kind, c.Text)
		if c.Test != "" {
			text += " It is wrong if: " + c.Test
		}
		for _, x := range c.Cites {
			text += "\n  - " + x.String()
		}
		return text
	})
}

func list[T any](b *strings.Builder, title string, all []T, line func(T) string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, x := range all {
		fmt.Fprintf(b, "- %s\n", line(x))
	}
}

// String returns the cite in one line.
func (c Cite) String() string {
	text := fmt.Sprintf("%s, %s, %s", c.Call, c.Version, windowText(c.Window))
	if !c.Complete {
		text += ", incomplete"
	}
	if c.Basis != TimeOrder {
		text += ", " + string(c.Basis)
	}
	return text
}
