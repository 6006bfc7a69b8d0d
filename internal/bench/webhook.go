package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

const hookSecret = "not-a-real-secret"

// hook is a signed delivery of 4 KiB.
func hook(n int) *http.Request {
	body := fmt.Sprintf(`{"n":%012d,"text":"%s"}`, n, strings.Repeat("x", 4<<10-30))
	m := hmac.New(sha256.New, []byte(hookSecret))
	m.Write([]byte(body))
	r := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	r.Header.Set("X-GitHub-Delivery", fmt.Sprint("delivery-", n))
	return r
}

// received compares what it takes to verify, store and acknowledge a webhook of
// 4 KiB with the same by hand: one HMAC, one INSERT with a unique id, one flush.
// Both files are on the same disk, with the same settings.
func received(dir string) (row, error) {
	ctx := context.Background()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "ours.db")))
	if err != nil {
		return row{}, err
	}
	s, err := sqlstore.Open(ctx, db, sqlstore.SQLite, &sqlstore.Options{Plaintext: true})
	if err != nil {
		return row{}, err
	}
	v, err := webhook.GitHub([]string{hookSecret}, nil)
	if err != nil {
		return row{}, err
	}
	e, err := webhook.NewEndpoint(v, s.Inbox(), webhook.Place{Tenant: "t", Source: "s"}, nil)
	if err != nil {
		return row{}, err
	}
	hand, err := byHand(filepath.Join(dir, "hand.db"))
	return row{deliver(e), deliver(hand)}, err
}

func deliver(h http.Handler) func() {
	n := 0
	return func() {
		n++
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, hook(n)); w.Code != http.StatusOK {
			panic(fmt.Sprint("a webhook was answered with ", w.Code))
		}
	}
}

// byHand is an endpoint as one writes it.
func byHand(file string) (http.Handler, error) {
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(file))
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec("CREATE TABLE inbox (id TEXT PRIMARY KEY, received INTEGER NOT NULL, body BLOB NOT NULL, handled INTEGER NOT NULL)"); err != nil {
		return nil, err
	}
	if _, err := db.Exec("CREATE INDEX inbox_waiting ON inbox (received) WHERE handled = 0"); err != nil {
		return nil, err
	}
	insert, err := db.Prepare("INSERT INTO inbox (id, received, body, handled) VALUES (?, unixepoch(), ?, 0) ON CONFLICT DO NOTHING")
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		m := hmac.New(sha256.New, []byte(hookSecret))
		m.Write(body)
		given, err2 := hex.DecodeString(strings.TrimPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256="))
		if err != nil || err2 != nil || !hmac.Equal(m.Sum(nil), given) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if _, err := insert.ExecContext(r.Context(), r.Header.Get("X-GitHub-Delivery"), body); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	}), nil
}
