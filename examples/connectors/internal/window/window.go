// Package window reads a span of time out of a call's arguments, and cuts it to
// what was granted.
package window

import (
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Asked is the span from the arguments start to end, or an INVALID_INPUT that
// points at them: it is not empty, no longer than longest, and within the years
// that nanoseconds since 1970 can be written for in 19 digits. A schema says what
// a time looks like and cannot compare two.
func Asked(start, end time.Time, longest time.Duration) (toolresult.Interval, error) {
	w := toolresult.Interval{Start: start.UTC(), End: end.UTC()}
	switch length := end.Sub(start); {
	case w.Start.Year() < 2002 || w.End.Year() > 2261:
		return w, toolresult.NewError(toolresult.InvalidInput, "the window is out of range").With("/start", "must be after the year 2001")
	case length <= 0:
		return w, toolresult.NewError(toolresult.InvalidInput, "the window is empty").With("/end", "must be after start")
	case length > longest:
		return w, toolresult.NewError(toolresult.InvalidInput, "the window is too long").With("/end", "must be at most "+longest.String()+" after start")
	}
	return w, nil
}

// Granted is the part of w in which a grant lets the object be read, and what is
// missing if that is not all of it. Of several windows the longest part counts.
// If there is none, it is w: the transport refuses it.
func Granted(g authz.Grant, w toolresult.Interval, id authz.ResourceID) (part toolresult.Interval, missing []toolresult.Gap) {
	if g.PermitsDuring(w, id) {
		return w, nil
	}
	for _, r := range g.Scope().Resources() {
		cut := toolresult.Interval{Start: latest(w.Start, r.Window.Start), End: earliest(w.End, r.Window.End)}
		if r.ResourceID == id && cut.End.Sub(cut.Start) > part.End.Sub(part.Start) {
			part = cut
		}
	}
	if part.IsZero() {
		return w, nil
	}
	return part, []toolresult.Gap{toolresult.GapWindowClipped}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
