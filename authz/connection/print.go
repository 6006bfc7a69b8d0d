package connection

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// What holds a secret prints as its name: a request to install a key, the cookie
// of a departure, and a profile, whose Key may be the private key itself (an
// ed25519.PrivateKey is a slice of bytes) and not a way to one.

var errEncode = errors.New("connection: this holds a secret and is not for encoding")

// Format implements [fmt.Formatter], so that no verb prints the key.
func (r InstallRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "connection.InstallRequest(%q)", r.Provider)
}

// LogValue implements [slog.LogValuer].
func (r InstallRequest) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(r)) }

// MarshalText implements [encoding.TextMarshaler]. It always fails.
func (r InstallRequest) MarshalText() ([]byte, error) { return nil, errEncode }

// GobEncode implements [gob.GobEncoder]. It always fails.
func (r InstallRequest) GobEncode() ([]byte, error) { return nil, errEncode }

// MarshalJSON implements [json.Marshaler]. It always fails; a request can be
// decoded.
func (r InstallRequest) MarshalJSON() ([]byte, error) { return nil, errEncode }

// Format implements [fmt.Formatter], so that no verb prints the browser's secret
// and the state.
func (d Departure) Format(f fmt.State, _ rune) { io.WriteString(f, "connection.Departure") }

// LogValue implements [slog.LogValuer].
func (d Departure) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(d)) }

// MarshalText implements [encoding.TextMarshaler]. It always fails.
func (d Departure) MarshalText() ([]byte, error) { return nil, errEncode }

// GobEncode implements [gob.GobEncoder]. It always fails.
func (d Departure) GobEncode() ([]byte, error) { return nil, errEncode }

// MarshalJSON implements [json.Marshaler]. It always fails: the two parts go to
// different places.
func (d Departure) MarshalJSON() ([]byte, error) { return nil, errEncode }

// Format implements [fmt.Formatter], so that no verb prints a key.
func (p Provider) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "connection.Provider(%q)", p.Name) }

// LogValue implements [slog.LogValuer].
func (p Provider) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(p)) }
