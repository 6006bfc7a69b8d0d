package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var rowName = regexp.MustCompile(`(?m)^\| ([^|]+?) +\|`)

// The README has the rows that the command prints, in its order, and each with
// what it is compared with. The numbers are of the day that stands above them.
func TestReadmeHasTheseRows(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), tableHead)
	require.True(t, ok, "the README has the table with these columns:\n%s", tableHead)
	table, _, _ = strings.Cut(table, "\n\n")
	var shown, printed []string
	for _, m := range rowName.FindAllStringSubmatch(table+"\n", -1) {
		shown = append(shown, m[1])
	}
	for _, e := range entries() {
		printed = append(printed, e.name)
		require.Contains(t, table, "| "+e.name+" | "+e.bare+" |")
	}
	require.Equal(t, printed, shown)
	require.Contains(t, string(text), "go run ./internal/bench\n", "how to have them again")
	require.Regexp(t, `\n20\d\d-\d\d-\d\d, \d+ cores, go1\.\d+(\.\d+)?, \w+/\w+, load [\d.]+; ours and bare alternated \d+ times\.\n`, string(text), "when and where they were measured")
}

// Both sides of every row work; those that start programs are left to the
// command.
func TestRowsWork(t *testing.T) {
	for _, e := range entries() {
		if e.slow {
			continue
		}
		r, err := e.open(t.TempDir())
		require.NoError(t, err, e.name)
		r.ours()
		r.base()
	}
}

func TestTable(t *testing.T) {
	require.Equal(t, "| a | b | 1.50 µs | 500 ns | 3.00 | 7 | 2 |\n", report{Name: "a", Bare: "b", OursNS: 1500, BaseNS: 500, Ratio: 3, Allocs: 7, BaseAllocs: 2}.line())
	require.Equal(t, "| a | b | 2.10 s | 45.0 ms | 46.60 |  |  |\n", report{Name: "a", Bare: "b", OursNS: 2_100_000_000, BaseNS: 45_000_000, Ratio: 46.6, slow: true}.line())
	require.Contains(t, report{Name: "a", Bare: "b", NotHere: "no kernel for it"}.line(), "not on this machine: no kernel for it", "a row that was not measured has no numbers")
	require.ErrorContains(t, run(nil, "", 0, time.Second, false), "at least one round")
	require.ErrorContains(t, run(nil, "", 1, 0, false), "of some time")
	require.ErrorContains(t, run(nil, "no such row", 1, time.Second, false), "see -names")
}

// A row that cannot be measured here is one line and no failure; one that fails
// is a failure.
func TestNotHere(t *testing.T) {
	rep, err := entry{name: "a", open: func(string) (row, error) { return row{}, errNotHere{"no kernel for it"} }}.report(1, time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, "no kernel for it", rep.NotHere)
	_, err = entry{name: "a", open: func(string) (row, error) { return row{}, os.ErrInvalid }}.report(1, time.Millisecond)
	require.ErrorIs(t, err, os.ErrInvalid)
}
