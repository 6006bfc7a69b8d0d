// Command soak lets many clients loose on one server and looks whether it stays
// what it was:
//
//	go run ./internal/interop/soak
//	go run ./internal/interop/soak -clients 200 -span 60s -seed 1
//
// The clients list and call in both revisions, under many principals over shared
// connections, and cancel, hang up in the middle, send what is no request, and
// come with tokens that nobody knows. Every answer is held against who asked: it
// has the id of the request, the caller's own name in it and the caller's own
// tools. Afterwards there have to be as many goroutines as before, and no more
// memory.
//
// It prints one JSON object, and its exit status is 1 if something was wrong.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	c := config{}
	flag.IntVar(&c.Clients, "clients", 200, "how many clients at once")
	flag.DurationVar(&c.Span, "span", time.Minute, "for how long")
	flag.Uint64Var(&c.Seed, "seed", 1, "of the clients' choices")
	flag.Parse()
	r, err := soak(context.Background(), c)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err == nil {
		err = r.wrong()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}
