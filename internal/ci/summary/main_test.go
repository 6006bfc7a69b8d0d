package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	started = `{"Action":"start","Package":"p"}` + "\n"
	passed  = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
`
	ended = `{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.01s\n"}
{"Action":"pass","Package":"p","Elapsed":0.01}
`
)

func TestSummary(t *testing.T) {
	for name, c := range map[string]struct {
		stream, want, err string
		ok                bool
	}{
		"a passing package shows its line and the counts": {
			stream: started + passed + ended, ok: true,
			want: "ok  \tp\t0.01s\n1 tests passed, 0 failed, 0 skipped; 1 packages, 0 failed (subtests count)\n",
		},
		"a skip shows its reason": {
			stream: started + passed + `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: no server\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
` + ended, ok: true,
			want: "ok  \tp\t0.01s\nskipped p.TestB: b_test.go:3: no server\n1 tests passed, 0 failed, 1 skipped; 1 packages, 0 failed (subtests count)\n",
		},
		"a failure shows its output": {
			stream: started + `{"Action":"output","Package":"p","Test":"TestB","Output":"--- FAIL: TestB (0.00s)\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.01s\n"}
{"Action":"fail","Package":"p"}
`,
			want: "--- FAIL: TestB (0.00s)\n    b_test.go:3: wrong\nFAIL\tp\t0.01s\n0 tests passed, 1 failed, 0 skipped; 1 packages, 1 failed (subtests count)\n",
		},
		"a build failure shows the compiler's words": {
			stream: `{"ImportPath":"p [p.test]","Action":"build-output","Output":"p.go:1: no\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
` + started + passed + ended,
			want: "p.go:1: no\nok  \tp\t0.01s\n1 tests passed, 0 failed, 0 skipped; 1 packages, 1 failed (subtests count)\n",
		},
		"a package that never ends is a failure": {stream: started + passed, err: "before the tests did"},
		"a test that never ends is a failure": {
			stream: started + `{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN\n"}` + "\n" + ended, err: "before the tests did",
		},
		"nothing is a failure":          {err: "no test ran"},
		"no test is a failure":          {stream: started + ended, err: "no test ran"},
		"a broken line is a failure":    {stream: started + `{"Action":` + "\n", err: "line 2 is not an event"},
		"other output is a failure":     {stream: "go: cannot find main module\n", err: "line 1 is not an event"},
		"a skip without a word has one": {stream: started + `{"Action":"skip","Package":"p","Test":"TestB"}` + "\n" + ended, ok: true, want: "ok  \tp\t0.01s\nskipped p.TestB: no reason given\n0 tests passed, 0 failed, 1 skipped; 1 packages, 0 failed (subtests count)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			ok, err := summarize(strings.NewReader(c.stream), &out)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.False(t, ok)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.want, out.String())
		})
	}
}

func FuzzSummary(f *testing.F) {
	f.Add(started + passed + ended)
	f.Fuzz(func(t *testing.T, stream string) {
		var out strings.Builder
		ok, err := summarize(strings.NewReader(stream), &out)
		require.False(t, ok && err != nil)
	})
}
