package paging

import (
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Windows is for a provider without pages that returns the items of a time
// window, oldest first, up to a limit: logs and events. The next page begins at the
// time where this one was cut.
type Windows struct {
	// Tick is the provider's resolution: 1ns for Loki, 1ms or 1s for others. Two
	// items closer than that have the same time. Needed.
	Tick time.Duration

	// Closed says that an item at the end of a window is within it. Loki's end is
	// not, Prometheus' is.
	Closed bool
}

// WindowPage is a page of [Windows].
type WindowPage struct {
	From, To time.Time // to ask for: the part of the window that is left
	Limit    int       // to ask for: one more than belongs to the page

	style Windows
	trail trail
	size  int
}

// Open reads where a page of a window is, and how much to ask for so that size
// items are in it. A position that is not within the window is CURSOR_INVALID;
// a window that ends before it begins, INVALID_INPUT.
func (s Windows) Open(from cursor.Position, start, end time.Time, size int) (*WindowPage, error) {
	if s.Tick <= 0 {
		return nil, toolresult.NewError(toolresult.ContractViolation, "a window needs the provider's resolution")
	}
	if end.Before(start) || !s.Closed && !end.After(start) {
		return nil, toolresult.NewError(toolresult.InvalidInput, "the window ends before it begins")
	}
	token, t, err := place(from)
	if err != nil {
		return nil, err
	}
	p := &WindowPage{From: start, To: end, Limit: max(size, 1) + 1, style: s, trail: t, size: max(size, 1)}
	if t.pages == 0 {
		return p, nil
	}
	n, err := strconv.ParseInt(token, 10, 64)
	p.From = time.Unix(0, n).UTC()
	if err != nil || p.From.Before(start) || p.From.After(end) || !s.Closed && !p.From.Before(end) {
		return nil, lost()
	}
	return p, nil
}

// Close says what comes after the items of these times, in their order. A page
// ends at a time that all its items were read of: those of the last time are left
// to the next page if some of them may have been cut off. If that is all of the
// page, they are kept, the next page begins one tick later, and the page says
// that rows of that time are missing.
//
// clamped is the largest limit that the provider is known to hold to, or 0: with
// fewer items than that the window is over.
func (p *WindowPage) Close(times []time.Time, clamped int) (Turn, error) {
	limit := p.Limit
	if clamped > 0 {
		limit = min(limit, clamped)
	}
	for i, t := range times {
		if t.Before(p.From) || t.After(p.To) || !p.style.Closed && t.Equal(p.To) || i > 0 && t.Before(times[i-1]) {
			return Turn{}, toolresult.NewError(toolresult.ProviderError, "the provider's items are not in order, or not of the window")
		}
	}
	turn := Turn{Keep: len(times), Next: cursor.End()}
	if len(times) < limit {
		return turn, nil
	}
	last := times[len(times)-1].Truncate(p.style.Tick)
	keep := len(times)
	for keep > 0 && !times[keep-1].Before(last) {
		keep--
	}
	next := last
	if keep == 0 { // one time fills the page
		keep, next = len(times), last.Add(p.style.Tick)
		turn.Missing = []toolresult.Gap{toolresult.GapRemainingRows}
		if next.After(p.To) || !p.style.Closed && !next.Before(p.To) {
			turn.Next = cursor.Cut()
			return turn, nil
		}
	}
	turn.Keep = keep
	var err error
	turn.Next, err = p.trail.step(strconv.FormatInt(next.UnixNano(), 10), nil, true)
	return turn, err
}

// Steps cuts a window into parts of a length, for a provider that limits it: the
// parts have no gap and no overlap, whether or not an end belongs to its part.
// At most 10000 parts; more is INVALID_INPUT.
func (s Windows) Steps(start, end time.Time, length time.Duration) ([][2]time.Time, error) {
	if s.Tick <= 0 || length < s.Tick {
		return nil, toolresult.NewError(toolresult.ContractViolation, "a part of a window is at least as long as the provider's resolution")
	}
	if end.Before(start) || !s.Closed && !end.After(start) {
		return nil, toolresult.NewError(toolresult.InvalidInput, "the window ends before it begins")
	}
	var out [][2]time.Time
	for from := start; ; {
		if len(out) == MostPages {
			return nil, toolresult.NewError(toolresult.InvalidInput, "the window is too long")
		}
		to := from.Add(length)
		if s.Closed {
			to = to.Add(-s.Tick)
		}
		if !to.Before(end) {
			return append(out, [2]time.Time{from, end}), nil
		}
		out = append(out, [2]time.Time{from, to})
		if from = to; s.Closed {
			from = to.Add(s.Tick)
		}
	}
}
