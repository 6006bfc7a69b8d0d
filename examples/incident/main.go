// Command incident is one incident on seven systems: an alert says that the
// order service is slow, and an agent finds out what is known and opens one
// ticket.
//
//	go run ./examples/incident                     # tell the story; everything is inside
//	go run ./examples/incident -approve page       # approve the ticket in a browser
//	go run ./examples/incident -prometheus URL -tickets URL -state DIR ...
//	go run ./examples/incident serve -http 127.0.0.1:8080 -as acme/alice
//	go run ./examples/incident serve -stdio -as acme/alice
//
// The agent works for bob, who is on call, by a skill and under a capability
// profile, and is driven through a real MCP client over HTTP. The story shows
//
//   - what the skill asks for and the profile does not give
//   - an account of bob's at the deployments service: consent, renewal, revocation
//   - what each system answered and what is missing from it
//   - an analysis in a sandbox, or why this machine cannot hold one
//   - what is refused before anything is sent
//   - a ticket that a person approves as it will be sent: at the terminal, on a
//     page (-approve page), or by a script where there is neither, which is said
//   - a process that is killed with SIGKILL after the ticket system has done the
//     work and before the receipt is stored, and what a restart makes of it
//
// Then it holds two reports to the evidence and writes a page about the run (-page
// FILE). It ends with status 0 only if all of that is so. Nothing but the
// loopback interface is used unless a URL is given; see -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

// Who is who. The lead may create tickets and approves those of others.
const (
	caller   = "bob"
	approver = "alice"
	runID    = "run_0429_017"
)

func main() {
	self := process.Init() // first: the sandbox starts this program once more as its helper
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, self, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "incident:", err)
		os.Exit(1)
	}
}

// flags are those of every subcommand.
type flags struct {
	*real
	where
	page    string
	approve string
	http    string
	stdio   bool
	as      string
}

func parse(args []string) (*flags, error) {
	set := flag.NewFlagSet("incident", flag.ContinueOnError)
	f := &flags{real: realSystems(set)}
	set.StringVar(&f.dir, "state", "", "a directory for what outlives the run: ledger, approvals, accounts, audit; the default ends with it")
	set.StringVar(&f.postgres, "postgres", "", "connection string of a PostgreSQL for the ledger, approvals and accounts, with -state; the default is a SQLite file in the state")
	set.StringVar(&f.page, "page", filepath.Join(os.TempDir(), "drawbridge-incident.html"), "where the page of the run is written; empty: nowhere")
	set.StringVar(&f.approve, "approve", "", "who approves the ticket: ask (at this terminal), page (in a browser), script (nobody: a script says yes); empty: ask if there is a terminal, else script")
	set.StringVar(&f.http, "http", "", "serve: the address to serve MCP over HTTP on")
	set.BoolVar(&f.stdio, "stdio", false, "serve: serve MCP over stdin and stdout")
	set.StringVar(&f.as, "as", "", "serve: tenant/user whom every request comes from, for development")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("%q is not expected; flags come behind serve", set.Arg(0))
	}
	return f, nil
}

func run(ctx context.Context, self process.Self, args []string, in io.Reader, out io.Writer) error {
	command := ""
	if len(args) > 0 && (args[0] == "serve" || args[0] == oneCall) {
		command, args = args[0], args[1:]
	}
	f, err := parse(args)
	if err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(f.page)); f.page != "" && (err != nil || !info.IsDir()) {
		return fmt.Errorf("the page cannot be written: there is no directory %s", filepath.Dir(f.page))
	}
	ask, err := newAsker(f.approve, in, out)
	if err != nil {
		return err
	}
	w, err := open(ctx, f.real, f.where, command == "")
	if err != nil {
		return err
	}
	defer w.Close()
	switch command {
	case "serve":
		return serveAs(ctx, w, f.as, f.http, f.stdio)
	case oneCall:
		return makeCall(ctx, w, in, out)
	}
	return tell(ctx, &story{w: w, self: self, out: newPrinter(out), ask: ask, file: f.page})
}

// serveAs serves an MCP client of yours. Whoever reaches it is the user who was
// named: that is for development, on this machine.
func serveAs(ctx context.Context, w *world, as, addr string, stdio bool) error {
	tenant, user, ok := strings.Cut(as, "/")
	if !ok || tenant != host.Tenant || user == "" {
		return fmt.Errorf("say who is calling: -as %s/USER, such as %s/alice", host.Tenant, host.Tenant)
	}
	who := func(context.Context, *http.Request) (authz.Principal, error) { return w.Principal(user) }
	adapter, err := mcpadapter.New(w.Invoker, who, w.options())
	if err != nil {
		return err
	}
	switch {
	case stdio && addr == "":
		return adapter.ServeStdio(ctx)
	case addr == "" || stdio:
		return errors.New("serve needs one of -http ADDR and -stdio")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "MCP as %s at http://%s/\n", as, l.Addr())
	srv := &http.Server{Handler: adapter.HTTP(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
