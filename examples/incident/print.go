package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// result says what an answer means, what is missing and who should do what, and
// shows the first of its data.
func (p *printer) result(tool, about string, r *toolresult.Result) {
	var b strings.Builder
	colour := good
	if r.Err() != nil {
		colour = bad
	}
	fmt.Fprintf(&b, "\n  %s (%s)\n  => %s", p.paint(bold, tool), about, p.paint(colour, r.Meaning().String()))
	if d := r.Effect.Disposition; d != toolresult.EffectNone {
		fmt.Fprintf(&b, ", effect %s", d)
	}
	if len(r.Coverage.Missing) > 0 {
		fmt.Fprintf(&b, ", missing %v", r.Coverage.Missing)
	}
	fmt.Fprintln(&b)
	if e := r.Error; e != nil {
		fmt.Fprintf(&b, "     %s\n     next: %s, by: %s\n", e, e.Code.Info().Next, e.Code.Info().Actor)
	}
	if !r.Provenance.Window.IsZero() {
		fmt.Fprintf(&b, "     read: %s\n", r.Provenance.Window)
	}
	data(&b, tool, r.Data)
	p.write(b.String())
}

const (
	shown = 4   // items of a listing
	width = 100 // characters of a line
)

// columns are what is shown of an item of each tool's data, in this order.
var columns = map[string][]string{
	"get_alert_details":       {"severity", "name", "state", "starts_at", "summary"},
	"list_recent_deployments": {"created_at", "ref", "state", "succeeded_at", "environment"},
	"kubernetes_get_pods":     {"name", "phase", "restarts", "started_at", "images"},
	"loki_search":             {"at", "text"},
	"search_runbooks":         {"id", "title", "owner", "version"},
	"create_incident_ticket":  {"ticket", "subject", "status"},
	"operation_status":        {"ticket", "subject", "status"},
}

func data(b *strings.Builder, tool string, data json.RawMessage) {
	var items []json.RawMessage
	if json.Unmarshal(data, &items) != nil {
		if len(data) == 0 || string(data) == "null" {
			return
		}
		items = []json.RawMessage{data}
	}
	for i, item := range items {
		if i == shown {
			indent(b, fmt.Sprintf("... and %d more", len(items)-shown))
			return
		}
		indent(b, row(tool, item))
	}
}

// row is one item in one line.
func row(tool string, item json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(item, &m) != nil {
		return string(item)
	}
	if points, ok := m["points"].([]any); ok {
		return curve(points)
	}
	var cells []string
	for _, name := range columns[tool] {
		v, ok := m[name]
		if name == "text" {
			v = message(v)
		}
		if ok && v != nil {
			cells = append(cells, strings.Trim(fmt.Sprint(v), "[]"))
		}
	}
	if cells == nil {
		return string(item)
	}
	return strings.Join(cells, "  ")
}

// message is what a log line says, if it is JSON that says so.
func message(v any) any {
	var line struct{ Level, Msg string }
	text, _ := v.(string)
	if json.Unmarshal([]byte(text), &line) == nil && line.Msg != "" {
		return line.Level + ": " + line.Msg
	}
	return v
}

// curve draws a series.
func curve(points []any) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	var values []float64
	top := 0.0
	for _, p := range points {
		m, _ := p.(map[string]any)
		text, _ := m["value"].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v < 0 {
			v = 0
		}
		values, top = append(values, v), max(top, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if top > 0 {
			i = int(v / top * float64(len(bars)-1))
		}
		b.WriteRune(bars[i])
	}
	return fmt.Sprintf("%s  %d points, the highest %.3g", b.String(), len(values), top)
}

// harmless replaces what a terminal would obey: texts of systems are data.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

func indent(b *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		line = harmless(strings.TrimRight(line, "\r\n"))
		if r := []rune(line); len(r) > width {
			line = string(r[:width]) + "…"
		}
		fmt.Fprintf(b, "       %s\n", line)
	}
}

// whole shows a text to its last character, over as many lines as it takes.
func (p *printer) whole(text string) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		r := []rune(harmless(strings.TrimRight(line, "\r\n")))
		for len(r) > width {
			fmt.Fprintf(&b, "     | %s\n", string(r[:width]))
			r = r[width:]
		}
		fmt.Fprintf(&b, "     | %s\n", string(r))
	}
	p.write(b.String())
}

// items shows a text line by line, each over as many lines as it takes.
func (p *printer) items(text string) {
	for line := range strings.Lines(text) {
		p.wrapped("    ", harmless(strings.TrimRight(line, "\n")))
	}
}
