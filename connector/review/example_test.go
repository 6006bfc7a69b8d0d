package review_test

import (
	"fmt"
	"net/http"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/review"
)

// The pages are mounted beside the host's own; who is signed in is the host's
// knowledge.
func ExampleNew() {
	session := func(*http.Request) (authz.Principal, error) { return authz.Principal{}, nil } // the host's own
	var inv connector.Invoker                                                                 // of connector.NewInvoker
	pages, err := review.New(&inv, session, &review.Options{Base: "https://agent.example.com/approvals"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/approvals/", http.StripPrefix("/approvals", pages))
	fmt.Println(pages.Link("apr_5f1d"))
	// Output: https://agent.example.com/approvals/apr_5f1d
}
