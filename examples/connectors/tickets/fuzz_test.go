package tickets

import (
	"testing"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/rules"
)

// Whatever comes, a refusal is no success and a failure has a code.
func FuzzRules(f *testing.F) {
	for _, body := range []string{"", "null", "\"text\"", "[1]", "<html>", `{"errors":["Subject cannot be blank"]}`} {
		for _, status := range []int{200, 301, 400, 401, 403, 404, 410, 422, 429, 500, 504} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		v := provider.Classify(rules.Redmine, &provider.Response{Status: status, Body: []byte(body)})
		if v.OK && status/100 != 2 && status != 304 || !v.OK && v.Code == "" {
			t.Fatalf("%d %q: %+v", status, body, v)
		}
	})
}
