package bearer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// A server that is guarded, and what a client without a token is told.
func Example() {
	keys := egress.Profile{Name: "id-keys", BaseURL: "https://id.example.com/keys"}
	issuer, err := bearer.NewJWT("https://id.example.com", keys, bearer.TenantClaim("/tenant"), nil)
	if err != nil {
		panic(err)
	}
	b, err := bearer.New("https://mcp.example.com/mcp", []*bearer.Verifier{issuer}, &bearer.Options{
		Scopes: []string{"mcp"},
		ToolScopes: func(_ context.Context, _ authz.Principal, tool string) []string {
			return map[string][]string{"tickets.create": {"tickets.write"}}[tool]
		},
		Implies: map[string][]string{"tickets.write": {"tickets.read"}},
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle(b.MetadataPath(), b.Metadata())
	mux.Handle("/mcp", b.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := bearer.PrincipalFrom(r.Context())
		fmt.Fprintln(w, "hello", who)
	})))

	rw := httptest.NewRecorder()
	mux.ServeHTTP(rw, httptest.NewRequest("POST", "https://mcp.example.com/mcp", nil))
	fmt.Println(rw.Code, rw.Header().Get("WWW-Authenticate"))
	rw = httptest.NewRecorder()
	mux.ServeHTTP(rw, httptest.NewRequest("GET", b.MetadataURL(), nil))
	fmt.Print(rw.Body)
	// Output:
	// 401 Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp", scope="mcp"
	// {"resource":"https://mcp.example.com/mcp","authorization_servers":["https://id.example.com"],"scopes_supported":["mcp"],"bearer_methods_supported":["header"]}
}

// What cannot be safe is refused when it is configured.
func ExampleNewJWT() {
	keys := egress.Profile{Name: "id-keys", BaseURL: "https://id.example.com/keys"}
	_, err := bearer.NewJWT("https://id.example.com", keys, bearer.OneTenant("acme"), &bearer.JWTOptions{Algorithms: []string{"HS256"}})
	fmt.Println(err)
	// Output:
	// bearer: NewJWT: issuer "https://id.example.com": the algorithm "HS256" is not accepted; want RS, PS or ES with 256, 384 or 512, or EdDSA
}

// An issuer that is asked about its tokens.
func ExampleNewIntrospection() {
	endpoint := egress.Profile{Name: "id-introspection", BaseURL: "https://id.example.com/introspect"}
	client := bearer.ClientSecret("mcp-server", func(context.Context) ([]byte, error) { return []byte("from a vault"), nil })
	issuer, err := bearer.NewIntrospection("https://id.example.com", endpoint, client, bearer.OneTenant("acme"), nil)
	fmt.Println(issuer.Issuer(), err)
	// Output:
	// https://id.example.com <nil>
}

// A request with a token, through the whole handler.
func BenchmarkHandler(b *testing.B) {
	for _, alg := range []string{"ES256", "RS256", "EdDSA", "introspection, remembered"} {
		b.Run(alg, func(b *testing.B) {
			w := newWorld(b, scoped, func(s *setup) {
				s.opts.Cached = func(string) bool { return true }
				if len(alg) > 5 {
					s.ask = &bearer.IntrospectionOptions{}
				}
			})
			var token string
			if len(alg) > 5 {
				token = w.as.Opaque(w.as.Claims(resource, "alice", "mcp", "tickets.read"))
			} else {
				w.as.Rotate(alg)
				token = w.as.Token(resource, "alice", "mcp", "tickets.read")
			}
			h := w.b.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			r := withToken(token)
			modern("tools/call", "tickets.get")(r)
			b.ReportAllocs()
			for b.Loop() {
				rw := httptest.NewRecorder()
				h.ServeHTTP(rw, r)
				if rw.Code != 200 {
					b.Fatal(rw.Code, rw.Body)
				}
			}
		})
	}
}
