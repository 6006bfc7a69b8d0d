package credential_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
)

func ExampleNewStatic() {
	// The key stays in the file, where its owner rotates it.
	read := func(context.Context) ([]byte, error) {
		key, err := os.ReadFile("/run/secrets/redmine-key")
		return bytes.TrimSpace(key), err
	}
	acme, err := credential.NewStatic("acme", "https://redmine.example.com", read, &credential.StaticOptions{
		Header:    "X-Redmine-API-Key",
		Connector: "tickets",
		Account:   "incident-bot",
	})
	if err != nil {
		log.Fatal(err)
	}
	var broker credential.Broker = credential.Join(acme) // connector.Options.Credentials
	_, err = broker.Resolve(context.Background(), &credential.ResolveRequest{Connector: "tickets"})
	fmt.Println(err)
	fmt.Println(credential.NewHandle())
	// Output:
	// AUTHENTICATION_REQUIRED: the caller is not known
	// credential
}
