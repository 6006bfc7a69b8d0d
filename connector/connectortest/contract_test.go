package connectortest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/internal/mutants"
)

var (
	update = flag.Bool("update", false, "write testdata/matrix.golden anew, from the full matrix")
	full   = flag.Bool("full", false, "run every mutant against every check that comes across it")
)

// The references are clean: every check passes on the desk, and on the warehouse
// every check passes or has no object there.
func TestReferences(t *testing.T) {
	for name, f := range references() {
		t.Run(name, func(t *testing.T) {
			for _, r := range connectortest.Run(t, f).Results {
				if !r.Verdict.Green() {
					t.Errorf("%s: %v %s %v\n%s", r.Check, r.Verdict, r.Reason, r.Findings, r.Transcript)
				}
				if name == "desk" && r.Verdict != check.Pass {
					t.Errorf("%s: %v: %s; the desk has everything", r.Check, r.Verdict, r.Reason)
				}
			}
		})
	}
}

func references() map[string]connectortest.Fixture {
	return map[string]connectortest.Fixture{"desk": mutants.Desk(mutants.NewSwitch("")), "warehouse": mutants.Warehouse()}
}

// No check passes on a connector that does nothing, except those that look at
// the declaration only.
func TestDeadConnectors(t *testing.T) {
	list := connectortest.Checks()
	for _, d := range mutants.DeadConnectors() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			f := d.Fixture()
			s, err := check.Open(t, &f, check.InDouble)
			require.NoError(t, err)
			for _, c := range list {
				if r := check.Do(t, s, &c); r.Verdict.Green() != c.Static && !(r.Verdict == check.NotApplicable && c.Static) {
					t.Errorf("%s: %v: it would pass for everybody", c.ID, r.Verdict)
				}
			}
		})
	}
}

// row is what all checks said about one mutant.
type row struct {
	ran, fails, unclear []string
}

// Every mutant dies by the checks that name it, every check kills something, and
// what else a mutant breaks is known.
func TestEveryMutantDies(t *testing.T) {
	list := connectortest.Checks()
	named := map[string][]string{}
	frozen := 0
	for _, c := range list {
		require.NotEmpty(t, c.Kills, "%s kills nothing: it proves nothing", c.ID)
		for _, m := range c.Kills {
			named[m] = append(named[m], c.ID)
		}
		if c.Since != "" {
			frozen++
		}
	}
	all := mutants.All()
	for _, m := range all {
		require.NotEmpty(t, named[m.Name], "no check names the mutant %s of the catalogue: nothing has to kill it", m.Name)
	}
	known := reached(t, list)
	rows := make([]row, len(all))
	var wait sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, m := range all {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i] = known.run(t, m.Name, list)
		})
		if m.Name == "env-token" { // it looks at the environment, which is one for all
			wait.Wait()
		}
	}
	wait.Wait()
	killed, vacuous := 0, map[string]bool{}
	for _, c := range list {
		vacuous[c.ID] = true
	}
	for i, m := range all {
		alive := slices.DeleteFunc(slices.Clone(named[m.Name]), func(id string) bool { return slices.Contains(rows[i].fails, id) })
		if len(alive) == 0 {
			killed++
		} else {
			t.Errorf("the mutant %s survives %v; it fails %v, unclear %d", m.Name, alive, rows[i].fails, len(rows[i].unclear))
		}
		for _, id := range named[m.Name] {
			delete(vacuous, id)
		}
	}
	for m := range named {
		require.True(t, slices.ContainsFunc(all, func(x mutants.Mutant) bool { return x.Name == m }), "%v name the mutant %s, which is not in the catalogue", named[m], m)
	}
	require.Empty(t, vacuous, "checks that kill nothing")
	same(t, all, rows)
	t.Logf("frozen=%d", frozen)
	fmt.Printf("checks=%d mutants=%d killed=%d vacuous=%d\n", len(list), len(all), killed, len(vacuous))
}

// clean is what is known about the desk without a bug.
type clean struct {
	subject *check.Subject
	opening map[string]bool            // mutants that its ordinary calls came across
	reach   map[string]map[string]bool // mutants that each check came across
}

// reached runs every check on the clean desk and notes which mutants it came
// across: the others would have behaved the same in it.
func reached(t *testing.T, list []check.Check) *clean {
	sw := mutants.NewSwitch("")
	f := mutants.Desk(sw)
	s, err := check.Open(t, &f, check.InDouble)
	require.NoError(t, err)
	out := &clean{s, sw.Asked(), map[string]map[string]bool{}}
	for _, c := range list {
		r := check.Do(t, s, &c)
		if r.Verdict != check.Pass {
			t.Errorf("the clean desk: %s: %v %s %v", c.ID, r.Verdict, r.Reason, r.Findings)
		}
		out.reach[c.ID] = sw.Asked()
	}
	return out
}

// dear are the checks that cost as much as twenty others: a crowd of callers for
// each capability.
var dear = map[string]bool{"concurrency/principals": true}

// plan chooses the checks that a mutant is run against: those that name it, and
// those that come across it. From day to day, of one that nearly all come across
// every sixteenth is enough, and the dear checks are run against the mutants that
// name them; -full and -update run them all, and -full the random walk too.
func (k *clean) plan(bug string, list []check.Check) (out []check.Check) {
	wide := 0
	for _, c := range list {
		if k.reach[c.ID][bug] {
			wide++
		}
	}
	for i, c := range list {
		named := slices.Contains(c.Kills, bug)
		if c.ID == "concurrency/random-walk" && !named && !*full {
			continue // it comes across everything, and takes as long as ten others
		}
		today := wide < len(list)/4 || (i+len(bug))%16 == 0
		if named || k.reach[c.ID][bug] && (*full || *update || today && !dear[c.ID]) {
			out = append(out, c)
		}
	}
	return out
}

func (k *clean) run(t *testing.T, bug string, list []check.Check) (out row) {
	f := mutants.Desk(mutants.NewSwitch(bug))
	s := k.subject.Like(&f)
	if k.opening[bug] {
		var err error
		if s, err = check.Open(t, &f, check.InDouble); err != nil {
			t.Errorf("%s: %v", bug, err)
			return row{}
		}
	}
	for _, c := range k.plan(bug, list) {
		out.ran = append(out.ran, c.ID)
		switch r := check.Do(t, s, &c); r.Verdict {
		case check.Fail:
			out.fails = append(out.fails, c.ID)
		case check.Broken:
			t.Errorf("%s breaks %s: %s", bug, c.ID, r.Reason)
		case check.Inconclusive:
			out.unclear = append(out.unclear, c.ID)
		}
	}
	return out
}

// same compares what the mutants break with what is known: for each, a line with
// the checks that fail, and one with those that are inconclusive.
func same(t *testing.T, all []mutants.Mutant, rows []row) {
	path := filepath.Join("testdata", "matrix.golden")
	if *update {
		var b strings.Builder
		for i, m := range all {
			fmt.Fprintf(&b, "%s: %s; unclear: %s\n", m.Name, strings.Join(rows[i].fails, " "), strings.Join(rows[i].unclear, " "))
		}
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	known := map[string][2][]string{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		fails, unclear, _ := strings.Cut(rest, "; unclear:")
		known[name] = [2][]string{strings.Fields(fails), strings.Fields(unclear)}
	}
	for i, m := range all {
		ran := func(list []string) []string {
			return slices.DeleteFunc(slices.Clone(list), func(id string) bool { return !slices.Contains(rows[i].ran, id) })
		}
		want, ok := known[m.Name]
		if !ok {
			t.Errorf("%s is not in %s: run with -update", m.Name, path)
			continue
		}
		if !slices.Equal(ran(want[0]), rows[i].fails) || !slices.Equal(ran(want[1]), rows[i].unclear) {
			t.Errorf("%s breaks %v, and is known to break %v (unclear %v, known %v); if that is meant, run with -update", m.Name, rows[i].fails, ran(want[0]), rows[i].unclear, ran(want[1]))
		}
	}
}
