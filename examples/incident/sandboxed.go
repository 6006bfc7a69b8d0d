package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

//go:embed sandbox.yaml
var sandboxText []byte

//go:embed analysis.awk
var analysisText []byte

// analysis is what came of the program in the sandbox.
type analysis struct {
	Policy string // digest of its text
	Report *sandbox.Report
	Said   string   // empty: it did not run
	Why    string   // it did not run
	Tried  string   // a file outside
	Denied bool     // it could not be read
	Unheld []string // claims that the machine does not hold, if that is why
}

// held are the claims that are enforced, and by what.
func (a *analysis) held() (claims int, by []string) {
	seen := map[string]bool{}
	for _, c := range a.Report.Claims {
		if c.Strength != sandbox.Enforced {
			continue
		}
		claims++
		for _, b := range c.By {
			if !seen[b] {
				seen[b], by = true, append(by, b)
			}
		}
	}
	return claims, by
}

// analyse compares the points before and after by a program that nobody has to
// trust: it reads one directory, writes another, and reaches nobody. outside is
// a file that it tries to read, and must not.
func analyse(ctx context.Context, self process.Self, points []point, outside string) (*analysis, error) {
	a := &analysis{Policy: string(skill.DigestOf(sandboxText)), Tried: filepath.Base(outside)}
	if len(points) == 0 {
		a.Why = "there are no samples to look at"
		return a, nil
	}
	awk, err := program("awk")
	if err != nil {
		a.Why = "there is no awk here"
		return a, nil
	}
	dir, err := os.MkdirTemp("", "analysis")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd, rules, err := prepare(dir, awk, points)
	if err != nil {
		return nil, err
	}
	x, err := process.New(&process.Options{Self: self})
	if toolresult.Code(err) == toolresult.Unsupported {
		a.Why = "programs are confined on Linux only, so nothing was started"
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	if a.Report, err = x.Probe(ctx, rules); err != nil {
		return nil, err
	}
	said, code, err := confined(ctx, x, rules, cmd)
	var unenforced *sandbox.UnenforcedError
	switch {
	case errors.As(err, &unenforced):
		a.Why = "this machine does not hold what the policy requires, so nothing was started"
		for _, m := range unenforced.Missing {
			a.Unheld = append(a.Unheld, fmt.Sprintf("%s: %s", m.Claim, m.Gap))
		}
		return a, nil
	case err != nil:
		return nil, err
	case code != 0:
		a.Why = fmt.Sprintf("the program ended with %d", code)
		return a, nil
	}
	a.Said = strings.TrimSpace(said)
	// The same program, and a file that is none of its business.
	cmd.Args = []string{"{ print }", outside}
	said, code, err = confined(ctx, x, rules, cmd)
	a.Denied = err == nil && code != 0 && said == ""
	return a, err
}

// prepare writes what the program may read.
func prepare(dir, awk string, points []point) (*sandbox.Command, *sandbox.Rules, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil, err
	}
	var data bytes.Buffer
	for _, p := range points {
		fmt.Fprintf(&data, "%s %g\n", p.At.UTC().Format("15:04:05Z"), p.Value)
	}
	in := filepath.Join(dir, "in")
	if err := errors.Join(os.Mkdir(in, 0o755), os.Mkdir(filepath.Join(dir, "out"), 0o755)); err != nil {
		return nil, nil, err
	}
	text, values := filepath.Join(in, "analysis.awk"), filepath.Join(in, "p95.txt")
	if err := errors.Join(os.WriteFile(text, analysisText, 0o644), os.WriteFile(values, data.Bytes(), 0o644)); err != nil {
		return nil, nil, err
	}
	policy, err := sandbox.ParsePolicy(sandboxText)
	if err != nil {
		return nil, nil, err
	}
	rules, err := policy.Resolve(sandbox.Base{Workspace: dir})
	return &sandbox.Command{Path: awk, Args: []string{"-f", text, values}, Dir: in}, rules, err
}

func confined(ctx context.Context, x sandbox.Executor, rules *sandbox.Rules, cmd *sandbox.Command) (said string, code int, err error) {
	var out bytes.Buffer
	c := *cmd
	c.Stdout = &out
	running, err := x.Start(ctx, rules, &c)
	if err != nil {
		return "", 0, err
	}
	result, err := running.Wait()
	if err != nil {
		return "", 0, err
	}
	return out.String(), result.ExitCode, nil
}

// program finds a program of the system, behind all its links.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}
