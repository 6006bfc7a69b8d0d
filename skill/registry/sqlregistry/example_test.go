package sqlregistry_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/sqlregistry"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "registry.db"))) // import _ "modernc.org/sqlite"
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	store, err := sqlregistry.Open(ctx, db, sqlstore.SQLite, "acme") // goes to registry.New
	if err != nil {
		fmt.Println(err)
		return
	}
	pin := registry.Pin{Run: "run_1", Name: "incident-diagnosis", Version: "1.4.0", Artifact: skill.DigestOf(nil), Scope: "prod"}
	_, err = store.PutPin(ctx, pin)
	fmt.Println(err)
	pin.Version = "1.5.0"
	kept, err := store.PutPin(ctx, pin)
	fmt.Println(kept.Version, err)
	// Output:
	// <nil>
	// 1.4.0 <nil>
}
