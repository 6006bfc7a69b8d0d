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

var update = flag.Bool("update", false, "write testdata/matrix.golden anew")

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
	fails, unclear []string
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
	all := slices.DeleteFunc(mutants.All(), func(m mutants.Mutant) bool { return named[m.Name] == nil })
	reach := reached(t, list)
	rows := make([]row, len(all))
	var wait sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, m := range all {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i] = run(t, m.Name, list, reach)
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
	var golden strings.Builder
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
		others := slices.DeleteFunc(slices.Clone(rows[i].fails), func(id string) bool { return slices.Contains(named[m.Name], id) })
		fmt.Fprintf(&golden, "%s: %s; also %s; unclear %d\n", m.Name, strings.Join(named[m.Name], " "), strings.Join(others, " "), len(rows[i].unclear))
	}
	for m := range named {
		require.True(t, slices.ContainsFunc(all, func(x mutants.Mutant) bool { return x.Name == m }), "%v name the mutant %s, which is not in the catalogue", named[m], m)
	}
	require.Empty(t, vacuous, "checks that kill nothing")
	same(t, golden.String())
	t.Logf("frozen=%d", frozen)
	fmt.Printf("checks=%d mutants=%d killed=%d vacuous=%d\n", len(list), len(all), killed, len(vacuous))
}

// reached runs every check on the clean desk and notes which mutants it came
// across: the others would have behaved the same in it.
func reached(t *testing.T, list []check.Check) map[string]map[string]bool {
	sw := mutants.NewSwitch("")
	f := mutants.Desk(sw)
	f.Requirements = connectortest.Newest
	s, err := check.Open(t, &f, check.InDouble)
	require.NoError(t, err)
	sw.Asked() // while it was opened
	out := map[string]map[string]bool{}
	for _, c := range list {
		r := check.Do(t, s, &c)
		if r.Verdict != check.Pass {
			t.Errorf("the clean desk: %s: %v %s %v", c.ID, r.Verdict, r.Reason, r.Findings)
		}
		out[c.ID] = sw.Asked()
	}
	return out
}

func run(t *testing.T, bug string, list []check.Check, reach map[string]map[string]bool) (out row) {
	f := mutants.Desk(mutants.NewSwitch(bug))
	s, err := check.Open(t, &f, check.InDouble)
	if err != nil {
		t.Errorf("%s: %v", bug, err)
		return row{}
	}
	for _, c := range list {
		if !reach[c.ID][bug] && !slices.Contains(c.Kills, bug) {
			continue
		}
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

// same compares what the mutants break with what is known.
func same(t *testing.T, matrix string) {
	path := filepath.Join("testdata", "matrix.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(matrix), 0o644))
	}
	known, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(known), matrix, "the mutants break other checks than is known; if that is meant, run with -update")
}
