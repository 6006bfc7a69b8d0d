package mcpadapter

import (
	"fmt"
	"io"
	"log/slog"
)

// Format implements [fmt.Formatter], so that no verb prints StateKeys.
func (o Options) Format(f fmt.State, _ rune) { io.WriteString(f, "mcpadapter.Options") }

// LogValue implements [slog.LogValuer].
func (o Options) LogValue() slog.Value { return slog.StringValue("mcpadapter.Options") }
