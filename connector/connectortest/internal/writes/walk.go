package writes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// step is one step of a walk.
type step string

// The first four are calls, the others what happens to the next change, or to
// the host.
const (
	create step = "create" // with a new key
	again  step = "again"  // the last change, with its key
	get    step = "get"
	list   step = "list"

	dropped    step = "drop"      // the answer is lost
	refused    step = "429"       // not now
	duplicated step = "duplicate" // delivered twice
	cut        step = "cut"       // the answer ends early
	revoked    step = "revoke"    // the account goes, and comes back
	restarted  step = "restart"
)

// steps are as likely as they are often here.
var steps = []step{create, create, create, create, again, again, again, again, get, list, dropped, refused, refused, duplicated, cut, revoked, restarted}

var faultOf = map[step]fault.Fault{
	dropped: {DropAfter: true}, refused: {Status: 429, Header: http.Header{"Retry-After": {"1"}}}, duplicated: {Duplicate: 1}, cut: {CutHeaders: true},
}

const (
	walks   = 24
	longest = 16
)

// runWalks walks at random, and shrinks a walk that finds something: a step is
// left out as long as what is left finds something too. The seeds are fixed, so
// that a contract that is green today is so tomorrow.
func runWalks(ctx context.Context, s *check.Session) {
	s.Expect(true, "", "")
	for seed := range uint64(walks) {
		rnd := rand.New(rand.NewPCG(seed, 2026))
		path := make([]step, longest)
		for i := range path {
			path[i] = steps[rnd.IntN(len(steps))]
		}
		try := func(p []step) string { found, _ := walk(ctx, s.Fresh(), p, seed); return found }
		found := try(path)
		if found == "" {
			continue
		}
		path, found = shrunk(path, found, try)
		last := s.Fresh()
		last.Alone()
		_, names := walk(ctx, last, path, seed)
		s.Fail(fmt.Sprintf("%s, after %s (seed %d)", found, strings.Join(names, ", "), seed), "each change once, or unknown")
		return
	}
}

// shrunk leaves steps out as long as something is found.
func shrunk(path []step, found string, try func([]step) string) (shorter []step, what string) {
	for smaller := true; smaller; {
		smaller = false
		for i := len(path) - 1; i >= 0; i-- {
			if i >= len(path) {
				continue
			}
			less := slices.Delete(slices.Clone(path), i, i+1)
			if again := try(less); again != "" {
				path, found, smaller = less, again, true
			}
		}
	}
	return path, found
}

// walker is a walk under way. What it knows is what callers were told.
type walker struct {
	s       *check.Session
	rnd     *rand.Rand
	last    check.Call // the last change
	begun   bool
	next    []fault.Fault
	state   string // of the provider
	changes int    // of it
	twice   int    // deliveries that the network doubled

	applied, open, moved map[string]bool // keys
}

// walk returns what is wrong, or nothing, and its steps in words.
func walk(ctx context.Context, s *check.Session, path []step, seed uint64) (wrong string, names []string) {
	w := &walker{s: s, rnd: rand.New(rand.NewPCG(seed, 1)), state: s.Snapshot(), applied: map[string]bool{}, open: map[string]bool{}, moved: map[string]bool{}}
	defer s.Close()
	s.Faults(fault.On(check.Changes, func(int, *http.Request) (f fault.Fault) {
		if len(w.next) > 0 {
			f, w.next = w.next[0], w.next[1:]
		}
		w.twice += f.Duplicate
		return f
	}))
	for i, p := range path {
		wrong = w.take(ctx, p, i)
		name := string(p)
		if p == create {
			name = w.last.Capability
		}
		names = append(names, name)
		if wrong != "" {
			break
		}
	}
	return wrong, names
}

func (w *walker) take(ctx context.Context, p step, i int) string {
	switch p {
	case create:
		all := w.s.Writes()
		w.last, w.begun = all[w.rnd.IntN(len(all))], true
		w.last.Key = fmt.Sprintf("random-walk-key-%d", i)
		return w.change(ctx)
	case again:
		if w.begun {
			return w.change(ctx)
		}
	case get, list:
		return w.read(ctx, p)
	case revoked:
		w.s.Broker.Disconnect(check.TenantA, check.Alice)
		wrong := w.read(ctx, get)
		w.s.Broker.Connect(check.TenantA, check.Alice)
		return wrong
	case restarted:
		w.s.Restart()
	default:
		w.next = []fault.Fault{faultOf[p]}
	}
	return ""
}

func (w *walker) read(ctx context.Context, p step) string {
	calls := asking(w.s)
	if p == list && len(w.s.Lists()) > 0 {
		calls = w.s.Lists()
	}
	w.s.Do(ctx, calls[w.rnd.IntN(len(calls))])
	if w.s.Snapshot() != w.state {
		return "a read changed something"
	}
	return ""
}

// change makes the last change, and compares what the caller is told with what
// happened.
func (w *walker) change(ctx context.Context) string {
	c, twice := w.last, w.twice
	before := len(check.Changed(w.s.Seen()))
	r := w.s.Do(ctx, c)
	w.s.Wait(time.Minute)
	sent := len(check.Changed(w.s.Seen())) - before
	now := w.s.Snapshot()
	moved := now != w.state
	if w.state = now; moved {
		w.changes++
		w.moved[c.Key] = true
	}
	done := r.Effect.Disposition == toolresult.EffectApplied || r.Effect.Disposition == toolresult.EffectPending
	was := w.applied[c.Key]
	switch {
	case was && moved:
		return "a change that was made was made again under its key"
	case was && !done && toolresult.Code(r.Err()) != toolresult.ConnectionRequired:
		return "a change that was made is said to be " + r.Effect.Disposition.String()
	case was && sent > 0 && w.twice == twice && r.Error == nil && moved:
		return "a change that was made was sent again"
	}
	if done && !w.moved[c.Key] && w.s.Declaration(c.Capability).Idempotency.Natural {
		w.changes++ // it set what was set already
		w.moved[c.Key] = true
	}
	switch {
	case done:
		w.applied[c.Key] = true
		delete(w.open, c.Key)
	case r.Effect.Disposition == toolresult.EffectUnknown:
		w.open[c.Key] = true
	}
	if w.changes < len(w.applied) {
		return fmt.Sprintf("%d changes were made, and %d are said to be", w.changes, len(w.applied))
	}
	if w.changes > len(w.applied)+len(w.open) {
		return fmt.Sprintf("%d changes were made; %d are said to be, and %d to be unknown", w.changes, len(w.applied), len(w.open))
	}
	return ""
}
