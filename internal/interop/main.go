// Command interop runs other people's clients, and the conformance suite of the
// protocol, against what this module serves. For each suite it prints one line
// of JSON:
//
//	{"suite":"conformance-server","version":"2026-07-28","scenarios":37,"passed":37,"failed":0,"expected_failures":0}
//
// and it exits with 1 if anything failed that is not in expected_failures.yaml,
// or if anything in it passed.
//
// It needs Node, the clients and the suite in a directory that the environment
// variable DRAWBRIDGE_NODE names; .ci/run has the command that fills it, with
// the versions that are held. The tests do the same as the command. Without the
// variable they are skipped, and with CI=true they fail.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	n, err := findNode(os.Getenv("DRAWBRIDGE_NODE"))
	if err != nil {
		return err
	}
	expected, err := readExpected(expectedFailures)
	if err != nil {
		return err
	}
	wrong := 0
	for _, s := range suites {
		o, err := s.run(ctx, n)
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.name, s.version, err)
		}
		l, problems := expected.judge(s, o)
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
		wrong += len(problems)
		for _, p := range problems {
			fmt.Fprintln(os.Stderr, p)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d scenarios did not do what was expected", wrong)
	}
	return nil
}
