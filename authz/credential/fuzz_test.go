package credential_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
)

// A key either is refused or reaches the header as one field, byte for byte.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"abc", "a\r\nb", "\n", " ", "é", "\x7f", ""} {
		f.Add([]byte(s))
	}
	alice, _ := authztest.Principal(f, "acme", "alice")
	f.Fuzz(func(t *testing.T, key []byte) {
		s, err := credential.NewStatic("acme", origin, func(context.Context) ([]byte, error) { return key, nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Resolve(t.Context(), ask(alice))
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodGet, origin, nil)
		if s.Apply(t.Context(), r.Handle, full, req) != nil {
			if len(req.Header) != 0 {
				t.Fatal("a refused request was changed")
			}
			return
		}
		if got := req.Header.Get("Authorization"); got != "Bearer "+string(key) || len(req.Header) != 1 {
			t.Fatalf("%q", req.Header)
		}
	})
}
