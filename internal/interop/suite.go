package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
)

// A suite is what somebody else wrote to be run against a server.
type suite struct {
	name, version string
	run           func(ctx context.Context, n *node) (outcomes, error)
}

// outcomes say why scenarios failed; those that passed have an empty text.
type outcomes map[string]string

var suites = []suite{
	{"conformance-server", "2026-07-28", conformance("2026-07-28", false)},
	{"conformance-server", "2025-11-25", conformance("2025-11-25", false)},
	{"conformance-server-not-scored", "2026-07-28", conformance("2026-07-28", true)},
	{"conformance-server-not-scored", "2025-11-25", conformance("2025-11-25", true)},
	{"typescript-sdk-1.32.2", "2025-11-25", client("client1.mjs")},
	{"typescript-client-2.4.0", "2026-07-28", client("client2.mjs", "2026-07-28")},
	{"typescript-client-2.4.0", "auto", client("client2.mjs", "auto")},
	{"typescript-client-2.4.0", "2025-11-25", client("client2.mjs", "legacy")},
}

// A node is where Node and the packages are.
type node struct{ dir, bin string }

func findNode(dir string) (*node, error) {
	if dir == "" {
		return nil, errors.New("DRAWBRIDGE_NODE names no directory; .ci/run install fills one")
	}
	n := &node{dir, filepath.Join(dir, "node_modules", "node", "bin", "node")}
	for _, f := range []string{n.bin, n.conformance(), n.file("sdk", "package.json"), n.file("client", "package.json")} {
		if _, err := os.Stat(f); err != nil {
			return nil, fmt.Errorf("DRAWBRIDGE_NODE does not hold what it should: %w", err)
		}
	}
	return n, nil
}

func (n *node) file(path ...string) string {
	return filepath.Join(append([]string{n.dir, "node_modules", "@modelcontextprotocol"}, path...)...)
}

func (n *node) conformance() string { return n.file("conformance", "dist", "index.js") }

// command runs Node in its directory, where it finds the packages.
func (n *node) command(ctx context.Context, args ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	cmd := exec.CommandContext(ctx, n.bin, args...)
	cmd.Dir = n.dir
	cmd.WaitDelay = 10 * time.Second
	return cmd, cancel
}

// serve serves the fixture until the function that it returns is called.
func serve() (url string, end func(), err error) {
	a, err := everything()
	if err != nil {
		return "", nil, err
	}
	srv := httptest.NewServer(a.HTTP())
	return srv.URL, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = a.Shutdown(ctx) // clients that did not end their sessions are cut off
		srv.CloseClientConnections()
		srv.Close()
	}, nil
}

// conformance runs the server scenarios that a revision requires, or those that
// the suite runs beside them and does not score.
func conformance(revision string, notScored bool) func(context.Context, *node) (outcomes, error) {
	return func(ctx context.Context, n *node) (outcomes, error) {
		scored, err := n.scored(ctx, revision)
		if err != nil {
			return nil, err
		}
		url, end, err := serve()
		if err != nil {
			return nil, err
		}
		defer end()
		dir, err := os.MkdirTemp("", "conformance")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		cmd, cancel := n.command(ctx, n.conformance(), "server", "--url", url, "--requirements", revision, "-o", dir)
		defer cancel()
		said, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return nil, err
		}
		all, err := readChecks(dir)
		if err != nil || len(all) == 0 {
			return nil, fmt.Errorf("no results: %w\n%s", err, said)
		}
		out := outcomes{}
		for name, why := range all {
			if slices.Contains(scored, name) != notScored {
				out[name] = why
			}
		}
		for _, name := range scored {
			if _, ran := all[name]; !ran && !notScored {
				out[name] = "it did not run"
			}
		}
		return out, nil
	}
}

// scored lists the server scenarios that a revision requires.
func (n *node) scored(ctx context.Context, revision string) ([]string, error) {
	cmd, cancel := n.command(ctx, n.conformance(), "list", "--requirements", revision)
	defer cancel()
	text, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var out []string
	server := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "- "); ok && server {
			out = append(out, name)
		} else if line != "" {
			server = strings.HasPrefix(line, "Server scenarios")
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no scenario is required by %s", revision)
	}
	return out, nil
}

// readChecks reads what the suite wrote down. A warning counts as a failure.
func readChecks(dir string) (outcomes, error) {
	files, err := filepath.Glob(filepath.Join(dir, "server-*", "checks.json"))
	if err != nil {
		return nil, err
	}
	out := outcomes{}
	for _, f := range files {
		name := strings.TrimPrefix(filepath.Base(filepath.Dir(f)), "server-")
		name = name[:max(0, len(name)-len("-2026-11-30T15-16-48-894Z"))]
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var checks []struct{ ID, Status, ErrorMessage string }
		if err := json.Unmarshal(text, &checks); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		var why []string
		for _, c := range checks {
			if c.Status == "FAILURE" || c.Status == "WARNING" {
				why = append(why, c.ID+": "+c.ErrorMessage)
			}
		}
		if len(checks) == 0 {
			why = []string{"it checked nothing"}
		}
		out[name] = strings.Join(why, "; ")
	}
	return out, nil
}

//go:embed testdata/client1.mjs
var client1 []byte

//go:embed testdata/client2.mjs
var client2 []byte

// client runs one of our scripts with somebody else's client.
func client(script string, args ...string) func(context.Context, *node) (outcomes, error) {
	text := client1
	if script == "client2.mjs" {
		text = client2
	}
	return func(ctx context.Context, n *node) (outcomes, error) {
		url, end, err := serve()
		if err != nil {
			return nil, err
		}
		defer end()
		cmd, cancel := n.command(ctx, append([]string{"--input-type=module", "-", url}, args...)...)
		defer cancel()
		var errs bytes.Buffer
		cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &errs
		said, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", script, err, errs.String())
		}
		out := outcomes{}
		for s := bufio.NewScanner(bytes.NewReader(said)); s.Scan(); {
			var line struct {
				Scenario, Why string
				OK            bool
			}
			if err := json.Unmarshal(s.Bytes(), &line); err != nil {
				return nil, fmt.Errorf("%s printed %q", script, s.Text())
			}
			if out[line.Scenario] = line.Why; !line.OK && line.Why == "" {
				out[line.Scenario] = "it says no more"
			}
		}
		if _, whole := out["close"]; !whole {
			return nil, fmt.Errorf("%s did not come to its end\n%s", script, errs.String())
		}
		return out, nil
	}
}

//go:embed expected_failures.yaml
var expectedFailures []byte

// expected are failures that are known, by suite, version and scenario.
type expected map[[3]string]string

func readExpected(text []byte) (expected, error) {
	var list []struct {
		Suite    string `yaml:"suite"`
		Version  string `yaml:"version"`
		Scenario string `yaml:"scenario"`
		Link     string `yaml:"link"`
		Reason   string `yaml:"reason"`
	}
	if err := strictyaml.Decode(text, &list); err != nil {
		return nil, fmt.Errorf("expected_failures.yaml: %w", err)
	}
	out := expected{}
	for i, e := range list {
		key := [3]string{e.Suite, e.Version, e.Scenario}
		known := slices.ContainsFunc(suites, func(s suite) bool { return s.name == e.Suite && s.version == e.Version })
		switch {
		case !strings.HasPrefix(e.Link, "https://") || e.Reason == "":
			return nil, fmt.Errorf("expected_failures.yaml: entry %d has no link or no reason", i+1)
		case !known || e.Scenario == "" || out[key] != "":
			return nil, fmt.Errorf("expected_failures.yaml: entry %d is of no suite, names no scenario, or is there twice", i+1)
		}
		out[key] = e.Reason
	}
	return out, nil
}

// A line is what is printed about one suite.
type line struct {
	Suite     string `json:"suite"`
	Version   string `json:"version"`
	Scenarios int    `json:"scenarios"`
	Passed    int    `json:"passed"`
	Failed    int    `json:"failed"` // and were not expected to
	Expected  int    `json:"expected_failures"`
}

// judge counts, and says what is not as it was expected: a failure that is not
// in the file, and one in the file that passed or did not run.
func (e expected) judge(s suite, o outcomes) (line, []string) {
	l := line{Suite: s.name, Version: s.version, Scenarios: len(o)}
	var problems []string
	for name, why := range o {
		_, known := e[[3]string{s.name, s.version, name}]
		switch {
		case why == "":
			l.Passed++
			if known {
				problems = append(problems, fmt.Sprintf("%s %s: %s passes; take it out of expected_failures.yaml", s.name, s.version, name))
			}
		case known:
			l.Expected++
		default:
			l.Failed++
			problems = append(problems, fmt.Sprintf("%s %s: %s: %s", s.name, s.version, name, why))
		}
	}
	for key := range e {
		if _, ran := o[key[2]]; key[0] == s.name && key[1] == s.version && !ran {
			problems = append(problems, fmt.Sprintf("%s %s: %s is in expected_failures.yaml, and there is no such scenario", s.name, s.version, key[2]))
		}
	}
	slices.Sort(problems)
	return l, problems
}
