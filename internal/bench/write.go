package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

type draft struct {
	Title string `json:"title"`
}

type made struct {
	ID int `json:"id"`
}

const (
	draftText = `{"title":"the printer is on fire"}`
	apiKey    = "key-0123456789"
)

// api creates what it is told to. It runs until the program ends.
func api() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":4821}`)
	}))
}

func create(ctx context.Context, c *connector.WriteCall, in draft) (*connector.Receipt[made], error) {
	var out made
	if _, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /tickets", Body: in, Out: &out}); err != nil {
		return nil, err
	}
	return connector.Applied(out, "4821"), nil
}

// lookUp is not called: every answer arrives.
func lookUp(context.Context, *connector.ReadCall, draft, operation.Operation) (*connector.Evidence[made], error) {
	return nil, nil
}

// governedWrite is a change from the arguments to the receipt: rendered,
// recorded, sent on a connection of its own, recorded.
func governedWrite(at string, ledger operation.Store) (func(), error) {
	c, err := connector.New(connector.Info{ID: "bench", Version: "1", Owner: "bench", Endpoint: "bench", Auth: connector.Auth{Mode: connector.AuthAPIKey}},
		connector.Write(connector.WriteSpec{
			Spec: connector.Spec{Name: "bench.create", Sensitivity: risk.Internal,
				Routes: []connector.Route{{Pattern: "POST /tickets", Effect: connector.Changes, WholeConnection: true}}},
			SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy,
			Idempotency: connector.Idempotency{Header: "Idempotency-Key", Window: time.Hour},
		}, connector.OnConnection[draft], connector.Reconcilable(create, lookUp)))
	if err != nil {
		return nil, err
	}
	host := authz.NewAuthority("bench")
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	if err != nil {
		return nil, err
	}
	keys, err := credential.NewStatic("acme", at, func(context.Context) ([]byte, error) { return []byte(apiKey), nil }, nil)
	if err != nil {
		return nil, err
	}
	inv, err := connector.NewInvoker(everything{}, []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{
		Endpoints:   []egress.Profile{{Name: "bench", BaseURL: at, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
		Credentials: keys, Operations: ledger, Forgetful: true})
	if err != nil {
		return nil, err
	}
	n := 0
	return func() {
		n++
		r := inv.Invoke(context.Background(), &connector.InvokeRequest{Principal: alice, Capability: "bench.create",
			Arguments: json.RawMessage(draftText), Key: fmt.Sprintf("operation-%012d", n), CallID: "c1"})
		if err := r.Err(); err != nil {
			panic(err)
		}
	}, nil
}

// post is the same request by net/http.
func post(at string) func() {
	client := &http.Client{Transport: &http.Transport{}}
	n := 0
	return func() {
		n++
		req, err := http.NewRequest(http.MethodPost, at+"/tickets", bytes.NewReader([]byte(draftText)))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+apiKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", fmt.Sprint("operation-", n))
		resp, err := client.Do(req)
		if err != nil {
			panic(err)
		}
		var out made
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.ID != 4821 {
			panic(fmt.Sprint("no receipt: ", err))
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func writeInMemory() (row, error) {
	srv := api()
	ours, err := governedWrite(srv.URL, &operation.Memory{})
	return row{ours, post(srv.URL)}, err
}

// writeInSQLite compares with a program that keeps by hand what it may not
// forget: prepared before it sends, dispatched, and what came of it, each in a
// transaction with its row of history.
func writeInSQLite(dir string) (row, error) {
	ctx := context.Background()
	open := func(name string) (*sql.DB, error) {
		return sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, name)))
	}
	db, err := open("ours.db")
	if err != nil {
		return row{}, err
	}
	keys, err := credential.NewKeyring("k", map[string][]byte{"k": bytes.Repeat([]byte("k"), 32)})
	if err != nil {
		return row{}, err
	}
	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite, &sqlstore.Options{Seal: keys})
	if err != nil {
		return row{}, err
	}
	srv := api()
	ours, err := governedWrite(srv.URL, store)
	if err != nil {
		return row{}, err
	}
	hand, err := open("hand.db")
	if err != nil {
		return row{}, err
	}
	base, err := recordedByHand(hand, post(srv.URL))
	return row{ours, base}, err
}

func recordedByHand(db *sql.DB, send func()) (func(), error) {
	for _, text := range []string{
		"CREATE TABLE operations (id TEXT PRIMARY KEY, rev INTEGER NOT NULL, state TEXT NOT NULL, arguments TEXT, output TEXT, at INTEGER NOT NULL)",
		"CREATE TABLE history (id TEXT NOT NULL, rev INTEGER NOT NULL, state TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (id, rev))",
	} {
		if _, err := db.Exec(text); err != nil {
			return nil, err
		}
	}
	n := 0
	step := func(id string, rev int, state, text string, args ...any) {
		tx, err := db.Begin()
		if err != nil {
			panic(err)
		}
		if _, err := tx.Exec(text, args...); err != nil {
			panic(err)
		}
		if _, err := tx.Exec("INSERT INTO history (id, rev, state, at) VALUES (?, ?, ?, unixepoch())", id, rev, state); err != nil {
			panic(err)
		}
		if err := tx.Commit(); err != nil {
			panic(err)
		}
	}
	return func() {
		n++
		id := fmt.Sprintf("op-%012d", n)
		step(id, 1, "prepared", "INSERT INTO operations (id, rev, state, arguments, at) VALUES (?, 1, 'prepared', ?, unixepoch())", id, draftText)
		step(id, 2, "dispatched", "UPDATE operations SET rev = 2, state = 'dispatched' WHERE id = ? AND rev = 1", id)
		send()
		step(id, 3, "applied", "UPDATE operations SET rev = 3, state = 'applied', output = ? WHERE id = ? AND rev = 2", `{"id":4821}`, id)
	}, nil
}
