//go:build linux

package sandboxtest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
)

func outcome(id string, number int, v sandboxtest.Verdict, detail string) sandboxtest.Outcome {
	return sandboxtest.Outcome{
		Case:    sandboxtest.Case{ID: id, Number: number, Area: sandboxtest.Files, Claim: sandbox.FSRead, Says: "a file outside is not read"},
		Verdict: v, Strength: sandbox.Enforced, Detail: detail,
	}
}

// S6: the page says what failed and where it cannot be better, and what a
// hostile program printed is text in it.
func TestHTML_S6(t *testing.T) {
	hostile := `</td><script>alert(1)</script><img src=x onerror=alert(1)>"'&`
	r := &sandboxtest.Report{
		Executor: &sandbox.Report{
			Level: sandbox.LevelProcess, Backend: "re-exec" + hostile, Host: map[string]string{"kernel": hostile},
			Claims: []sandbox.Enforcement{{Claim: sandbox.FSRead, Strength: sandbox.Enforced, By: []string{"mounts", hostile}, Gap: hostile}},
			Limits: []sandbox.Limit{{Number: 142, Text: "which programs may run is no boundary " + hostile}},
		},
		Outcomes: []sandboxtest.Outcome{
			outcome("files/outside", 103, sandboxtest.Held, "refused"),
			outcome("files/hard-link", 106, sandboxtest.Breached, hostile),
			outcome("files/twin", 0, sandboxtest.Gap, "not here"),
		},
	}
	var b strings.Builder
	require.NoError(t, r.WriteHTML(&b))
	page := b.String()
	require.NotContains(t, page, "<script")
	require.NotContains(t, page, "<img")
	require.Equal(t, strings.Count(page, "<td"), strings.Count(page, "</td>"), "nothing closed a cell early")
	require.NotContains(t, page, "http://", "nothing comes from elsewhere")
	require.NotContains(t, page, "https://")
	for _, want := range []string{"did not hold", "BREACHED", "files/hard-link", "103", "1 held", "Not enforceable at this level", "Case 142:"} {
		require.Contains(t, page, want)
	}
	require.Equal(t, "fs.read: BREACHED files/hard-link\n", r.Holes())

	r.Outcomes = r.Outcomes[:1]
	b.Reset()
	require.NoError(t, r.WriteHTML(&b))
	require.Contains(t, b.String(), "Sandbox report: held")
	require.NotContains(t, b.String(), "What failed")
	require.True(t, r.OK())

	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(text), `"verdict":"held"`)

	empty := &sandboxtest.Report{}
	require.False(t, empty.OK(), "a suite that tried nothing found nothing out")
	b.Reset()
	require.NoError(t, empty.WriteHTML(&b))
	require.Contains(t, b.String(), "did not hold")
	require.Error(t, r.WriteHTML(full{}), "a disk that is full is no success")
	zero := &sandboxtest.Report{Outcomes: make([]sandboxtest.Outcome, 1)}
	require.False(t, zero.OK(), "the zero verdict fails")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk is full") }
