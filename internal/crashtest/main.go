// Command crashtest kills processes in the middle of changes and counts what
// became of them.
//
//	go run ./internal/crashtest -store sqlite|postgres -runs N -procs P [-seed S]
//
// Each run is one change, made through a connector.Invoker by worker processes
// that share a store, at a provider process that counts what it applied. A worker
// is killed at a random point of the run (before and after each write to the
// ledger, between the provider's commit and its answer, between the answer and
// the ledger, or whenever), the provider drops answers, answers 503 with and
// without effect, or applies what it has received only after the connection is
// gone; calls are made twice at once; killed workers are started again, and
// another process takes over. Every answer that a worker gave is compared with
// the provider's count. The last line is JSON:
//
//	{"runs":N,"writes":…,"lost":0,"duplicated":0,"misreported":0,"unresolved":0,"seconds":…}
//
// lost are changes whose ledger does not say that they happened; duplicated are
// effects beyond the first; misreported are answers that were not true;
// unresolved are operations about which nothing is known in the end. The status
// is 1 if one of these is not 0.
//
// With -inbox it is receivers of webhooks that are killed, every five seconds:
//
//	go run ./internal/crashtest -inbox [-for 60s] [-seed S]
//
// 200 deliveries per second, 30 % of them sent again and all out of order, go to
// a webhook.Endpoint over a SQLite file on disk, and are repeated until they are
// acknowledged; the same process handles them. The line is
//
//	{"deliveries":N,…,"lost":0,"processed_twice":0,"out_of_order":0,"rate":…,"seconds":…}
//
// lost are events that were acknowledged and then neither handled nor passed over
// for a newer one of their object; processed_twice are those with several effects
// in the database; out_of_order are effects that went back to an older version.
//
// A lease that a killed worker held ends 34 s later, so that no run takes less
// than that; they overlap.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// role says in the environment that the program was started by itself.
const role = "DRAWBRIDGE_CRASHTEST_ROLE"

func main() {
	switch os.Getenv(role) {
	case "provider":
		provide()
		return
	case "worker":
		work()
		return
	case "receiver":
		receive()
		return
	}
	c := config{faults: everyFault}
	flag.StringVar(&c.store, "store", "sqlite", "sqlite or postgres")
	flag.IntVar(&c.runs, "runs", 100, "how many changes")
	flag.IntVar(&c.procs, "procs", 4, "how many worker processes")
	flag.Uint64Var(&c.seed, "seed", rand.Uint64(), "of everything random but time")
	inbox := flag.Bool("inbox", false, "kill receivers of webhooks instead")
	span := flag.Duration("for", time.Minute, "how long to deliver webhooks")
	flag.Parse()
	if *inbox && flag.NArg() == 0 && *span > 0 {
		mainInbox(inboxConfig{rate: 200, span: *span, every: 5 * time.Second, duplicate: 0.3, seed: c.seed})
		return
	}
	if c.runs < 1 || c.procs < 1 || c.store != "sqlite" && c.store != "postgres" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "seed %d\n", c.seed)
	started := time.Now()
	h := &peers.Program{}
	r, err := play(context.Background(), h, c)
	h.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	r.Seconds = time.Since(started).Round(time.Millisecond).Seconds()
	line, err := json.Marshal(r)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Println(string(line))
	if !r.ok() {
		os.Exit(1)
	}
}

func mainInbox(c inboxConfig) {
	fmt.Fprintf(os.Stderr, "seed %d\n", c.seed)
	started := time.Now()
	h := &peers.Program{}
	r, err := playInbox(context.Background(), h, c)
	h.Close()
	if err != nil {
		fatal(err)
	}
	r.Seconds = time.Since(started).Round(time.Millisecond).Seconds()
	line, err := json.Marshal(r)
	if err != nil {
		fatal(err)
	}
	fmt.Println(string(line))
	if !r.ok() {
		os.Exit(1)
	}
}

// report is the line.
type report struct {
	Runs        int     `json:"runs"`
	Writes      int     `json:"writes"`
	Lost        int     `json:"lost"`
	Duplicated  int     `json:"duplicated"`
	Misreported int     `json:"misreported"`
	Unresolved  int     `json:"unresolved"`
	Seconds     float64 `json:"seconds"`
}

func (r report) ok() bool {
	return r.Lost == 0 && r.Duplicated == 0 && r.Misreported == 0 && r.Unresolved == 0
}
