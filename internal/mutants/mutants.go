package mutants

import (
	"slices"
	"sync"
)

// Mutant is one deliberate error of a reference.
type Mutant struct {
	// Name is what d.is is asked for.
	Name string

	// Copies says which public bug it is, with a reference where one can look.
	Copies string
}

// All returns the catalogue in a fixed order.
func All() []Mutant {
	return slices.Concat(manifestMutants, readMutants, surfaceMutants, hostMutants, writeMutants, leakMutants, webhookMutants, crowdMutants, accountMutants)
}

// Switch is which mutant a reference is, and which it was asked for.
type Switch struct {
	bug   string
	mu    sync.Mutex
	asked map[string]bool
	noKey bool   // the last change had none
	token string // the last that a request bore
	note  string // what the surface saw last, for a part of the host that tells
}

// NewSwitch returns the switch of one mutant; of none for "".
func NewSwitch(bug string) *Switch { return &Switch{bug: bug, asked: map[string]bool{}} }

// is reports whether the reference is this mutant, and remembers that it was
// asked.
func (s *Switch) is(bug string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[bug] = true
	return s.bug == bug
}

// tell and told pass a text from the surface to the host.
func (s *Switch) tell(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = text
}

func (s *Switch) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note
}

// Asked returns the names that a reference asked for since the last call: a
// mutant that is not among them would have behaved the same.
func (s *Switch) Asked() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = map[string]bool{}
	return out
}
