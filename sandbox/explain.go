package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The kinds of Op.
const (
	OpRead    = "read"    // Target is a canonical path
	OpWrite   = "write"   // Target is a canonical path
	OpConnect = "connect" // Target is a host name in lower-case ASCII, without port
	OpEnv     = "env"     // Target is the name of a variable
	OpRun     = "run"     // Target is a command line; only blocked_commands are looked at
)

// Op is something that a program could do.
type Op struct{ Kind, Target string }

// Decision is what the rules say about an Op. The zero Decision denies.
type Decision struct {
	Allowed bool
	Rule    string // which rule decided: filesystem.deny_read[1] "**/*secret*"
}

// Decide says what the rules say. It looks at names only: it follows no
// symbolic links and knows no hard links, so it explains and plans, and the
// executor enforces.
func (r *Rules) Decide(op Op) Decision {
	switch op.Kind {
	case OpRead, OpWrite:
		return r.file(op)
	case OpConnect:
		for _, d := range r.Domains {
			if d == op.Target || underDomain(d, op.Target) {
				return Decision{true, "network.allow_domains " + d}
			}
		}
		return Decision{Rule: "network.allow_domains does not name it"}
	case OpEnv:
		if slices.Contains(r.Env, op.Target) {
			return Decision{true, "credentials.env"}
		}
		return Decision{Rule: "credentials.env does not name it"}
	case OpRun:
		for _, b := range r.Blocked {
			if strings.Contains(op.Target, b) {
				return Decision{Rule: fmt.Sprintf("process.blocked_commands %q", b)}
			}
		}
		return Decision{true, "no text of process.blocked_commands; what runs is bounded by the other rules"}
	}
	return Decision{Rule: "no such operation"}
}

func (r *Rules) file(op Op) Decision {
	p := op.Target
	if !filepath.IsAbs(p) || filepath.Clean(p) != p {
		return Decision{Rule: "not an absolute, clean path"}
	}
	root, ok := r.root(r.Write, p)
	if op.Kind == OpRead && !ok {
		root, ok = r.root(r.Read, p)
	}
	if !ok {
		if op.Kind == OpRead && r.System && inSystem(p) && denies(r.DenyRead, filepath.Dir(p), p) == "" {
			return Decision{true, "filesystem.system"}
		}
		return Decision{Rule: "filesystem.allow_" + op.Kind + " does not name it"}
	}
	if rule := denies(r.DenyRead, root, p); rule != "" {
		return Decision{Rule: rule}
	}
	if op.Kind == OpWrite {
		if rule := denies(r.DenyWrite, root, p); rule != "" {
			return Decision{Rule: rule}
		}
	}
	return Decision{true, "filesystem.allow_" + op.Kind}
}

// Explain says in plain words what the rules permit and, if rep is not nil,
// how each claim that they use holds. It is for people; programs use Decide
// and the Report.
func (r *Rules) Explain(rep *Report) string {
	var b strings.Builder
	line := func(what string, list []string, none string) {
		if len(list) == 0 {
			list = []string{none}
		}
		fmt.Fprintf(&b, "  %-10s %s\n", what, strings.Join(list, ", "))
	}
	fmt.Fprintf(&b, "Sandbox policy %q in %s\n", r.Name, r.Workspace)
	fmt.Fprintf(&b, "Digest %s\n", r.digest)
	b.WriteString("Files\n")
	read := slices.Clone(r.Read)
	if r.System {
		read = append(read, "programs and libraries of the system")
	}
	line("may read", read, "nothing")
	line("may write", r.Write, "nothing")
	line("never read", names(r.DenyRead, false), "nothing in particular")
	line("never write", append(names(r.DenyWrite, false), fmt.Sprintf("and %d built-in names such as .git/hooks", len(protected))), "")
	b.WriteString("Network\n")
	line("may reach", r.Domains, "nothing")
	private := make([]string, len(r.Private))
	for i, p := range r.Private {
		private[i] = p.String()
	}
	line("private", private, "no private, loopback, link-local or metadata address")
	b.WriteString("Process\n")
	line("may run", []string{r.Timeout.String()}, "")
	line("children", limit(int64(r.MaxChildren), ""), "")
	line("memory", limit(r.MaxMemory, " bytes"), "")
	line("output", limit(r.MaxOutput, " bytes each way"), "")
	if len(r.Blocked) > 0 {
		line("blocked", quoted(r.Blocked), "")
		b.WriteString("             (auxiliary: a match of strings, which any other spelling passes)\n")
	}
	b.WriteString("Credentials\n")
	line("variables", r.Env, "none of the host's")
	line("secrets", []string{"put on the wire per tool, never shown to the model, redacted in logs"}, "")
	if rep != nil {
		b.WriteString(r.strengths(rep))
	}
	return b.String()
}

func (r *Rules) strengths(rep *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Enforced by the %s executor %q\n", rep.Level, rep.Backend)
	for _, n := range needs {
		want := r.required(n)
		_, said := r.Require[n.claim]
		if want == None && !said && (n.used == nil || !n.used(r)) && n.least != None {
			continue
		}
		have := rep.Of(n.claim)
		verdict := ""
		if !n.holds(have.Strength, want) {
			verdict = "  REFUSED: requires " + want.String()
		}
		fmt.Fprintf(&b, "  %-15s %-9s %s", n.claim, have.Strength, strings.Join(have.By, ", "))
		if have.Gap != "" {
			b.WriteString(" (" + have.Gap + ")")
		}
		b.WriteString(verdict + "\n")
	}
	for _, l := range rep.Limits {
		fmt.Fprintf(&b, "  not stopped: %s\n", l.Text)
	}
	return b.String()
}

func names(list []Pattern, builtin bool) (out []string) {
	for _, p := range list {
		if strings.HasPrefix(p.Rule, "built-in") == builtin {
			_, name, _ := strings.Cut(p.Rule, " ")
			out = append(out, name)
		}
	}
	return slices.Compact(out)
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return out
}

func limit(n int64, unit string) []string {
	if n == 0 {
		return []string{"no limit is claimed"}
	}
	return []string{fmt.Sprintf("%d%s", n, unit)}
}
