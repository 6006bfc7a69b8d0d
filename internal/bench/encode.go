package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// cursors compares a sealed cursor with one made by hand: a position and its end
// as JSON, sealed with the binding as associated data, and back.
func cursors() (row, error) {
	key := bytes.Repeat([]byte("k"), 32)
	ring, err := cursor.NewKeyring("k", map[string][]byte{"k": key}, nil)
	if err != nil {
		return row{}, err
	}
	b := cursor.Binding{Tenant: "acme", Issuer: "https://id.example", Subject: "alice", Connection: "conn-1", Generation: 3,
		Capability: "tickets.search", Version: "1.0.0", Query: strings.Repeat("q", 64), Scope: strings.Repeat("s", 64), Revision: "policy-17"}
	block, err := aes.NewCipher(key)
	if err != nil {
		return row{}, err
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return row{}, err
	}
	ours := func() {
		sealed, err := ring.Seal(b, cursor.At("offset=50"))
		if err != nil {
			panic(err)
		}
		if _, err := ring.Open(b, sealed); err != nil {
			panic(err)
		}
	}
	return row{ours, func() { cursorByHand(gcm, b) }}, nil
}

type handmade struct {
	Token string
	Until int64
}

func cursorByHand(gcm cipher.AEAD, b cursor.Binding) {
	binding, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(handmade{"offset=50", time.Now().Add(time.Hour).Unix()})
	if err != nil {
		panic(err)
	}
	sealed := base64.RawURLEncoding.EncodeToString(gcm.Seal(nil, nil, text, binding))
	back, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		panic(err)
	}
	if back, err = gcm.Open(nil, nil, back, binding); err != nil {
		panic(err)
	}
	var h handmade
	if err := json.Unmarshal(back, &h); err != nil || h.Until < time.Now().Unix() {
		panic("a cursor that is over")
	}
}

// envelope has the members of a result for encoding/json: what the form would
// cost without rules.
type envelope struct {
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

func page() (*toolresult.Result, *envelope) {
	data := json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(`{"id":"INC-4821","title":"checkout is slow","open":true,"votes":12},`, 10), ",") + "]")
	at := time.Date(2026, 4, 29, 2, 35, 0, 0, time.UTC)
	r := toolresult.Partial("call_1", data, toolresult.GapRemainingPages)
	r.Summary, r.NextCursor = "a page of tickets", strings.Repeat("c", 200)
	r.Provenance = toolresult.Provenance{Service: "tickets", Window: toolresult.Interval{Start: at, End: at.Add(time.Hour)}, FetchedAt: at, RequestID: "req-1"}
	e := &envelope{CallID: r.CallID, Status: "partial", Summary: r.Summary, Data: data, NextCursor: &r.NextCursor, Verification: "unverified"}
	e.Coverage.Missing = []string{"remaining_pages"}
	e.Effect.Disposition = "none"
	e.Provenance.Service, e.Provenance.Window, e.Provenance.FetchedAt, e.Provenance.RequestID, e.Provenance.Trust = "tickets", r.Provenance.Window.String(), at, "req-1", "untrusted"
	return r, e
}

func encoded() (row, error) {
	r, e := page()
	run := func(v any) func() {
		return func() {
			if _, err := json.Marshal(v); err != nil {
				panic(err)
			}
		}
	}
	return row{run(r), run(e)}, nil
}

func decoded() (row, error) {
	r, _ := page()
	text, err := json.Marshal(r)
	if err != nil {
		return row{}, err
	}
	run := func(fresh func() any) func() {
		return func() {
			if err := json.Unmarshal(text, fresh()); err != nil {
				panic(err)
			}
		}
	}
	return row{run(func() any { return new(toolresult.Result) }), run(func() any { return new(envelope) })}, nil
}
