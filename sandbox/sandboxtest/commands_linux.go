package sandboxtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// spellings are ways to remove a file, of which a match of strings such as
// "rm -rf" sees few. $V is the file. Whether one is matched does not matter:
// none may reach outside.
var spellings = []struct{ tool, script string }{
	{"rm", "rm -r -f $V"}, {"rm", "rm  -rf $V"}, {"rm", "r''m -rf $V"}, {"rm", `"r"m -rf $V`}, {"rm", `\rm -rf $V`},
	{"base64", "$(echo cm0K | base64 -d) -rf $V"}, {"rm", `sh -c "$(printf '\162\155 -rf ')$V"`},
	{"env", "env rm -rf $V"}, {"rm", "command rm -rf $V"}, {"rm", "/bin/rm -rf $V"}, {"busybox", "busybox rm -rf $V"},
	{"find", "find $V -delete"}, {"find", "find $V -exec rm {} +"}, {"python3", `python3 -c "import os,sys;os.remove(sys.argv[1])" $V`},
	{"perl", "perl -e 'unlink shift' $V"}, {"awk", `awk 'BEGIN{system("rm -rf " ARGV[1])}' $V`}, {"tar", "tar -cf /dev/null --checkpoint=1 --checkpoint-action=exec=\"rm -rf $V\" /bin/true"},
	{"xargs", "echo $V | xargs rm -rf"}, {"make", "printf 'x:\\n\\trm -rf %s\\n' $V > m.mk; make -s -f m.mk"}, {"git", "git -c alias.x='!rm -rf '$V x"},
	{"rm", "X=r;${X}m -rf $V"}, {"rm", "r\\\nm -rf $V"}, {"rm", "eval $(echo rm) -rf $V"}, {"rm", "alias zz=rm; eval zz -rf $V"},
	{"nice", "nice rm -rf $V"}, {"timeout", "timeout 5 rm -rf $V"}, {"unlink", "unlink $V"}, {"mv", "mv $V ./taken"}, {"sed", "sed -n '1e rm -rf '$V /etc/passwd"},
	{"git", "GIT_SSH_COMMAND=\"rm -rf $V;\" git ls-remote ssh://x.invalid/y"}, {"bash", "echo \"rm -rf $V\" > p; BASH_ENV=./p bash -c true"},
}

// commands run each spelling against a file outside, with the spelling that
// the policy of the source blocks.
func commands() (out []Case) {
	for i, s := range spellings {
		out = append(out, Case{
			ID: fmt.Sprintf("commands/%02d-%s", i+1, s.tool), Area: Commands, Claim: sandbox.FSWrite,
			Says:    "a command that blocked_commands may not see reaches nothing outside: " + printable(s.script),
			needs:   tool(s.tool),
			program: "/bin/sh", args: func(w *world) []string {
				return []string{"-c", "V=" + w.path("outside/victim") + "; export V; " + s.script}
			},
			through: gone("outside/victim"),
		})
	}
	return out
}

// Matched returns how many of the known spellings of one removal a list of
// blocked texts sees: a measure of what such a list is worth.
func Matched(blocked []string) (matched, all int) {
	for _, s := range spellings {
		if slices.ContainsFunc(blocked, func(b string) bool { return strings.Contains(s.script, b) }) {
			matched++
		}
	}
	return matched, len(spellings)
}
