package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// printer writes for a person: in a terminal with a line that says what is being
// done, which is drawn again and goes away; anywhere else lines, and no control
// characters.
type printer struct {
	live, colour bool

	mu    sync.Mutex
	w     io.Writer
	act   int
	doing string // on the last line of the terminal
	since time.Time
}

func newPrinter(w io.Writer) *printer {
	term := os.Getenv("TERM")
	p := &printer{w: w, live: isTerminal(w) && term != "dumb"}
	p.colour = p.live && os.Getenv("NO_COLOR") == "" // https://no-color.org
	return p
}

// write puts lines above the line that is drawn again.
func (p *printer) write(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	fmt.Fprint(p.w, text)
	p.draw()
}

func (p *printer) erase() {
	if p.live && p.doing != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *printer) draw() {
	if p.live && p.doing != "" {
		const frames = "|/-\\"
		took := time.Since(p.since)
		line := []rune(fmt.Sprintf("%c [%d/%d] %s", frames[int(took/(100*time.Millisecond))%len(frames)], p.act, acts, p.doing))
		line = line[:min(len(line), 70)] // a line that is broken could not be erased
		fmt.Fprintf(p.w, "\r\x1b[K%s  %.1fs", string(line), took.Seconds())
	}
}

// working says what is being done until the function that it returns is called.
// Outside of a terminal it is a line if it takes longer than a moment.
func (p *printer) working(text string) (done func()) {
	p.mu.Lock()
	p.doing, p.since = text, time.Now()
	p.draw()
	p.mu.Unlock()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		p.redraw(stop)
	}()
	return func() {
		close(stop)
		<-stopped
		p.mu.Lock()
		defer p.mu.Unlock()
		p.erase()
		p.doing = ""
	}
}

func (p *printer) redraw(stop <-chan struct{}) {
	every := 100 * time.Millisecond
	if !p.live {
		every = 2 * time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		if p.live {
			p.draw()
		} else {
			fmt.Fprintf(p.w, "  ... %s\n", p.doing)
			tick.Reset(15 * time.Second)
		}
		p.mu.Unlock()
	}
}

// paint colours a text where there are colours.
func (p *printer) paint(code, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

const (
	bold = "1"
	good = "32"
	bad  = "31"
)

// title begins an act.
func (p *printer) title(format string, args ...any) {
	p.mu.Lock()
	p.act++
	n := p.act
	p.mu.Unlock()
	p.heading(fmt.Sprintf("%d. %s", n, fmt.Sprintf(format, args...)))
}

func (p *printer) heading(text string) {
	p.write(fmt.Sprintf("\n%s\n%s\n", p.paint(bold, text), strings.Repeat("-", len([]rune(text)))))
}

// line is one sentence, over as many lines as it takes.
func (p *printer) line(format string, args ...any) { p.wrapped("  ", fmt.Sprintf(format, args...)) }

// blank is an empty line.
func (p *printer) blank() { p.write("\n") }

// wrapped breaks a text between words, and puts what follows under the first.
func (p *printer) wrapped(before, text string) {
	var b strings.Builder
	line, size := before, len(before)
	for _, word := range strings.Split(text, " ") {
		n := len([]rune(word))
		if size+n > width && size > len(before) {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line, size = strings.Repeat(" ", len(before)), len(before)
		}
		line, size = line+word+" ", size+n+1
	}
	p.write(b.String() + strings.TrimRight(line, " ") + "\n")
}

// refused is one sentence about something that was not let through.
func (p *printer) refused(format string, args ...any) {
	p.wrapped("  ", p.paint(bad, "refused:")+" "+fmt.Sprintf(format, args...))
}

// prompt is a question that is answered on the same line.
func (p *printer) prompt(format string, args ...any) { p.write(fmt.Sprintf(format, args...)) }
