package launch

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/lazyre"
)

// runners decide when they start which code runs. The text says why.
var runners = map[string]string{
	"npx": "downloads and runs a package", "pnpx": "downloads and runs a package", "bunx": "downloads and runs a package",
	"uvx": "downloads and runs a package", "pipx": "downloads and runs a package", "dlx": "downloads and runs a package",
	"npm": "runs scripts and packages", "pnpm": "runs scripts and packages", "yarn": "runs scripts and packages", "bun": "runs scripts and packages",
	"uv": "resolves and runs packages", "pip": "installs packages", "pip3": "installs packages", "poetry": "runs what a project says", "corepack": "downloads and runs a package manager",
	"go": "compiles and runs what a module says", "cargo": "compiles and runs what a project says", "dotnet": "compiles and runs what a project says",
	"make": "runs what a project says", "just": "runs what a project says", "gradle": "runs what a project says", "mvn": "runs what a project says",
	"nix": "downloads and runs a package", "nix-shell": "downloads and runs a package", "brew": "installs packages", "gem": "installs packages", "bundle": "runs what a project says",

	"env": "starts another program that is searched for", "sudo": "starts another program with more rights", "su": "starts a shell with other rights", "doas": "starts another program with more rights",
	"xargs": "starts other programs", "nohup": "starts another program", "timeout": "starts another program", "nice": "starts another program", "setsid": "starts another program",
	"stdbuf": "starts another program", "strace": "starts another program", "script": "starts a shell", "find": "can start other programs", "ssh": "runs on another machine", "busybox": "is many programs, a shell among them",
	"unshare": "starts another program", "chroot": "starts another program", "watch": "starts a shell", "parallel": "starts other programs", "expect": "starts other programs", "git": "runs what a repository's settings say",
	"curl": "fetches what it is told to", "wget": "fetches what it is told to", "awk": "runs code that is an argument", "gawk": "runs code that is an argument", "mawk": "runs code that is an argument", "sed": "can run other programs",
	"deno": "downloads what a script imports", "ld.so": "starts another program", "ld-linux.so": "starts another program",
}

var containers = []string{"docker", "podman", "nerdctl", "docker-compose", "crictl", "ctr", "kubectl", "apptainer", "singularity"}

// interpreters run the file that is their first argument. Of their options only
// those are known to be harmless that match; every other may load code.
var interpreters = map[string]*lazyre.Regexp{
	"python": lazyre.New(`^-[uBIsSEOPqbd]+$`), "pypy": lazyre.New(`^-[uBIsSEOqbd]+$`),
	"node": lazyre.New(nodeOptions), "nodejs": lazyre.New(nodeOptions),
	"java": lazyre.New(`^(-jar|-Xm[sx][0-9]+[kmgKMG]?)$`),
	"ruby": lazyre.New(`^-w$`), "perl": lazyre.New(`^-[wTt]+$`), "php": lazyre.New(`^-n$`),
	"lua": none, "luajit": none, "rscript": none, "julia": none, "osascript": none, "tclsh": none,
	"sh": shell, "bash": shell, "dash": shell, "ash": shell, "zsh": shell, "ksh": shell, "mksh": shell,
	"fish": none, "csh": none, "tcsh": none, "rbash": none, "pwsh": none, "powershell": none, "cmd": none, "nu": none, "elvish": none,
}

const nodeOptions = `^--(max-old-space-size=[0-9]+|no-warnings|enable-source-maps|no-deprecation)$`

var (
	none  = lazyre.New(`^$.`)
	shell = lazyre.New(`^-[eux]+$`)
)

// loaders are variables that make a program load or run other code, besides
// those that no policy may list. Their values are nobody's approval.
var loaders = lazyre.New(`^(PATH|PYTHON.*|NODE_.*|PERL.*|RUBY.*|GEM_.*|JAVA_.*|JDK_.*|CLASSPATH|LUA_.*|PHP.*|R_.*|ZDOTDIR|SHELL|EDITOR|VISUAL|BROWSER|GIT_.*|.*_PAGER|.*_EDITOR|.*_PRELOAD|NPM_.*|npm_.*)$`)

var (
	versionTail = lazyre.New(`[-.]?[0-9][0-9.]*$`)
	digestRef   = lazyre.New(`@sha256:[0-9a-f]{64}$`)
	latest      = lazyre.New(`[@:](latest|next|canary|main|master|HEAD|edge|nightly)$`)
)

// base is the bare name of a program: python3.12 is python, npx-cli.js npx.
func base(path string) string {
	name := strings.ToLower(filepath.Base(path))
	for _, ext := range []string{".exe", ".js", ".mjs", ".cjs", ".py", ".rb", ".pl", ".cmd", ".sh", ".jar"} {
		name = strings.TrimSuffix(name, ext)
	}
	if name != "pip3" {
		name = versionTail.ReplaceAllString(name, "")
	}
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		return "ld-linux.so"
	}
	return strings.TrimSuffix(name, "-cli")
}

// A program as it is named, with what it is given: the executable, the
// interpreter of its first line, or a script.
type program struct {
	names  []string // as written and as found
	args   []string
	script string // the argument that it runs, if there is one
}

// mutable says why what would run is not fixed by its hashes.
func mutable(list []program, env []string) (why []string) {
	add := func(text string) {
		if text != "" && !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	for _, p := range list {
		for _, n := range p.names {
			add(p.runs(base(n)))
		}
		for _, a := range p.args {
			if latest.MatchString(a) {
				add("an argument names what can change: " + quote(a))
			}
		}
	}
	for _, e := range env {
		if loaders.MatchString(e) {
			add("the variable " + e + " can make it run other code, and its value is not approved")
		}
	}
	return why
}

func (p *program) runs(name string) string {
	if text := runners[name]; text != "" {
		return name + " " + text
	}
	if slices.Contains(containers, name) {
		if !slices.ContainsFunc(p.args, digestRef.MatchString) {
			return name + " runs an image that no digest (@sha256:...) fixes, with the rights of its daemon"
		}
		return name + " runs with the rights of its daemon, outside this sandbox"
	}
	harmless, ok := interpreters[name]
	if !ok {
		return ""
	}
	for _, a := range p.args {
		switch {
		case p.script != "" && a == p.script:
			return ""
		case a != "--" && !harmless.MatchString(a):
			return name + " is given, before any script, what may be or load other code: " + quote(a)
		}
	}
	return name + " is given no script"
}
