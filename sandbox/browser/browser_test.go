package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox/browser"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// tab is a page that is always as declared, and remembers what it was asked.
type tab struct {
	steps []string
	fail  map[string]error
}

func (t *tab) Evaluate(_ context.Context, _ string, argument, result any) error {
	text, err := json.Marshal(argument)
	if err != nil {
		return err
	}
	var asked struct{ Step, Document string }
	if err := json.Unmarshal(text, &asked); err != nil {
		return err
	}
	t.steps = append(t.steps, asked.Step+asked.Document)
	if err := t.fail[asked.Step]; err != nil {
		return err
	}
	return json.Unmarshal([]byte(`{"ok":true,"document":" d1"}`), result)
}

func change() *browser.Change {
	return &browser.Change{
		URL: "https://desk.test/new", Checks: []browser.Check{{At: browser.ID("tenant"), Is: "acme"}},
		Fields: []browser.Field{{At: browser.Named("textbox", "Subject"), Value: "slow"}},
		Submit: browser.Named("button", "Create"), Action: "/tickets",
	}
}

func hooks(answers ...browser.Outcome) *browser.Hooks {
	return &browser.Hooks{
		Commit: func(context.Context) error { return nil },
		Confirm: func(context.Context) (browser.Outcome, error) {
			if len(answers) == 0 {
				return browser.Unknown, errors.New("the record cannot be read")
			}
			o := answers[0]
			answers = answers[1:]
			return o, nil
		},
	}
}

// S8: the steps in their order, in one document, and one click.
func TestOrder_S8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &tab{}
		o, err := browser.Do(t.Context(), p, change(), hooks(browser.Unknown, browser.Unknown, browser.Applied))
		require.NoError(t, err)
		require.Equal(t, browser.Applied, o)
		require.Equal(t, []string{"fill", "look d1", "click d1"}, p.steps)
	})
}

// S8: who cannot say whether the click happened says unknown, and asks the record
// until the time is over.
func TestUnknown_S8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p := &tab{fail: map[string]error{"click": errors.New("the browser is gone")}}
		o, err := browser.Do(ctx, p, change(), hooks())
		require.Equal(t, browser.Unknown, o)
		require.ErrorIs(t, err, toolresult.OutcomeUnknown)
		require.NotContains(t, err.Error(), "record cannot")

		o, err = browser.Do(t.Context(), p, change(), hooks(browser.NotApplied))
		require.NoError(t, err)
		require.Equal(t, browser.NotApplied, o, "the record knows better")
	})
}

// S8: what is known not to have run has changed nothing.
func TestNotRun_S8(t *testing.T) {
	for _, step := range []string{"fill", "look", "click"} {
		for _, failure := range []error{fmt.Errorf("x: %w", browser.ErrNotRun), &browser.NotAsDeclared{Reason: browser.Covered}} {
			o, err := browser.Do(t.Context(), &tab{fail: map[string]error{step: failure}}, change(), hooks(browser.Applied))
			require.ErrorIs(t, err, failure, step)
			require.Equal(t, browser.NotApplied, o, step)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &tab{}
	o, err := browser.Do(ctx, p, change(), hooks(browser.Applied))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, browser.NotApplied, o)
	require.Empty(t, p.steps)
}

// A change that is not whole does nothing.
func TestWhole(t *testing.T) {
	for _, row := range []struct {
		why  string
		edit func(c *browser.Change)
	}{
		{"no page", func(c *browser.Change) { c.URL = "" }},
		{"a script as a page", func(c *browser.Change) { c.URL = "javascript:alert(1)" }},
		{"a file as a page", func(c *browser.Change) { c.URL = "file:///etc/passwd" }},
		{"a page with a user", func(c *browser.Change) { c.URL = "https://u:p@desk.test/new" }},
		{"no checks", func(c *browser.Change) { c.Checks = nil }},
		{"a check of nothing", func(c *browser.Change) { c.Checks[0].Is = "" }},
		{"a check nowhere", func(c *browser.Change) { c.Checks[0].At = browser.Locator{} }},
		{"two places in one", func(c *browser.Change) { c.Checks[0].At = browser.Locator{ID: "a", Role: "button", Name: "b"} }},
		{"a role without a name", func(c *browser.Change) { c.Submit = browser.Named("button", "") }},
		{"a field nowhere", func(c *browser.Change) { c.Fields[0].At = browser.Locator{} }},
		{"no action", func(c *browser.Change) { c.Action = "" }},
		{"an action elsewhere", func(c *browser.Change) { c.Action = "https://evil.test/" }},
	} {
		c, p := change(), &tab{}
		row.edit(c)
		o, err := browser.Do(t.Context(), p, c, hooks(browser.Applied))
		require.ErrorIs(t, err, toolresult.InvalidInput, row.why)
		require.Equal(t, browser.NotApplied, o)
		require.Empty(t, p.steps, row.why)
	}
	for _, h := range []*browser.Hooks{nil, {}, {Commit: hooks().Commit}, {Confirm: hooks().Confirm}} {
		_, err := browser.Do(t.Context(), &tab{}, change(), h)
		require.ErrorIs(t, err, toolresult.InvalidInput)
	}
	_, err := browser.Do(t.Context(), &tab{}, nil, hooks())
	require.ErrorIs(t, err, toolresult.InvalidInput)
}

// The tab is one of package devtools; the hooks are a governed call's.
func ExampleDo() {
	outcome, err := browser.Do(context.Background(), &tab{}, &browser.Change{
		URL:    "https://desk.test/tickets/new",
		Checks: []browser.Check{{At: browser.ID("tenant"), Is: "acme"}},
		Fields: []browser.Field{{At: browser.Named("textbox", "Subject"), Value: "slow"}},
		Submit: browser.Named("button", "Create draft"),
		Action: "/tickets",
	}, &browser.Hooks{
		Commit:  func(context.Context) error { return nil },                                     // call.Dispatch
		Confirm: func(context.Context) (browser.Outcome, error) { return browser.Applied, nil }, // ask the system's record
	})
	fmt.Println(outcome, err)
	// Output: applied <nil>
}
