// Package browser makes one change through a web page, for systems that have no
// other way in, and says truthfully what became of it.
//
// A page is no interface. The button that was there has moved, the list has been
// sorted anew, somebody else is signed in, a banner lies over it, and a green
// message says only that the page is pleased. So a change is a declaration of
// what has to be true, and is made in one sequence:
//
//		outcome, err := browser.Do(ctx, tab, &browser.Change{
//			URL:    "https://desk.example.com/tickets/new",
//			Checks: []browser.Check{{At: browser.ID("tenant"), Is: "acme"}, {At: browser.Named("heading", "New ticket"), Is: "New ticket"}},
//			Fields: []browser.Field{{At: browser.Named("textbox", "Subject"), Value: "slow"}},
//			Submit: browser.Named("button", "Create draft"),
//			Action: "/tickets",
//		}, &browser.Hooks{Commit: call.Dispatch, Confirm: lookUp})
//
//	 1. The page is the one that was declared: origin and path, exactly. Every
//	    check is found once, is visible, and reads what it has to. Nothing is
//	    remembered from an earlier look: no coordinate, no element.
//	 2. The fields are filled.
//	 3. Everything is read again: the same document, the same checks, the fields
//	    with the declared values, a form that goes where it was declared to and sends
//	    nothing else, a button that can be seen and is not covered.
//	 4. Hooks.Commit records the change durably.
//	 5. The third step once more and the click, in one run of one function that no
//	    script of the page can interrupt. There is one click, ever.
//	 6. Hooks.Confirm asks the system's own record what became of it, until it
//	    knows or the time is over. What the page says after the click is not asked.
//
// Before the fourth step, whatever is not as declared is an error and nothing has
// happened. After it, only the record counts: no answer is [Unknown], never a
// second click.
//
// # What this package does not do
//
// It does not sign in, and it fills no field for a password or a file. It cannot
// tell a page that lies in every detail from an honest one: the checks are as good
// as the page, so let Confirm ask an interface that is not the page. Its click is
// one of a script (isTrusted is false), for the sake of step 5; pages that want a
// person's hand refuse it. Elements in frames and shadow trees are not found. Which hosts the browser reaches is for the driver and its proxy.
package browser

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

//go:embed script.js
var script string

// Tab is one tab of a browser, as a driver gives it.
type Tab interface {
	// Evaluate calls a JavaScript function with one argument, given and returned
	// as JSON, in the top document, in a world of its own that the page's
	// scripts cannot reach (Page.createIsolatedWorld), and without giving the
	// page a turn before the function is done. In one document it MUST be the
	// same world each time. An error means that nobody knows whether it ran,
	// unless it is [ErrNotRun].
	Evaluate(ctx context.Context, function string, argument, result any) error
}

// ErrNotRun is in the error of a driver that knows that the function did not run.
var ErrNotRun = errors.New("browser: the function did not run")

// Locator finds an element by what it is to a person, or by its id. It has to
// find exactly one that is visible.
type Locator struct {
	ID   string `json:"id,omitempty"`
	Role string `json:"role,omitempty"` // ARIA, such as "button", "textbox", "heading"
	Name string `json:"name,omitempty"` // accessible name, whole, white space run together
}

// ID finds an element by its id attribute.
func ID(id string) Locator { return Locator{ID: id} }

// Named finds an element by its role and accessible name.
func Named(role, name string) Locator { return Locator{Role: role, Name: name} }

func (l Locator) ok() bool {
	return l.ID != "" && l.Role == "" && l.Name == "" || l.ID == "" && l.Role != "" && l.Name != ""
}

// Check is a text that has to stand on the page: the tenant that is signed in,
// the object that is changed.
type Check struct {
	At Locator `json:"at"`
	Is string  `json:"is"` // the whole text, white space run together
}

// Field is a field and what goes into it; "true" or "false" for a box.
type Field struct {
	At    Locator `json:"at"`
	Value string  `json:"value"`
}

// Change is one change, declared. All but Own is needed.
type Change struct {
	URL    string  // of the page; its query is not compared
	Checks []Check // at least one: who is signed in, and what is changed
	Fields []Field
	Submit Locator
	Action string   // path that the form goes to, on the page's origin
	Own    []string // names of further fields that the page's form sends, such as its token
}

// Hooks are what a change needs from its host.
type Hooks struct {
	// Commit records that the change is about to be made, durably when it returns
	// nil: connector.Call.Dispatch is one. An error keeps it from being made. It
	// is needed.
	Commit func(ctx context.Context) error

	// Confirm asks the system's own record. Unknown without an error is "not
	// yet": it is asked again after Every. It is needed.
	Confirm func(ctx context.Context) (Outcome, error)

	// Every is the pause between two questions; 0 is a second.
	Every time.Duration
}

// Outcome is what became of a change. The zero Outcome is Unknown.
type Outcome uint8

const (
	Unknown    Outcome = iota // may or may not have happened
	Applied                   // the record says so
	NotApplied                // the record says so, or nothing was clicked
)

var outcomes = [...]string{"unknown", "applied", "not_applied"}

// String returns the word.
func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return outcomes[Unknown]
}

// Reason says what was not as declared.
type Reason string

const (
	Elsewhere       Reason = "elsewhere"        // another origin or path
	AnotherDocument Reason = "another_document" // the page was loaded anew in between
	CheckMissing    Reason = "check_missing"    // not there, not visible, or several
	CheckDiffers    Reason = "check_differs"    // another tenant, another object
	FieldMissing    Reason = "field_missing"
	FieldClosed     Reason = "field_closed" // disabled, or one that is never filled
	ValueDiffers    Reason = "value_differs"
	FormChanged     Reason = "form_changed" // goes elsewhere or sends more
	SubmitMissing   Reason = "submit_missing"
	SubmitClosed    Reason = "submit_closed"
	Covered         Reason = "covered" // something lies over the button
)

// NotAsDeclared is why a change was not made. It quotes the page in What, which
// is data and may be shown to operators only.
type NotAsDeclared struct {
	Reason Reason
	What   string
}

// Error returns the reason without a word of the page.
func (e *NotAsDeclared) Error() string {
	return "browser: the page is not as declared: " + string(e.Reason)
}

// want is the argument of the script.
type want struct {
	Step     string   `json:"step"` // "fill", "look", "click"
	Origin   string   `json:"origin"`
	Path     string   `json:"path"`
	Document string   `json:"document,omitempty"`
	Checks   []Check  `json:"checks"`
	Fields   []Field  `json:"fields"`
	Submit   Locator  `json:"submit"`
	Action   string   `json:"action"`
	Own      []string `json:"own"`
}

// seen is its result.
type seen struct {
	OK       bool   `json:"ok"`
	Reason   Reason `json:"reason"`
	What     string `json:"what"`
	Document string `json:"document"`
}

// Do makes a change; see the package. The outcome is NotApplied with an error
// for everything before the click: *NotAsDeclared, INVALID_INPUT for a change that
// is not whole, Commit's error, ErrNotRun, or the context's. After the click the
// error is nil for Applied and NotApplied, and OUTCOME_UNKNOWN for Unknown.
func Do(ctx context.Context, tab Tab, c *Change, h *Hooks) (Outcome, error) {
	w, err := prepare(c, h)
	if err != nil {
		return NotApplied, err
	}
	for _, step := range []string{"fill", "look"} {
		w.Step = step
		if w.Document, err = run(ctx, tab, w); err != nil {
			return NotApplied, err
		}
	}
	if err := h.Commit(ctx); err != nil {
		return NotApplied, err
	}
	w.Step = "click"
	var not *NotAsDeclared
	_, err = run(ctx, tab, w)
	if errors.As(err, &not) || errors.Is(err, ErrNotRun) {
		return NotApplied, err
	}
	return confirm(ctx, h)
}

func prepare(c *Change, h *Hooks) (*want, error) {
	bad := func(what string) error {
		return toolresult.NewError(toolresult.InvalidInput, "the change is not whole").With("", what)
	}
	if h == nil || h.Commit == nil || h.Confirm == nil {
		return nil, bad("it needs Commit and Confirm")
	}
	if c == nil {
		return nil, bad("there is none")
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "":
		return nil, bad("URL is the page's, with http or https")
	case len(c.Checks) == 0:
		return nil, bad("Checks say who is signed in and what is changed")
	case !strings.HasPrefix(c.Action, "/"):
		return nil, bad("Action is a path")
	case !c.Submit.ok():
		return nil, bad("Submit is an id, or a role and a name")
	}
	for i, x := range c.Checks {
		if !x.At.ok() || x.Is == "" {
			return nil, bad(fmt.Sprintf("Checks[%d] wants a place and a text", i))
		}
	}
	for i, x := range c.Fields {
		if !x.At.ok() {
			return nil, bad(fmt.Sprintf("Fields[%d] wants a place", i))
		}
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return &want{Origin: origin(u), Path: path, Checks: c.Checks, Fields: c.Fields, Submit: c.Submit, Action: c.Action, Own: c.Own}, nil
}

// origin is as browsers write it: without the scheme's own port.
func origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	return u.Scheme + "://" + host
}

func run(ctx context.Context, tab Tab, w *want) (document string, err error) {
	if err := ctx.Err(); err != nil {
		return w.Document, errors.Join(ErrNotRun, err)
	}
	var s seen
	if err := tab.Evaluate(ctx, script, w, &s); err != nil {
		return w.Document, err
	}
	if !s.OK {
		return w.Document, &NotAsDeclared{s.Reason, s.What}
	}
	return s.Document, nil
}

// confirm asks the record until it knows. The page is not asked.
func confirm(ctx context.Context, h *Hooks) (Outcome, error) {
	every := h.Every
	if every <= 0 {
		every = time.Second
	}
	unknown := func(err error) (Outcome, error) {
		return Unknown, toolresult.WrapError(toolresult.OutcomeUnknown, "the button was clicked, and the system's record does not say what became of it; look the operation up", err)
	}
	for {
		o, err := h.Confirm(ctx)
		if err == nil && (o == Applied || o == NotApplied) {
			return o, nil
		}
		if ctx.Err() != nil {
			return unknown(errors.Join(err, ctx.Err()))
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return unknown(errors.Join(err, ctx.Err()))
		}
	}
}
