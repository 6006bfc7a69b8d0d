// Command load holds the gateway to its word while replicas come, go and are
// killed.
//
//	go run ./load [-for 60s] [-people 12] [-seed S] [-store postgres|sqlite] [-control double|lose|cross|refresh]...
//
// It starts a PostgreSQL, the authorization servers and the provider, two replicas
// of the gateway as processes of this binary, and a balancer in front of them.
// People of two tenants read, and create tickets under operation keys, over MCP.
// Meanwhile the provider drops and delays answers, its access tokens live seconds,
// the replicas are replaced one by one by those of the next release, a release
// that breaks the contract knocks and is refused, and replicas are killed. A client
// without an answer does what the documentation says: it repeats the call with the
// same key, and looks an unknown outcome up.
//
// Then what every client was told is compared with what the provider did:
//
//	lost             told that it was done, and it was not
//	doubled          done more than once
//	misreported      told that it was not done, and it was
//	unresolved       nobody can say, although the time to find out is over
//	phantom          done, and nobody asked for it
//	cross_principal  an answer with somebody else's mark, name or ticket
//	wrong            another answer that should not be
//	early, repeated  refreshes before the token was near its end; with a token that
//	                 was spent, and no killed replica explains it
//	unclean          replicas that were told to end and did not end in order
//	leaked           tokens, people or contents in logs, traces, metrics or audit
//
// The figures are the last line, as JSON; the status is 1 if one of these is not 0,
// or if something that must happen did not. With -control the provider does wrong
// on purpose: then the status must be 1.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/gateway"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// role says in the environment that the program was started by itself.
const role = "DRAWBRIDGE_GATEWAY_ROLE"

func main() {
	if os.Getenv(role) == "replica" {
		replica()
		return
	}
	c := config{}
	flag.DurationVar(&c.span, "for", time.Minute, "how long")
	flag.IntVar(&c.people, "people", 12, "how many callers")
	flag.Uint64Var(&c.seed, "seed", rand.Uint64(), "of everything random but time")
	flag.StringVar(&c.store, "store", "postgres", "postgres or sqlite")
	flag.Func("control", "do wrong on purpose: "+strings.Join(controls, ", ")+"; may be given again", func(text string) error {
		c.control = append(c.control, text)
		if !slices.Contains(controls, text) {
			return errors.New("there is no such control")
		}
		return nil
	})
	flag.Parse()
	if c.span < time.Second || c.people < 4 || c.store != "postgres" && c.store != "sqlite" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	os.Exit(run(c))
}

func run(c config) int {
	h := &peers.Program{}
	defer h.Close()
	fmt.Fprintf(os.Stderr, "seed %d\n", c.seed)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := play(ctx, h, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		return 2
	}
	line, err := json.Marshal(r)
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		return 2
	}
	fmt.Println(string(line))
	if wrong := r.wrong(); len(wrong) > 0 {
		fmt.Fprintln(os.Stderr, "load: it does not hold:", wrong)
		return 1
	}
	return 0
}

// replica is a process of the gateway, as its own command would be.
func replica() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := flag.NewFlagSet("replica", flag.ExitOnError)
	c := gateway.Flags(f)
	_ = f.Parse(os.Args[1:]) // ends the program on an error
	if err := c.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
