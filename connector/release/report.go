package release

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Weight says what a change is to those who rely on the contract. The zero
// Weight is Breaking.
type Weight uint8

const (
	Breaking   Weight = iota // a call, a policy, a consent or a reader stops being right
	Review                   // nobody's code breaks; a person has to look: it is looser, or reads differently
	Compatible               // only more is accepted, or more is promised
)

var weights = [...]string{"breaking", "review", "compatible"}

// String returns "breaking", "review" or "compatible".
func (w Weight) String() string {
	if int(w) < len(weights) {
		return weights[w]
	}
	return weights[Breaking]
}

// MarshalText implements [encoding.TextMarshaler].
func (w Weight) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Change is one difference between two contracts.
type Change struct {
	Weight     Weight `json:"weight"`
	Capability string `json:"capability,omitempty"` // empty: the connector
	Where      string `json:"where"`                // "scopes", "input/properties/limit", ...
	What       string `json:"what"`                 // a sentence
}

// String returns one line.
func (c Change) String() string {
	return fmt.Sprintf("%-10s %s: %s: %s", c.Weight, cmp.Or(c.Capability, "connector"), c.Where, c.What)
}

// Report is how two contracts differ, the heaviest changes first.
type Report struct {
	Connector string   `json:"connector"`
	From      string   `json:"from"` // versions
	To        string   `json:"to"`
	Changes   []Change `json:"changes"`
}

// ErrBreaking says that a release breaks the contract without a new major
// version. The error that wraps it lists what breaks.
var ErrBreaking = errors.New("release: the contract is broken without a new major version")

// Worst returns the heaviest weight, and false if nothing has changed.
func (r *Report) Worst() (Weight, bool) {
	if len(r.Changes) == 0 {
		return Compatible, false
	}
	return r.Changes[0].Weight, true
}

// Err returns ErrBreaking with what breaks, or nil: if nothing does, or if the
// major version is higher than before. In versions 0.x the minor version counts
// as the major one (semver 2.0.0, item 4 leaves it open; most tools do so).
func (r *Report) Err() error {
	worst, changed := r.Worst()
	if !changed || worst != Breaking || raised(r.From, r.To) {
		return nil
	}
	var lines []string
	for _, c := range r.Changes {
		if c.Weight == Breaking {
			lines = append(lines, c.String())
		}
	}
	return fmt.Errorf("%w: %s is %s after %s\n%s", ErrBreaking, r.Connector, r.To, r.From, strings.Join(lines, "\n"))
}

// String returns the report for people, a line for each change.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s -> %s: ", r.Connector, r.From, r.To)
	if len(r.Changes) == 0 {
		return b.String() + "the contract is the same\n"
	}
	fmt.Fprintf(&b, "%d changes\n", len(r.Changes))
	for _, c := range r.Changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// JSON returns the report for programs.
func (r *Report) JSON() ([]byte, error) { return json.Marshal(r) }

func (r *Report) sort() {
	slices.SortStableFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Capability, b.Capability), cmp.Compare(a.Where, b.Where), cmp.Compare(a.What, b.What))
	})
}

// raised reports whether the version has a higher leading number. Texts that are
// no versions never do: then everything that breaks is an error.
func raised(from, to string) bool {
	a, ok1 := leading(from)
	b, ok2 := leading(to)
	return ok1 && ok2 && slices.Compare(b, a) > 0
}

// leading returns the number that a breaking change must raise: the major
// version, and for 0.x the minor one too.
func leading(version string) ([]int, bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return nil, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil || major < 0 || minor < 0 {
		return nil, false
	}
	if major > 0 {
		minor = 0
	}
	return []int{major, minor}, true
}
