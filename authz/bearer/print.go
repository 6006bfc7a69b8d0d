package bearer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

var errEncode = errors.New("bearer: this holds a key and is not for encoding")

// Format implements [fmt.Formatter], so that no verb prints the nonces' key.
func (o DPoPOptions) Format(f fmt.State, _ rune) { io.WriteString(f, "bearer.DPoPOptions") }

// LogValue implements [slog.LogValuer].
func (o DPoPOptions) LogValue() slog.Value { return slog.StringValue("bearer.DPoPOptions") }

// MarshalText implements [encoding.TextMarshaler], for JSON too. It always fails.
func (o DPoPOptions) MarshalText() ([]byte, error) { return nil, errEncode }

// GobEncode implements [gob.GobEncoder]. It always fails.
func (o DPoPOptions) GobEncode() ([]byte, error) { return nil, errEncode }
