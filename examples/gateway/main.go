// Command gateway puts several connectors behind one MCP endpoint.
//
//	go run .                                  everything on loopback, in one process
//	gateway -config FILE -id NAME ...         one replica; see README.md
//
// Without -config it brings the authorization servers, the provider and the
// accounts along, keeps its state in a temporary directory, and says how to call
// it. It serves until it is interrupted, and then drains.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/gateway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("gateway", flag.ExitOnError)
	r := gateway.Flags(flags)
	_ = flags.Parse(os.Args[1:]) // ends the program on an error
	var err error
	if r.Config == "" {
		err = demo(ctx, r)
	} else {
		err = r.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
