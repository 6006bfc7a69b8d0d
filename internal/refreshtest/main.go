// Command refreshtest renews rotating credentials from many processes at once,
// and counts what the authorization server saw.
//
//	go run ./internal/refreshtest -procs 4 -goroutines 50 -seconds 20 -store sqlite|postgres [-connections N] [-kill]
//
// The server runs in a process of its own: access tokens live 3 s, a refresh token
// works once, and used again it ends the whole grant. Workers share a store and
// nothing else, and call through a connection.Manager as fast as they can: they
// resolve, put the credential on a request, and send the first request with each
// new token to the server's API. The last line is JSON:
//
//	{"calls":…,"expiries":…,"token_requests":…,"errors":0,"invalid_grants":0,"killed":0,"lost":0,"wrongly_lost":0,…}
//
// expiries are access tokens that were near their end when they were replaced, as
// the server sees it; token_requests are the refreshes that were sent. That the
// two are equal says that nothing was sent twice, or too early. errors are calls
// that failed, and tokens that the API refused although they should have been
// good.
//
// With -kill workers die inside refreshes: before the lease is taken, while the
// request is under way, between the server's commit and ours, and after ours; and
// are started again. Then lost are connections whose user must consent again. A
// strict server makes that unavoidable where it had given new tokens that nobody
// stored; each must say so (refresh_outcome_unknown). wrongly_lost are those that
// say something else, or for which the server gave no tokens that are not stored;
// unavailable are calls that were told to try again, since two workers in a row
// died with the lease of their connection. Without -kill these are errors.
// The status is 1 if something is not as it must be.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// role says in the environment that the program was started by itself.
const role = "DRAWBRIDGE_REFRESHTEST_ROLE"

func main() {
	switch os.Getenv(role) {
	case "server":
		serve()
		return
	case "worker":
		work()
		return
	}
	c := config{}
	flag.StringVar(&c.store, "store", "sqlite", "sqlite or postgres")
	flag.IntVar(&c.procs, "procs", 4, "worker processes")
	flag.IntVar(&c.goroutines, "goroutines", 50, "goroutines in each")
	flag.IntVar(&c.seconds, "seconds", 20, "how long")
	flag.IntVar(&c.connections, "connections", 0, "connections; 0: 4, or 40 with -kill")
	flag.BoolVar(&c.kill, "kill", false, "kill workers inside refreshes")
	flag.Parse()
	if c.connections == 0 {
		c.connections = 4
		if c.kill {
			c.connections = 40
		}
	}
	if c.procs < 1 || c.goroutines < 1 || c.seconds < 1 || c.connections < 1 || c.store != "sqlite" && c.store != "postgres" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	h := &peers.Program{}
	r, err := play(context.Background(), h, c)
	h.Close()
	if err != nil {
		fatal(err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		fatal(err)
	}
	fmt.Println(string(line))
	if !r.ok() {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "refreshtest:", err)
	os.Exit(2)
}

// report is the line.
type report struct {
	Calls         int     `json:"calls"`
	Expiries      int     `json:"expiries"`
	TokenRequests int     `json:"token_requests"`
	Errors        int     `json:"errors"`
	InvalidGrants int     `json:"invalid_grants"`
	Killed        int     `json:"killed"`
	Lost          int     `json:"lost"`
	WronglyLost   int     `json:"wrongly_lost"`
	Unavailable   int     `json:"unavailable"`
	Connections   int     `json:"connections"`
	Seconds       float64 `json:"seconds"`

	kill bool
}

// ok reports whether everything is as it must be. With -kill there are late
// retries, which the server refuses where it had answered before; twice, where
// the one who was refused died before it had noted that.
func (r report) ok() bool {
	switch {
	case r.Errors > 0 || r.WronglyLost > 0 || r.Calls == 0:
		return false
	case r.kill:
		return r.Killed > 0 && r.InvalidGrants >= r.Lost
	}
	return r.TokenRequests == r.Expiries && r.Expiries > 0 && r.InvalidGrants == 0 && r.Lost == 0
}
