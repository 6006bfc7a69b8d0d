package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

func Example() {
	verifier, err := webhook.GitHub([]string{"It's a Secret to Everybody"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var inbox webhook.Memory // a program has sqlstore's
	endpoint, err := webhook.NewEndpoint(verifier, &inbox, webhook.Place{Tenant: "acme", Source: "github"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	// What GitHub does, twice.
	body := `{"action":"opened"}`
	m := hmac.New(sha256.New, []byte("It's a Secret to Everybody"))
	m.Write([]byte(body))
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/hooks/github", strings.NewReader(body))
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
		r.Header.Set("X-GitHub-Delivery", "72d3162e")
		r.Header.Set("X-GitHub-Event", "issues")
		w := httptest.NewRecorder()
		endpoint.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}

	processor, err := webhook.NewProcessor(&inbox, func(ctx context.Context, e *webhook.Event) error {
		fmt.Println(e.Type, e.ID, e.Result("call").Provenance.Trust)
		return nil
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := processor.Drain(context.Background()); err != nil { // or Run, or job.Webhooks
		fmt.Println(err)
	}
	// Output:
	// 200
	// 200
	// issues 72d3162e untrusted
}
