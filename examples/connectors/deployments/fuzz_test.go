package deployments

import (
	"strconv"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
)

// Whatever comes, a refusal is no success and a failure has a code.
func FuzzRules(f *testing.F) {
	for _, body := range []string{"", "null", "\"text\"", "[1]", "<html>", `{"message":"m","documentation_url":"rate-limit"}`} {
		for _, status := range []int{200, 301, 400, 401, 403, 404, 410, 422, 429, 500, 504} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		v := provider.Classify(rules, &provider.Response{Status: status, Body: []byte(body)})
		if v.OK && status/100 != 2 && status != 304 || !v.OK && v.Code == "" {
			t.Fatalf("%d %q: %+v", status, body, v)
		}
	})
}

// A link leads on or is refused; it never leads back or elsewhere.
func FuzzNextPage(f *testing.F) {
	for _, link := range []string{"", "/repos/a/b/deployments?page=2", "https://elsewhere.example.test/x?page=2", "?page=9", "//x/?page=3", "http://github.test@x/?page=3", ":"} {
		f.Add(link, "1")
	}
	f.Fuzz(func(t *testing.T, link, current string) {
		next, err := nextPage(link, "http://github.test", current)
		if err != nil {
			return
		}
		token, more := next.Token()
		n, bad := strconv.Atoi(token)
		now, _ := strconv.Atoi(current)
		if more == (link == "") || more && (bad != nil || n <= now) {
			t.Fatalf("%q after %q: %q", link, current, token)
		}
	})
}
