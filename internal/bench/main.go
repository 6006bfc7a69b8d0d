// Command bench measures what governance costs, against the bare thing in the
// same process:
//
//	go run ./internal/bench
//
// What other people's servers cost is measured in internal/bench/peers, a module
// of its own.
//
// It prints one JSON object per line: name, ours_ns, base_ns, ratio, allocs,
// base_allocs. Ours and base alternate, and the medians of their rounds are
// printed: times are noisy on a shared machine, ratios and allocations are not.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

// row is one comparison.
type row struct {
	name string
	ours func()
	base func()
}

// report is what is printed of a row.
type report struct {
	Name       string  `json:"name"`
	OursNS     int64   `json:"ours_ns"`
	BaseNS     int64   `json:"base_ns"`
	Ratio      float64 `json:"ratio"`
	Allocs     uint64  `json:"allocs"`
	BaseAllocs uint64  `json:"base_allocs"`
}

func main() {
	rounds := flag.Int("rounds", 15, "how often ours and base alternate")
	span := flag.Duration("span", 40*time.Millisecond, "how long a round of each lasts")
	flag.Parse()
	rows, err := rows()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for _, r := range rows {
		if err := out.Encode(r.measure(*rounds, *span)); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
}

func (r row) measure(rounds int, span time.Duration) report {
	var ours, base []int64
	rep := report{Name: r.name, Allocs: allocs(r.ours), BaseAllocs: allocs(r.base)}
	for range rounds {
		ours, base = append(ours, perOp(r.ours, span)), append(base, perOp(r.base, span))
	}
	rep.OursNS, rep.BaseNS = median(ours), median(base)
	if rep.BaseNS > 0 {
		rep.Ratio = float64(rep.OursNS*100/rep.BaseNS) / 100
	}
	return rep
}

// perOp runs f for a span and returns nanoseconds per run.
func perOp(f func(), span time.Duration) int64 {
	n := int64(0)
	start := time.Now()
	for time.Since(start) < span {
		for range 16 {
			f()
		}
		n += 16
	}
	return time.Since(start).Nanoseconds() / n
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

func median(v []int64) int64 {
	slices.Sort(v)
	return v[len(v)/2]
}
