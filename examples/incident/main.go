// Command incident is one incident on seven systems: an alert says that the
// order service is slow, and an agent gathers evidence and opens a ticket.
//
//	go run ./examples/incident                     # tell the story; everything is inside
//	go run ./examples/incident -prometheus URL -tickets URL -state DIR ...
//	go run ./examples/incident serve -http 127.0.0.1:8080 -as acme/alice
//	go run ./examples/incident serve -stdio -as acme/alice
//
// The story is driven through a real MCP client over HTTP. It shows what each
// system answered and what is missing from it, a call for another tenant's
// service that is refused before anything is sent, and a ticket whose receipt is
// lost on purpose: unknown, looked up, found. Then it holds two reports to the
// evidence, and writes a page about the run (-page FILE). It ends with status 0
// only if all of that is so.
//
// Systems are embedded unless a URL is given; see -help.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "incident:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	serve := len(args) > 0 && args[0] == "serve"
	if serve {
		args = args[1:]
	}
	flags := flag.NewFlagSet("incident", flag.ContinueOnError)
	real := realSystems(flags)
	dir := flags.String("state", "", "a directory for what outlives the run: ledger, approvals, audit; the default ends with it")
	file := flags.String("page", filepath.Join(os.TempDir(), "drawbridge-incident.html"), "where the page of the run is written; empty: nowhere")
	addr := flags.String("http", "", "serve: the address to serve MCP over HTTP on")
	stdio := flags.Bool("stdio", false, "serve: serve MCP over stdin and stdout")
	as := flags.String("as", "", "serve: tenant/user whom every request comes from, for development")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not expected; flags come behind serve", flags.Arg(0))
	}
	w, err := open(ctx, real, *dir)
	if err != nil {
		return err
	}
	defer w.Close()
	if !serve {
		return tell(ctx, w, out, *file)
	}
	return serveAs(ctx, w, *as, *addr, *stdio)
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
