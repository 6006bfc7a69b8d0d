package route

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// window is a Window with its places read.
type window struct{ start, end place }

// windowed reads Window.
func (c *compiled) windowed() error {
	w := c.Window
	if w == nil {
		return nil
	}
	cp := *w
	c.Window = &cp
	if w.Lookback < 0 {
		return errors.New("window: a negative look back")
	}
	start, err := c.either(w.Start)
	if err != nil {
		return fmt.Errorf("window: start: %w", err)
	}
	end, err := c.either(w.End)
	if err != nil {
		return fmt.Errorf("window: end: %w", err)
	}
	c.window = &window{start, end}
	if w.Query == "" {
		return nil
	}
	d, rest, ok := dialectOf(w.Query)
	if !ok || rest == "" {
		return errors.New("window: query: want a language and a place, with a colon between them")
	}
	if _, err := c.ask(d, rest); err != nil {
		return fmt.Errorf("window: query: %w", err)
	}
	return nil
}

// span reads the window of a request whose queries look back so far.
func (r *reader) span(lookback time.Duration) (Span, error) {
	w, c := r.window, r.compiled
	start, err := r.instant(w.start, c.Window.Start)
	if err != nil {
		return Span{}, err
	}
	end := start
	if w.end != w.start {
		if end, err = r.instant(w.end, c.Window.End); err != nil {
			return Span{}, err
		}
	}
	switch {
	case end.Before(start):
		return Span{}, fmt.Errorf("%w: it ends before it starts", ErrWindow)
	case lookback > c.Window.Lookback:
		return Span{}, fmt.Errorf("%w: a query looks further back than %v", ErrWindow, c.Window.Lookback)
	}
	if !c.Window.Nanoseconds {
		start = start.Truncate(time.Millisecond)
		if whole := end.Truncate(time.Millisecond); whole.Before(end) {
			end = whole.Add(time.Millisecond)
		}
	}
	return Span{start, end}, nil
}

// instant reads the time at a place, which has a name in the declaration.
func (r *reader) instant(p place, declared string) (time.Time, error) {
	text, err := r.value(p)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %s: %w", ErrWindow, declared, err)
	}
	var t time.Time
	ok := false
	if r.Window.Nanoseconds {
		t, ok = nanoseconds(text)
	} else {
		t, ok = seconds(text)
	}
	if !ok {
		return time.Time{}, fmt.Errorf("%w: %s is not a time in the declared form (a plus sign in a query is written %%2B)", ErrWindow, declared)
	}
	return t, nil
}

// nanoseconds reads 19 digits: from 2001 to 2262.
func nanoseconds(s string) (time.Time, bool) {
	if len(s) != 19 || s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(0, n).UTC(), err == nil
}

// seconds reads seconds with at most nine places behind the point, or RFC 3339.
func seconds(s string) (time.Time, bool) {
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || len(whole) > 11 || strings.Trim(whole, "0123456789") != "" {
		if !strict(s) {
			return time.Time{}, false
		}
		t, err := time.Parse(time.RFC3339Nano, s)
		return t.UTC(), err == nil && t.Unix() >= 0
	}
	if point && (frac == "" || len(frac) > 9 || strings.Trim(frac, "0123456789") != "") {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	ns := int64(0)
	for i := range 9 {
		ns *= 10
		if i < len(frac) {
			ns += int64(frac[i] - '0')
		}
	}
	return time.Unix(n, ns).UTC(), err == nil
}

// strict reports whether s has the form of RFC 3339, which package time takes
// more freely: digits where they belong, a point before a fraction of at most
// nine digits, and Z or an offset.
func strict(s string) bool {
	const form = "dddd-dd-ddTdd:dd:dd"
	if len(s) <= len(form) || !like(s[:len(form)], form) {
		return false
	}
	s = s[len(form):]
	if s[0] == '.' {
		rest := strings.TrimLeft(s[1:], "0123456789")
		if n := len(s) - 1 - len(rest); n == 0 || n > 9 {
			return false
		}
		s = rest
	}
	return s == "Z" || like(s, "+dd:dd") || like(s, "-dd:dd")
}

// like reports whether s has a form, in which d stands for a digit.
func like(s, form string) bool {
	if len(s) != len(form) {
		return false
	}
	for i := range len(s) {
		if digit := s[i] >= '0' && s[i] <= '9'; form[i] == 'd' != digit || !digit && s[i] != form[i] {
			return false
		}
	}
	return true
}
