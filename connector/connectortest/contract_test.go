package connectortest_test

import (
	"cmp"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
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
	t.Run("desk", func(t *testing.T) {
		t.Parallel()
		for _, r := range cleanDesk(t).results {
			if r.Verdict != check.Pass {
				t.Errorf("%s: %v %s %v; the desk has everything\n%s", r.Check, r.Verdict, r.Reason, r.Findings, r.Transcript)
			}
		}
	})
	t.Run("warehouse", func(t *testing.T) {
		t.Parallel()
		for _, r := range connectortest.Run(t, mutants.Warehouse()).Results {
			if !r.Verdict.Green() {
				t.Errorf("%s: %v %s %v\n%s", r.Check, r.Verdict, r.Reason, r.Findings, r.Transcript)
			}
		}
	})
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
	desk, known := cleanDesk(t), golden(t)
	for _, r := range desk.results {
		require.Equal(t, check.Pass, r.Verdict, "the clean desk: %s: %s %v", r.Check, r.Reason, r.Findings)
	}
	rows := make([]row, len(all))
	var wait sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, m := range all {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i] = desk.run(t, m.Name, desk.plan(m.Name, list, known[m.Name]))
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
	same(t, all, rows, known)
	t.Logf("frozen=%d", frozen)
	fmt.Printf("checks=%d mutants=%d killed=%d vacuous=%d\n", len(list), len(all), killed, len(vacuous))
}

// clean is what is known about the desk without a bug.
type clean struct {
	subject *check.Subject
	results []check.Result
	opening map[string]bool            // mutants that its ordinary calls came across
	reach   map[string]map[string]bool // mutants that each check came across
}

var (
	cleanOnce sync.Mutex
	cleanRun  *clean
)

// cleanDesk runs every check on the clean desk, once for all tests, and notes which
// mutants each came across: the others would have behaved the same in it.
func cleanDesk(t *testing.T) *clean {
	cleanOnce.Lock()
	defer cleanOnce.Unlock()
	if cleanRun != nil {
		return cleanRun
	}
	list, sw := connectortest.Checks(), mutants.NewSwitch("")
	f := mutants.Desk(sw)
	s, err := check.Open(t, &f, check.InDouble)
	require.NoError(t, err)
	out := &clean{s, make([]check.Result, len(list)), sw.Asked(), map[string]map[string]bool{}}
	var wait sync.WaitGroup
	var mu sync.Mutex
	for i := range 2 {
		wait.Go(func() {
			for j := i; j < len(list); j += 2 {
				sw := mutants.NewSwitch("")
				f := mutants.Desk(sw)
				out.results[j] = check.Do(t, s.Like(&f), &list[j])
				mu.Lock()
				out.reach[list[j].ID] = sw.Asked()
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	cleanRun = out
	return out
}

// sampled is how many checks that a mutant is not known to break it is run against
// from day to day.
const sampled = 1

// dear are the checks that come across everything and take as long as ten others.
var dear = map[string]bool{"concurrency/principals": true, "concurrency/random-walk": true}

// plan chooses the checks that a mutant is run against: those that name it, those
// that are known to fail, and a sample of the others that come across it. -full and
// -update run all that come across it.
func (k *clean) plan(bug string, list []check.Check, known entry) (out []check.Check) {
	var others []string
	for _, c := range list {
		if k.reach[c.ID][bug] && !dear[c.ID] {
			others = append(others, c.ID)
		}
	}
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Compare(crc32.ChecksumIEEE([]byte(bug+a)), crc32.ChecksumIEEE([]byte(bug+b)))
	})
	if len(others) > sampled && !*full && !*update {
		others = others[:sampled]
	}
	for _, c := range list {
		if slices.Contains(c.Kills, bug) || slices.Contains(known.fails, c.ID) || slices.Contains(others, c.ID) || *full && k.reach[c.ID][bug] {
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
	s.Brief = true
	for _, c := range list {
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

// entry is what is known of a mutant: the checks that fail, and those that are
// inconclusive.
type entry struct{ fails, unclear []string }

const goldenFile = "testdata/matrix.golden"

// golden reads what is known of each mutant: a line for each.
func golden(t *testing.T) map[string]entry {
	text, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	known := map[string]entry{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		fails, unclear, _ := strings.Cut(rest, "; unclear:")
		known[name] = entry{strings.Fields(fails), strings.Fields(unclear)}
	}
	return known
}

// same compares what the mutants break with what is known, as far as they were run.
func same(t *testing.T, all []mutants.Mutant, rows []row, known map[string]entry) {
	if *update {
		var b strings.Builder
		for i, m := range all {
			fmt.Fprintf(&b, "%s: %s; unclear: %s\n", m.Name, strings.Join(rows[i].fails, " "), strings.Join(rows[i].unclear, " "))
		}
		require.NoError(t, os.WriteFile(goldenFile, []byte(b.String()), 0o644))
		return
	}
	for i, m := range all {
		ran := func(list []string) []string {
			return slices.DeleteFunc(slices.Clone(list), func(id string) bool { return !slices.Contains(rows[i].ran, id) })
		}
		want, ok := known[m.Name]
		if !ok {
			t.Errorf("%s is not in %s: run with -update", m.Name, goldenFile)
			continue
		}
		if !slices.Equal(ran(want.fails), rows[i].fails) || !slices.Equal(ran(want.unclear), rows[i].unclear) {
			t.Errorf("%s breaks %v, and is known to break %v (unclear %v, known %v); if that is meant, run with -update", m.Name, rows[i].fails, ran(want.fails), rows[i].unclear, ran(want.unclear))
		}
	}
}
