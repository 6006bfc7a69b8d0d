package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/review"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// asker asks a person about a change.
type asker struct {
	mode string // "ask", "page" or "script"
	in   io.Reader
}

// newAsker chooses how a person is asked. Without a terminal there is nobody to
// ask unless somebody looks at a page.
func newAsker(mode string, in io.Reader, out io.Writer) (*asker, error) {
	switch mode {
	case "ask", "page", "script":
	case "":
		mode = "script"
		if isTerminal(in) && isTerminal(out) {
			mode = "ask"
		}
	default:
		return nil, fmt.Errorf("-approve is ask, page or script, and not %q", mode)
	}
	return &asker{mode, in}, nil
}

func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// how says, for the record of the run, who answered.
func (a *asker) how() string {
	return map[string]string{
		"ask":    approver + ", at the terminal",
		"page":   approver + ", on the approval page",
		"script": "a script in the place of " + approver + ", because there is no terminal to ask at or -approve script was given",
	}[a.mode]
}

// answer gets an answer to a question and records it as the approver's.
func (a *asker) answer(ctx context.Context, s *story, q authz.Approval) (authz.Approval, error) {
	who, err := s.w.Principal(approver)
	if err != nil {
		return q, err
	}
	req := &connector.ApproveRequest{Principal: who, ID: q.ID, Digest: q.Statement.Digest()}
	switch a.mode {
	case "page":
		return a.page(ctx, s, q, who)
	case "script":
		return s.w.Invoker.Approve(ctx, req)
	}
	s.out.prompt("  %s, may this be sent? [y/N] ", approver)
	said, err := a.read(ctx)
	if err != nil {
		return q, err
	}
	if said = strings.ToLower(strings.TrimSpace(said)); said == "y" || said == "yes" {
		return s.w.Invoker.Approve(ctx, req)
	}
	return s.w.Invoker.Refuse(ctx, req)
}

// read reads a line, until ctx ends. No input at all is a no.
func (a *asker) read(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() { // ends with the line, or with the program
		text, err := bufio.NewReader(a.in).ReadString('\n')
		got <- line{text, err}
	}()
	select {
	case l := <-got:
		if l.err != nil && !errors.Is(l.err, io.EOF) {
			return "", l.err
		}
		return l.text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// page serves the approval pages on the loopback interface until the question
// has its answer.
func (a *asker) page(ctx context.Context, s *story, q authz.Approval, who authz.Principal) (authz.Approval, error) {
	front := &lateHandler{}
	at, err := serveLoopback(front)
	if err != nil {
		return q, err
	}
	defer at.Close()
	desk := &desk{who: who, ticket: rand.Text(), session: rand.Text(), to: "/approvals/" + q.ID}
	pages, err := review.New(s.w.Invoker, desk.signedIn, &review.Options{Base: at.url + "/approvals"})
	if err != nil {
		return q, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sign-in", desk.signIn)
	mux.Handle("/approvals/", http.StripPrefix("/approvals", pages))
	front.set(mux)
	s.out.line("%s approves or refuses it here (the link signs in, once):", approver)
	s.out.line("%s/sign-in?ticket=%s", at.url, desk.ticket)
	done := s.out.working("waiting for " + approver)
	defer done()
	for {
		now, err := s.w.Invoker.Approval(ctx, who, q.ID)
		if err != nil || now.Answered() {
			return now, err
		}
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return q, err
		}
	}
}

// desk signs the approver in: whoever has the link that was printed, once. A
// real host has sessions of its own.
type desk struct {
	who             authz.Principal
	ticket, session string
	to              string
	used            atomic.Bool
}

const deskCookie = "incident-desk"

func (d *desk) signIn(w http.ResponseWriter, r *http.Request) {
	s := r.URL.Query().Get("ticket")
	if s != d.ticket || d.used.Swap(true) {
		http.Error(w, "this link is not good, or was used", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: deskCookie, Value: d.session, Path: "/approvals/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, d.to, http.StatusSeeOther)
}

func (d *desk) signedIn(r *http.Request) (authz.Principal, error) {
	c, err := r.Cookie(deskCookie)
	if err != nil || c.Value != d.session {
		return authz.Principal{}, toolresult.NewError(toolresult.AuthenticationRequired, "sign in by the link that was printed")
	}
	return d.who, nil
}
