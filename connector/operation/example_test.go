package operation_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
)

// What a ledger holds still: the version, and one open change for an intent.
func ExampleStore() {
	ctx := context.Background()
	var ledger operation.Store = &operation.Memory{}
	alice := authz.Binding{Requester: authz.PrincipalKey{Tenant: "acme", Issuer: "https://id.example", Subject: "alice"}}
	first, err := ledger.Create(ctx, operation.Record{Operation: operation.Operation{ID: "op_1", Key: "task-17/create"}, State: operation.Prepared, Intent: "create a ticket", Binding: alice})
	fmt.Println(first.State, first.Rev, err)
	first.State = operation.Dispatched
	sent, err := ledger.CompareAndSwap(ctx, first)
	fmt.Println(sent.State, sent.Rev, sent.Disposition(), err)

	_, err = ledger.CompareAndSwap(ctx, first) // somebody with the version of before
	fmt.Println(errors.Is(err, operation.ErrVersion))
	_, err = ledger.Create(ctx, operation.Record{Operation: operation.Operation{ID: "op_2", Key: "task-18/create"}, State: operation.Dispatched, Intent: "create a ticket", Binding: alice})
	fmt.Println(errors.Is(err, operation.ErrIntentOpen))
	// Output:
	// prepared 1 <nil>
	// dispatched 2 unknown <nil>
	// true
	// true
}
