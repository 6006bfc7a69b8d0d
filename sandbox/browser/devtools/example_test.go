package devtools_test

import (
	"context"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/sandbox/browser/devtools"
)

// A browser that reaches one host, with a profile that ends with it.
func ExampleStart() {
	ctx := context.Background()
	b, err := devtools.Start(ctx, &devtools.Options{Hosts: []string{"desk.example.com"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	tab, err := b.Open(ctx, "https://desk.example.com/tickets/new")
	fmt.Println(tab != nil, err) // for browser.Do
}
