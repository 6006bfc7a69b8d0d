// Command bench measures what governance costs, against the bare thing in the
// same process:
//
//	go run ./internal/bench              # a table in Markdown
//	go run ./internal/bench -json        # one JSON object a line
//	go run ./internal/bench -names       # only what would be measured
//
// What other people's servers cost is measured in internal/bench/peers, a module
// of its own.
//
// Ours and bare alternate in rounds. A time is processor time, of the whole
// process and of its children, so that waiting for a disk or for a neighbour is
// not in it and servers that are in the process are. It is that of the round with
// the least, because whatever else happens on a machine only adds to it; garbage is
// collected in every round. The ratio is that of the two. On a busy machine
// times still grow with what the neighbours leave of the caches, and allocations
// do not.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// row is one comparison.
type row struct {
	ours func()
	base func()
}

// entry is a row that is not made yet.
type entry struct {
	name string
	bare string                        // what ours is compared with
	open func(dir string) (row, error) // dir is the row's own, and goes away afterwards
	slow bool                          // a run takes so long that few have to do, and allocates in another process
}

// errNotHere says why this machine cannot measure a row.
type errNotHere struct{ why string }

func (e errNotHere) Error() string { return e.why }

// report is what came of a row.
type report struct {
	Name       string  `json:"name"`
	Bare       string  `json:"bare"`
	OursNS     int64   `json:"ours_ns"`
	BaseNS     int64   `json:"base_ns"`
	Ratio      float64 `json:"ratio"`
	Allocs     uint64  `json:"allocs"`
	BaseAllocs uint64  `json:"base_allocs"`
	NotHere    string  `json:"not_here,omitempty"` // why it was not measured
	slow       bool
}

func main() {
	rounds := flag.Int("rounds", 15, "how often ours and bare alternate")
	span := flag.Duration("span", 40*time.Millisecond, "how much time a round of each spends")
	lines := flag.Bool("json", false, "print one JSON object a line")
	names := flag.Bool("names", false, "print the names of the rows, and measure nothing")
	only := flag.String("only", "", "measure only the rows whose name holds this text")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "bench: what is", flag.Arg(0)+"? See -help.")
		os.Exit(2)
	}
	if *names {
		for _, e := range entries() {
			fmt.Println(e.name)
		}
		return
	}
	if err := run(os.Stdout, *only, *rounds, *span, *lines); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, only string, rounds int, span time.Duration, lines bool) error {
	chosen := slices.DeleteFunc(entries(), func(e entry) bool { return !strings.Contains(e.name, only) })
	switch {
	case rounds < 1 || span <= 0:
		return errors.New("at least one round, of some time")
	case len(chosen) == 0:
		return fmt.Errorf("no row's name holds %q; see -names", only)
	}
	if !lines {
		fmt.Fprintf(w, "%s, %d cores, %s, %s/%s, load %s; ours and bare alternated %d times.\n\n",
			time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, load(), rounds)
		fmt.Fprint(w, tableHead)
	}
	for _, e := range chosen {
		rep, err := e.report(rounds, span)
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if lines {
			err = json.NewEncoder(w).Encode(rep)
		} else {
			_, err = io.WriteString(w, rep.line())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load is how busy the machine is, as it says itself.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if one, _, ok := strings.Cut(string(text), " "); err == nil && ok {
		return one
	}
	return "unknown"
}

func (e entry) report(rounds int, span time.Duration) (report, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return report{}, err
	}
	defer os.RemoveAll(dir)
	r, err := e.open(dir)
	if gone, ok := errors.AsType[errNotHere](err); ok {
		return report{Name: e.name, Bare: e.bare, NotHere: gone.why}, nil
	}
	if err != nil {
		return report{}, err
	}
	if e.slow {
		rounds = min(rounds, 5)
	}
	rep := r.measure(rounds, span, e.slow)
	rep.Name, rep.Bare, rep.slow = e.name, e.bare, e.slow
	return rep, nil
}

func (r row) measure(rounds int, span time.Duration, slow bool) report {
	var rep report
	if !slow {
		rep.Allocs, rep.BaseAllocs = allocs(r.ours), allocs(r.base)
	}
	rep.OursNS, rep.BaseNS = math.MaxInt64, math.MaxInt64
	for range rounds {
		rep.OursNS, rep.BaseNS = min(rep.OursNS, perOp(r.ours, span)), min(rep.BaseNS, perOp(r.base, span))
	}
	rep.Ratio = math.Round(100*float64(rep.OursNS)/float64(max(rep.BaseNS, 1))) / 100
	return rep
}

// perOp runs f until a span is spent, once at least, and returns nanoseconds per
// run. It looks at the clock the less often the shorter a run is.
func perOp(f func(), span time.Duration) int64 {
	n, batch := int64(0), int64(1)
	began, start := time.Now(), spent()
	for {
		for range batch {
			f()
		}
		n += batch
		past := spent() - start
		if past >= span || time.Since(began) >= 10*span { // it waits more than it works
			return past.Nanoseconds() / n
		}
		batch = min(n, 256, max(1, n*int64(span-past)/int64(max(past, 1))))
	}
}

// allocs counts the allocations of one run, on one processor so that nobody
// else's are counted.
func allocs(f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const runs = 200
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.Mallocs - before.Mallocs) / runs
}

const tableHead = "| what | the bare thing | " + clock + " | bare | ratio | allocations | bare |\n|---|---|--:|--:|--:|--:|--:|\n"

func (r report) line() string {
	if r.NotHere != "" {
		return fmt.Sprintf("| %s | %s | not on this machine: %s | | | | |\n", r.Name, r.Bare, r.NotHere)
	}
	allocs, bare := fmt.Sprint(r.Allocs), fmt.Sprint(r.BaseAllocs)
	if r.slow {
		allocs, bare = "", ""
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %.2f | %s | %s |\n", r.Name, r.Bare, human(r.OursNS), human(r.BaseNS), r.Ratio, allocs, bare)
}

// human writes a time with three digits.
func human(ns int64) string {
	f := float64(ns)
	for _, unit := range []string{"ns", "µs", "ms"} {
		if f < 1000 {
			digits := 0
			if f < 10 && unit != "ns" {
				digits = 2
			} else if f < 100 && unit != "ns" {
				digits = 1
			}
			return fmt.Sprintf("%.*f %s", digits, f, unit)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.2f s", f)
}
