package gateway

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"
)

// Command is what the command line says of one replica.
type Command struct {
	Config, ID, Release, Listen, Admin, OTLP, Traces string
	Reviewed                                         bool

	// Out gets one line before anything is served: the base URLs for callers and
	// for operators.
	Out io.Writer
}

// Flags declares the flags.
func Flags(f *flag.FlagSet) *Command {
	c := &Command{Out: os.Stdout}
	f.StringVar(&c.Config, "config", "", "a file with the configuration, the same for all replicas")
	f.StringVar(&c.ID, "id", "1", "the name of this replica, unlike the others'")
	f.StringVar(&c.Release, "release", Current, "which release to be: "+Current+", "+Next+", or "+Breaking+", which is refused beside them")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:0", "address for callers")
	f.StringVar(&c.Admin, "admin", "127.0.0.1:0", "address for operators: /livez, /readyz, /metrics")
	f.StringVar(&c.OTLP, "otlp", "", "URL of a collector's OTLP/HTTP traces")
	f.StringVar(&c.Traces, "traces", "", "a file that gets a line for each span")
	f.BoolVar(&c.Reviewed, "reviewed", false, "somebody has looked at what differs from the release that is served")
	return c
}

// Run is a replica from its configuration to its end.
func (c *Command) Run(ctx context.Context) error {
	cfg, err := Load(c.Config)
	if err != nil {
		return err
	}
	return c.Serve(ctx, cfg)
}

// Serve is a replica with a configuration that was read already.
func (c *Command) Serve(ctx context.Context, cfg *Config) (err error) {
	opts := &Options{OTLP: c.OTLP, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)).With("replica", c.ID, "release", c.Release)}
	if c.Traces != "" {
		f, err := os.OpenFile(c.Traces, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		opts.Traces = io.Writer(f)
	}
	r, err := Open(ctx, cfg, c.ID, c.Release, opts)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, r.Close(end))
	}()
	public, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", c.Admin)
	if err != nil {
		return errors.Join(err, public.Close())
	}
	fmt.Fprintf(c.Out, "http://%s http://%s\n", public.Addr(), admin.Addr())
	return r.Serve(ctx, public, admin, c.Reviewed)
}
