package mcpadapter

import (
	"context"
	"strings"
	"sync"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/connector"
)

//lint:file-ignore SA1019 logging is deprecated, and older clients want it

// maxNote bounds the text of a notification, in bytes.
const maxNote = 256

// A progress sends what a call reports to a client that asked for it. Reporting
// never waits for the client: what comes faster than it reads is dropped, and
// the newest is sent. Nil: the client did not ask.
type progress struct {
	send func(context.Context, *mcp.ProgressNotificationParams) error
	note func(context.Context, string) error // nil: notes are no log messages
	wake chan struct{}
	over chan struct{} // closed when the call has ended
	done chan struct{} // closed when nothing more is sent

	mu     sync.Mutex
	newest *connector.Progress
}

func (a *Adapter) newProgress(ctx context.Context, req *mcp.CallToolRequest) *progress {
	token := req.Params.GetProgressToken()
	if req.Session == nil || token == nil && !a.opts.Logging {
		return nil
	}
	p := &progress{wake: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{})}
	if token != nil {
		p.send = req.Session.NotifyProgress
	}
	if a.opts.Logging {
		p.note = func(ctx context.Context, text string) error { // the SDK knows whether the client wants it
			return req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: req.Params.Name, Data: text})
		}
	}
	go p.run(ctx, token)
	return p
}

// report returns the function for the call, nil for a nil progress.
func (p *progress) report() func(connector.Progress) {
	if p == nil {
		return nil
	}
	return func(now connector.Progress) {
		p.mu.Lock()
		p.newest = &now
		p.mu.Unlock()
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// end sends what is left and waits for it: there is no progress after a result.
func (p *progress) end() {
	if p != nil {
		close(p.over)
		<-p.done
	}
}

func (p *progress) run(ctx context.Context, token any) {
	defer close(p.done)
	last, said := int64(-1), (*connector.Progress)(nil)
	for more := true; more; {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-p.over:
			more = false
		}
		p.mu.Lock()
		now := p.newest
		p.mu.Unlock()
		if now == nil || now == said {
			continue
		}
		said = now
		if text := note(now.Note); p.note != nil && text != "" && p.note(ctx, text) != nil {
			return
		}
		if p.send == nil || now.Done <= last { // it only grows
			continue
		}
		last = now.Done
		n := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(now.Done), Message: note(now.Note)}
		if now.Total >= now.Done {
			n.Total = float64(now.Total)
		}
		if p.send(ctx, n) != nil {
			return
		}
	}
}

// note is one line without what a reader would not see.
func note(s string) string {
	if len(s) > maxNote {
		s = s[:maxNote]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
