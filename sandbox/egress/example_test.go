package egress_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A session for one call: what may leave, with which credential, and what came
// of it.
func ExampleEndpoint_Open() {
	e, err := egress.New(egress.Profile{Name: "tickets", BaseURL: "https://tickets.example.com/api"}, nil)
	if err != nil {
		panic(err)
	}
	s := e.Open(context.Background(), &egress.Hooks{
		Allow: func(_ context.Context, r *egress.Request) (egress.Effect, error) {
			if r.Method != "GET" {
				return egress.Changes, errors.New("this call reads")
			}
			return egress.Reads, nil
		},
		Observe: func(_ context.Context, _ *egress.Request, _ *egress.Response, x egress.Exchange) {
			fmt.Println(x.Method, x.Path, x.Phase, x.Reason)
		},
	})
	defer s.Close()
	_, err = s.Client().Post(e.BaseURL()+"/issues", "application/json", nil)
	var failed *egress.Error
	fmt.Println(errors.As(err, &failed), failed)
	fmt.Println(errors.Is(err, toolresult.EgressDenied))
	// Output:
	// POST /issues not sent refused
	// true egress: tickets: refused (not sent)
	// true
}

// A profile says where a provider is; what it does not say is refused.
func ExampleNew() {
	_, err := egress.New(egress.Profile{Name: "tickets", BaseURL: "https://169.254.169.254"}, nil)
	fmt.Println(err)
	// Output:
	// egress: profile "tickets": base URL: a metadata address, which is not in the private ranges
}

func ExampleParseProfiles() {
	_, err := egress.ParseProfiles([]byte("profiles:\n  - name: tickets\n    base_url: http://tickets.example.com\n"))
	fmt.Println(err)
	// Output:
	// egress: profiles: yaml: line 2: profiles[0]: base URL: the scheme must be https (or http, with Plaintext)
}
