//go:build linux

package process_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
)

// elsewhere are the numbered cases that are tests by name, here and in package
// sandbox, because they are about a call of ours or need what the suite cannot
// bring.
var elsewhere = map[int]string{
	107: "../files_test.go", 108: "../files_test.go", 110: "../files_test.go", 122: "../files_test.go", 123: "../files_test.go", 124: "../files_test.go",
	105: "../policy_test.go", 120: "unit_test.go", 121: "../policy_test.go", 127: "unit_test.go", 141: "unit_test.go", 143: "unit_test.go",
	112: "unit_test.go", 162: "unit_test.go", 151: "unit_test.go", 99: "unit_test.go", 101: "../policy_test.go", 155: "unit_test.go", 156: "unit_test.go",
}

// Acceptance 1: every numbered case about files, processes and the program's
// side of network and credentials is a test with its number, or a limit that
// the report states.
func TestCorpus(t *testing.T) {
	numbers := []int{90, 91, 92, 93, 94, 95, 96, 97, 99, 101, 144, 145, 146, 151, 155, 156, 162}
	for n := 103; n <= 143; n++ {
		numbers = append(numbers, n)
	}
	rep, err := executor(t, process.Auto).Probe(t.Context(), rules(t, workspace(t), nil))
	require.NoError(t, err)
	stated := map[int]string{}
	for _, l := range rep.Limits {
		require.NotEmpty(t, l.Text)
		stated[l.Number] = l.Text
	}
	suite, named, limits := 0, 0, 0
	for _, n := range numbers {
		inSuite := slices.ContainsFunc(sandboxtest.Cases(), func(c sandboxtest.Case) bool { return c.Number == n })
		found := inSuite
		if inSuite {
			suite++
		}
		if name, ok := elsewhere[n]; ok {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			require.True(t, mentions(string(text), n), "case %d is not in %s", n, name)
			found = true
			named++
		}
		if stated[n] != "" {
			found = true
			limits++
		}
		require.True(t, found, "case %d is neither a test nor stated", n)
	}
	t.Logf("%d numbers: %d in the suite, %d as tests of their own, %d stated as limits", len(numbers), suite, named, limits)

	text := rules(t, workspace(t), nil).Explain(rep)
	require.Contains(t, text, "not stopped: what the host has mounted")
	ids := map[string]bool{}
	for _, c := range sandboxtest.Cases() {
		require.False(t, ids[c.ID], "two cases are %s", c.ID)
		ids[c.ID] = true
		require.NotEmpty(t, c.Says, c.ID)
		require.True(t, c.Claim == "" || slices.Contains(sandbox.Claims(), c.Claim), c.ID)
	}
}

var numbersIn = regexp.MustCompile(`[Cc]ases? ((?:\d+(?:-\d+)?(?:, | and )?)+)`)

// mentions reports whether a text speaks of case n: "case 107", "cases
// 103-106, 109".
func mentions(text string, n int) bool {
	for _, m := range numbersIn.FindAllStringSubmatch(text, -1) {
		for _, part := range regexp.MustCompile(`\d+(-\d+)?`).FindAllString(m[1], -1) {
			var a, b int
			if k := regexp.MustCompile(`-`).Split(part, 2); len(k) == 2 {
				a, b = atoi(k[0]), atoi(k[1])
			} else {
				a = atoi(part)
				b = a
			}
			if a <= n && n <= b {
				return true
			}
		}
	}
	return false
}

func atoi(s string) (n int) {
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}
