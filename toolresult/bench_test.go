package toolresult_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// plain has the members of an envelope as a struct for encoding/json: what the
// wire form would cost without rules.
type plain struct {
	CallID   string          `json:"call_id"`
	Status   string          `json:"status"`
	Summary  string          `json:"summary"`
	Data     json.RawMessage `json:"data"`
	Coverage struct {
		Complete bool     `json:"complete"`
		Missing  []string `json:"missing"`
	} `json:"coverage"`
	Effect struct {
		Disposition string  `json:"disposition"`
		OperationID *string `json:"operation_id"`
	} `json:"effect"`
	Truncated  bool    `json:"truncated"`
	NextCursor *string `json:"next_cursor"`
	Error      *string `json:"error"`
	Provenance struct {
		Service   string    `json:"service"`
		Window    string    `json:"window"`
		FetchedAt time.Time `json:"fetched_at"`
		RequestID string    `json:"provider_request_id"`
		Trust     string    `json:"trust"`
	} `json:"provenance"`
	Verification string `json:"verification_state"`
}

func benchResult(rows int) (*toolresult.Result, *plain) {
	data := json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(`{"id":"INC-4821","title":"checkout is slow","open":true,"votes":12},`, rows), ",") + "]")
	at := time.Date(2026, 4, 29, 2, 35, 0, 0, time.UTC)
	r := toolresult.Partial("call_1", data, toolresult.GapRemainingPages)
	r.Summary, r.NextCursor = "a page of tickets", strings.Repeat("c", 200)
	r.Provenance = toolresult.Provenance{Service: "tickets", Window: toolresult.Interval{Start: at, End: at.Add(time.Hour)}, FetchedAt: at, RequestID: "req-1"}

	p := &plain{CallID: r.CallID, Status: "partial", Summary: r.Summary, Data: data, NextCursor: &r.NextCursor, Verification: "unverified"}
	p.Coverage.Missing = []string{"remaining_pages"}
	p.Effect.Disposition = "none"
	p.Provenance.Service, p.Provenance.Window, p.Provenance.FetchedAt, p.Provenance.RequestID, p.Provenance.Trust = "tickets", r.Provenance.Window.String(), at, "req-1", "untrusted"
	return r, p
}

func BenchmarkMarshal(b *testing.B) {
	for name, rows := range map[string]int{"rows=1": 1, "rows=100": 100} {
		r, p := benchResult(rows)
		b.Run("plain/"+name, func(b *testing.B) { marshal(b, p) })
		b.Run("result/"+name, func(b *testing.B) { marshal(b, r) })
		b.Run("append/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				var err error
				if out, err = r.AppendJSON(out[:0]); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(out)))
		})
	}
}

func marshal(b *testing.B, v any) {
	b.ReportAllocs()
	for b.Loop() {
		out, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(out)))
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	for name, rows := range map[string]int{"rows=1": 1, "rows=100": 100} {
		r, p := benchResult(rows)
		text, err := json.Marshal(r)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("plain/"+name, func(b *testing.B) { unmarshal(b, text, p) })
		b.Run("result/"+name, func(b *testing.B) { unmarshal(b, text, r) })
	}
}

func unmarshal(b *testing.B, text []byte, v any) {
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := json.Unmarshal(text, v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	r, _ := benchResult(100)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Validate(nil); err != nil {
			b.Fatal(err)
		}
	}
}

// What a surface pays for each result is the copy and no garbage.
func TestAppendAllocatesNothing_R11(t *testing.T) {
	r, _ := benchResult(3)
	out, err := r.AppendJSON(nil)
	require.NoError(t, err)
	least := math.Inf(1) // the count is the process's, and others may allocate meanwhile
	for range 10 {
		least = min(least, testing.AllocsPerRun(100, func() { out, err = r.AppendJSON(out[:0]) }))
	}
	require.Zero(t, least)
	require.NoError(t, err)
}
