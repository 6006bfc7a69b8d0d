package connectortest_test

import (
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
)

// The promises can be read without a connector. One that is frozen counts.
func ExampleChecks() {
	for _, c := range connectortest.Checks() {
		if c.ID == "errors/not-found-is-not-empty" {
			fmt.Println(c.Since)
			fmt.Println(c.Promise)
		}
	}
	// Output:
	// 2026.12
	// Something that was named and is not there is an error, never an empty answer.
}
