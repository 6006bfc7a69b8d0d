// Summary reads what go test -json prints from its standard input, shows what
// go test without -json would have shown, and ends with counts of passed, failed
// and skipped tests and the reason of each skip.
//
// It exits with 1 when a test, a package or a build failed, when a package never
// ended, when no test ran at all, and when a line is not an event: a stream that
// was cut off must not look like success. It does not run tests, and it does not
// replace the exit code of go test (use pipefail).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	ok, err := summarize(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// An event is one line of go test -json (see go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
}

type report struct {
	out                     io.Writer
	output                  map[string][]string // of tests that have not ended
	open                    map[string]bool     // packages that have not ended
	passed, failed, skipped int
	packages, broken        int
	reasons                 []string
}

// summarize copies and counts. It reports false when something failed, and an
// error when the stream cannot be trusted.
func summarize(in io.Reader, out io.Writer) (ok bool, err error) {
	w := bufio.NewWriter(out)
	defer w.Flush()
	r := &report{out: w, output: map[string][]string{}, open: map[string]bool{}}
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, readErr := lines.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return false, fmt.Errorf("line %d is not an event of go test -json: %.200q", n, line)
			}
			r.take(e)
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return false, readErr
		}
		if isPackageLine(line) {
			w.Flush() // a person may be watching
		}
	}
	return r.close()
}

// isPackageLine says whether a line is about a package and not about a test.
func isPackageLine(line []byte) bool {
	return !strings.Contains(string(line), `"Test":`)
}

func (r *report) take(e event) {
	switch {
	case e.Action == "build-output":
		io.WriteString(r.out, e.Output)
	case e.Action == "build-fail":
		r.broken++
	case e.Test == "":
		r.takePackage(e)
	default:
		r.takeTest(e)
	}
}

func (r *report) takePackage(e event) {
	switch e.Action {
	case "start":
		r.open[e.Package] = true
		r.packages++
	case "output":
		if e.Output != "PASS\n" {
			io.WriteString(r.out, e.Output)
		}
	case "fail":
		r.broken++
		delete(r.open, e.Package)
	case "pass", "skip":
		delete(r.open, e.Package)
	}
}

func (r *report) takeTest(e event) {
	key := e.Package + "." + e.Test
	switch e.Action {
	case "output":
		r.output[key] = append(r.output[key], e.Output)
		return
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		io.WriteString(r.out, strings.Join(r.output[key], ""))
	case "skip":
		r.skipped++
		r.reasons = append(r.reasons, key+": "+reason(r.output[key]))
	default:
		return
	}
	delete(r.output, key)
}

// reason is what a test said before it skipped, without test2json's own lines.
func reason(output []string) string {
	var said []string
	for _, line := range strings.Split(strings.Join(output, ""), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

func (r *report) close() (bool, error) {
	for name := range r.open {
		fmt.Fprintf(r.out, "package %s did not end\n", name)
	}
	for key, lines := range r.output {
		fmt.Fprintf(r.out, "test %s did not end:\n%s", key, strings.Join(lines, ""))
	}
	slices.Sort(r.reasons)
	for _, s := range r.reasons {
		fmt.Fprintln(r.out, "skipped", s)
	}
	fmt.Fprintf(r.out, "%d tests passed, %d failed, %d skipped; %d packages, %d failed (subtests count)\n", r.passed, r.failed, r.skipped, r.packages, r.broken)
	switch {
	case len(r.open) > 0 || len(r.output) > 0:
		return false, fmt.Errorf("the stream ended before the tests did")
	case r.passed+r.failed+r.skipped == 0:
		return false, fmt.Errorf("no test ran")
	}
	return r.failed == 0 && r.broken == 0, nil
}
