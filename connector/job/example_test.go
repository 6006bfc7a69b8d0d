package job_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

// A host's own housekeeping, beside what [job.Recover] does. Here the host ends
// as soon as it is done once.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "host.db")))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	ctx, stop := context.WithCancel(context.Background())
	runner, err := job.Open(ctx, db, sqlstore.SQLite, []job.Sweep{{
		Name: "old-reports", Every: time.Hour,
		Run: func(context.Context) error {
			fmt.Println("old reports are removed")
			stop()
			return nil
		},
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(runner.Run(ctx))
	// Output:
	// old reports are removed
	// <nil>
}
