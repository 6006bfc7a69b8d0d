package rules_test

import (
	"fmt"
	"net/http"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/rules"
)

// A failure of Slack is a 200, and a limit of GitHub a 403.
func Example() {
	slack := provider.Classify(rules.Slack, &provider.Response{Status: 200, Body: []byte(`{"ok":false,"error":"channel_not_found"}`)})
	fmt.Println(slack.OK, slack.Code, slack.Effect)
	github := provider.Classify(rules.GitHub, &provider.Response{Status: 403, Header: http.Header{"X-Github-Request-Id": {"r-1"}},
		Body: []byte(`{"message":"You have exceeded a secondary rate limit."}`)})
	fmt.Println(github.Code, github.RetryAfter, github.RequestID)
	// Output:
	// false NOT_FOUND not_applied
	// RATE_LIMITED 1m0s r-1
}
