package dirstore_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/dirstore"
)

// What one process keeps, another reads by the reference alone; whether it may is
// decided by connector.Invoker.ReadArtifact.
func Example() {
	dir, err := os.MkdirTemp("", "artifacts")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := dirstore.Open(dir, &dirstore.Options{Plaintext: true}) // a service sets Seal
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ctx := context.Background()
	meta := &artifact.Meta{Ref: artifact.Ref{Run: "run-1", Name: "logs"}, Tenant: "acme", Scope: authz.WholeConnection(), Expires: time.Now().Add(time.Hour)}
	if err := store.Put(ctx, meta, strings.NewReader("10 MB of logs"), 1<<20); err != nil {
		fmt.Println(err)
		return
	}
	_, r, err := store.Open(ctx, "acme", meta.Ref)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	fmt.Println(meta.Ref, string(text), err)
	// Output: artifact://run-1/logs/1 10 MB of logs <nil>
}
