package reads

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// The sizes are small, so that the checks are fast; the limits are of the same
// kind as those of an operator.
const (
	smallLimit = 16 << 10
	overLimit  = 128 << 10
	deep       = 20_000
)

func sizes() []check.Check {
	return []check.Check{
		{
			ID: "size/response-bounded", Since: frozen, Needs: needsRead, Kills: []string{"unbounded-body"},
			Promise: "An answer over the limit, or without an end, is refused before it is in memory.",
			Run: func(ctx context.Context, s *check.Session) {
				tooLarge(ctx, s, egress.Limits{ResponseBytes: smallLimit}, fault.Fault{Huge: overLimit})
			},
		},
		{
			ID: "size/decompressed", Since: frozen, Needs: needsRead, Kills: []string{"limit-before-gunzip"},
			Promise: "What counts is the size after decompression.",
			Run: func(ctx context.Context, s *check.Session) {
				tooLarge(ctx, s, egress.Limits{ResponseBytes: smallLimit, Ratio: 100}, fault.Fault{Huge: overLimit, Gzip: true})
			},
		},
		{
			ID: "size/items-bounded", Since: frozen, Modes: check.InDouble | check.InSandbox, Needs: needsList, Kills: []string{"limit-ignored"},
			Promise: "A page has no more items than were asked for.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Lists() {
					for _, n := range []int{1, 2} {
						r := s.Do(ctx, sized(c, n))
						s.Expect(r.Error == nil && len(items(r)) <= n, fmt.Sprintf("%s: a page of %d has %d items: %s", c.Capability, n, len(items(r)), s.Describe(r)), fmt.Sprint("at most ", n))
					}
				}
			},
		},
		{
			ID: "size/args-bounded", Since: frozen, Kills: []string{"args-unbounded"},
			Promise: "Oversized arguments are refused as a whole, and nothing is sent.",
			Run: func(ctx context.Context, s *check.Session) {
				for i, c := range s.Calls() {
					for _, name := range []string{first(c), "padding"}[:max(1, 2-i)] { // one that nobody declared is the same to all
						w := c
						w.Args = `{"` + name + `":"` + strings.Repeat("x", 300<<10) + `"}`
						n := s.Requests()
						s.WantCode(w, s.Do(ctx, w), toolresult.InvalidInput)
						s.WantNone(w, n)
					}
				}
			},
		},
		{
			ID: "size/depth-bounded", Since: frozen, Needs: needsRead, Kills: []string{"recursive-walk"},
			Promise: "An answer that is nested without end is an error.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Faults(fault.Always(fault.Fault{Rewrite: func([]byte) []byte {
						return []byte(strings.Repeat("[", deep) + strings.Repeat("]", deep))
					}}))
					r := s.Do(ctx, c)
					s.Expect(r.Error != nil && toolresult.Code(r.Err()) != toolresult.Internal, c.Capability+": "+s.Describe(r), "an error of the provider's")
				}
			},
		},
	}
}

func quoted(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return b
}

// first is the name of an argument of a call; "padding" if it has none.
func first(c check.Call) string {
	for name, v := range parseObject(c.Args) {
		if _, ok := v.(string); ok {
			return name
		}
	}
	return "padding"
}

func tooLarge(ctx context.Context, s *check.Session, l egress.Limits, f fault.Fault) {
	s.Limits = l
	s.Restart()
	for _, c := range asking(s) {
		s.Faults(fault.Always(f))
		r := s.Do(ctx, c)
		s.Expect(s.Violation(r) == "" && (toolresult.Code(r.Err()) == toolresult.ResultTooLarge || r.Error == nil && len(r.Coverage.Missing) > 0), c.Capability+": "+s.Describe(r), "RESULT_TOO_LARGE")
	}
}

func deadlines() []check.Check {
	return []check.Check{
		{
			ID: "cancel/prompt", Since: frozen, Needs: needsRead, Kills: []string{"ctx-ignored"},
			Promise: "A call ends within a second of its caller giving up, and its code with it.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Faults(fault.Always(fault.Fault{Hang: true}))
					r, took := within(ctx, s, c, 5*time.Second)
					s.Expect(r.Error != nil && took < 6*time.Second, fmt.Sprintf("%s: %s after %v", c.Capability, s.Describe(r), took), "an error after 5 s")
					s.Expect(s.Invoker().Abandoned() == 0, c.Capability+": the connector's code goes on after its call", "code that ends with its context")
				}
			},
		},
		{
			ID: "cancel/error-is-context", Since: frozen, Needs: needsRead, Kills: []string{"ctx-error-hidden"},
			Promise: "A deadline that passes during a read is a timeout, and nothing else.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Faults(fault.Always(fault.Fault{Hang: true}))
					r, _ := within(ctx, s, c, time.Second)
					s.WantCode(c, r, toolresult.Timeout)
				}
			},
		},
		{
			ID: "cancel/already-done", Since: frozen, Kills: []string{"ctx-not-checked"},
			Promise: "A call whose caller has already left makes no request.",
			Run: func(ctx context.Context, s *check.Session) {
				gone, cancel := context.WithCancel(ctx)
				cancel()
				for _, c := range s.Calls() {
					n := s.Requests()
					r := s.Do(gone, c)
					s.Expect(r.Error != nil, c.Capability+": "+s.Describe(r), "an error")
					s.WantNone(c, n)
				}
			},
		},
		{
			ID: "deadline/slow-body", Since: frozen, Needs: needsRead, Kills: []string{"body-no-deadline"},
			Promise: "An answer that drips does not outlive the deadline.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Faults(fault.Always(fault.Fault{Pace: time.Minute}))
					r, took := within(ctx, s, c, 5*time.Second)
					s.Expect(r.Error != nil && took < 6*time.Second, fmt.Sprintf("%s: %s after %v", c.Capability, s.Describe(r), took), "an error after 5 s")
				}
			},
		},
		{
			ID: "deadline/refresh", Since: frozen, Needs: check.NeedsCredential, Kills: []string{"refresh-background"},
			Promise: "A token endpoint that hangs does not hold a call beyond its deadline.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range askingAll(s) {
					s.Broker.Hook(func(ctx context.Context, _ *credential.ResolveRequest) error {
						<-ctx.Done()
						return ctx.Err()
					})
					n := s.Requests()
					r, took := within(ctx, s, c, 2*time.Second)
					s.Expect(r.Error != nil && took < 3*time.Second, fmt.Sprintf("%s: %s after %v", c.Capability, s.Describe(r), took), "an error after 2 s")
					s.WantNone(c, n)
				}
			},
		},
		{
			ID: "deadline/too-little-left", Since: frozen, Level: check.Extended, Needs: check.NeedsKind(connector.KindWrite), Kills: []string{"starts-anyway"},
			Promise: "A change for which no time is left is not begun.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Writes() {
					c = s.Prepare(ctx, c)
					s.Broker.Hook(func(ctx context.Context, _ *credential.ResolveRequest) error {
						time.Sleep(3 * time.Second) // and succeeds, too late
						return nil
					})
					before := s.Snapshot()
					sent := len(check.Changed(s.Seen()))
					r, _ := within(ctx, s, c, 2*time.Second)
					s.Expect(r.Error != nil && r.Effect.Disposition != toolresult.EffectUnknown, c.Capability+": "+s.Describe(r), "a failure without an effect")
					s.Expect(len(check.Changed(s.Seen())) == sent && s.Snapshot() == before, c.Capability+" was begun after its deadline", "nothing")
					s.Broker.Hook(nil)
				}
			},
		},
		{
			ID: "cancel/no-goroutine-left", Since: frozen, Kills: []string{"leaks-goroutine"},
			Promise: "After a call nothing of it goes on.",
			Run:     runGoroutines,
		},
	}
}

// within makes a call with a deadline and says how long it took.
func within(ctx context.Context, s *check.Session, c check.Call, d time.Duration) (*toolresult.Result, time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	began := time.Now()
	r := s.Do(ctx, c)
	return r, time.Since(began)
}

func runGoroutines(ctx context.Context, s *check.Session) {
	for _, c := range s.Calls() {
		s.WantData(c, s.Do(ctx, c))
		if len(s.Declaration(c.Capability).Routes) > 0 && s.Kind(c) != connector.KindWrite {
			s.Faults(fault.Once(1, fault.Fault{Delay: time.Minute}))
			within(ctx, s, c, time.Second)
			s.Faults(nil)
		}
	}
	s.Close()
	s.Wait(5 * time.Minute) // for what a library keeps for a while
	left := inBubble()
	s.Expect(left == "", "goroutines are left: "+left, "none")
}

// inBubble lists the other goroutines of this bubble by where they were started,
// except those of the suite itself.
func inBubble() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	all := strings.Split(string(buf), "\n\n")
	mine := bubbleOf(all[0])
	var out []string
	for _, g := range all[1:] {
		if mine == "" || bubbleOf(g) != mine || strings.Contains(g, "testing.tRunner") || strings.Contains(g, "synctest.") {
			continue
		}
		_, made, _ := strings.Cut(g, "created by ")
		made, _, _ = strings.Cut(made, "\n")
		out = append(out, made)
	}
	return strings.Join(out, ", ")
}

// bubbleOf returns the number of a goroutine's bubble, as its first line has it.
func bubbleOf(stack string) string {
	line, _, _ := strings.Cut(stack, "\n")
	_, rest, ok := strings.Cut(line, "synctest bubble ")
	if !ok {
		return ""
	}
	n, _, _ := strings.Cut(strings.TrimRight(rest, "]:"), ",")
	if _, err := strconv.Atoi(n); err != nil {
		return ""
	}
	return n
}
