package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "operations.db"))) // import _ "modernc.org/sqlite"
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite, &sqlstore.Options{Plaintext: true}) // or Seal: a credential.Keyring
	if err != nil {
		fmt.Println(err)
		return
	}
	rec := operation.Record{Operation: operation.Operation{ID: "op_1"}, State: operation.Prepared, Intent: "create a ticket",
		Binding: authz.Binding{Requester: authz.PrincipalKey{Tenant: "acme", Issuer: "https://id.example", Subject: "alice"}}}
	rec, err = store.Create(ctx, rec)
	fmt.Println(rec.Rev, err)
	rec.State = operation.Dispatched
	rec, err = store.CompareAndSwap(ctx, rec)
	fmt.Println(rec.Rev, err)
	rec.ID = "op_2"
	_, err = store.Create(ctx, rec)
	fmt.Println(errors.Is(err, operation.ErrIntentOpen))
	history, err := store.History(ctx, "acme", "op_1")
	fmt.Println(len(history), history[1].State, err)
	// Output:
	// 1 <nil>
	// 2 <nil>
	// true
	// 2 dispatched <nil>
}
