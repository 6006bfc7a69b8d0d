package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// needsNode skips a test that needs Node, or fails it where it has to be there.
func needsNode(t *testing.T) *node {
	t.Helper()
	dir := os.Getenv("DRAWBRIDGE_NODE")
	if dir == "" && os.Getenv("CI") != "true" {
		t.Skip("DRAWBRIDGE_NODE names no directory with the conformance suite and the clients; .ci/run install fills one")
	}
	n, err := findNode(dir)
	require.NoError(t, err)
	return n
}

// M1: what other people wrote to be run against a server says what
// expected_failures.yaml says: of what a revision requires, nothing fails.
func TestSuites_M1(t *testing.T) {
	n := needsNode(t)
	known, err := readExpected(expectedFailures)
	require.NoError(t, err)
	for _, s := range suites {
		t.Run(s.name+" "+s.version, func(t *testing.T) {
			o, err := s.run(t.Context(), n)
			require.NoError(t, err)
			l, problems := known.judge(s, o)
			require.Empty(t, problems)
			require.Positive(t, l.Scenarios)
			require.Equal(t, l.Scenarios, l.Passed+l.Expected)
			if s.name == "conformance-server" {
				require.Equal(t, map[string]int{"2026-07-28": 37, "2025-11-25": 30}[s.version], l.Passed, "all that are scored")
			}
		})
	}
}

// The file of known failures cannot hide one: an entry needs a link and a
// reason, has to be of a scenario that there is, and may not pass.
func TestExpectedFailures(t *testing.T) {
	s := suites[0]
	entry := func(scenario, link, reason string) string {
		return "- {suite: conformance-server, version: \"2026-07-28\", scenario: " + scenario + ", link: \"" + link + "\", reason: \"" + reason + "\"}\n"
	}
	for name, text := range map[string]string{
		"no link":       entry("a", "", "why"),
		"no web link":   entry("a", "ftp://x", "why"),
		"no reason":     entry("a", "https://x", ""),
		"twice":         entry("a", "https://x", "why") + entry("a", "https://x", "why"),
		"unknown suite": "- {suite: other, version: \"1\", scenario: a, link: \"https://x\", reason: why}",
		"unknown field": "- {suite: conformance-server, version: \"2026-07-28\", scenario: a, link: \"https://x\", reason: why, skip: true}",
		"no scenario":   entry("\"\"", "https://x", "why"),
	} {
		_, err := readExpected([]byte(text))
		require.Error(t, err, name)
	}
	known, err := readExpected([]byte(entry("a", "https://x", "why") + entry("b", "https://x", "why") + entry("gone", "https://x", "why")))
	require.NoError(t, err)
	l, problems := known.judge(s, outcomes{"a": "broken", "b": "", "c": "broken as well", "d": ""})
	require.Equal(t, line{Suite: s.name, Version: s.version, Scenarios: 4, Passed: 2, Failed: 1, Expected: 1}, l)
	require.Len(t, problems, 3)
	require.Contains(t, problems[0], "b passes")
	require.Contains(t, problems[1], "c: broken as well")
	require.Contains(t, problems[2], "gone")
}
