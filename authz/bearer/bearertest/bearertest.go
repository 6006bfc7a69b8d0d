// Package bearertest is an authorization server for tests of servers that are
// guarded by package bearer: it signs tokens, serves its keys, answers about
// tokens, and fails when it is told to. It runs in memory, over
// [egresstest.Serve], so that a test can run in a bubble of testing/synctest.
//
//	as := bearertest.New(t)
//	v, err := bearer.NewJWT(as.Issuer, as.Keys(), bearer.OneTenant("acme"), &bearer.JWTOptions{Egress: as.Egress()})
//	token := as.Token(resource, "alice", "tickets.read")
//
// It is lax where a test wants wrong tokens, checks nobody, and is no place to
// start a real server from.
package bearertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

// Client and Secret are the credential that the introspection endpoint wants.
const (
	Client = "resource-server"
	Secret = "bearertest-secret-9d1f"
)

// Server is an authorization server. It is safe for concurrent use.
type Server struct {
	// Issuer is what tokens say unless a claim says otherwise:
	// "https://issuer.test". It may be changed before the first token.
	Issuer string

	t      testing.TB
	egress *egress.Options

	mu      sync.Mutex
	keys    []*Key // published
	signer  *Key
	opaque  map[string]map[string]any
	handler http.Handler // nil: the server's own
	keysets int
	asked   int
	hold    chan struct{}
	waiting chan struct{}
}

// A Key signs tokens.
type Key struct {
	ID, Algorithm string
	private       crypto.Signer
}

// New starts a server with one ES256 key until the end of the test. In a
// synctest bubble, call it inside of it.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{Issuer: "https://issuer.test", t: t, opaque: map[string]map[string]any{}, waiting: make(chan struct{}, 64)}
	_, s.egress = egresstest.Serve(t, http.HandlerFunc(s.serve))
	s.Rotate("ES256")
	return s
}

// Keys is the profile of the key set.
func (s *Server) Keys() egress.Profile { return profile("keys", "/keys") }

// Introspection is the profile of the introspection endpoint.
func (s *Server) Introspection() egress.Profile { return profile("introspection", "/introspect") }

func profile(name, path string) egress.Profile {
	return egress.Profile{Name: name, BaseURL: "http://127.0.0.1" + path, Plaintext: true,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// Egress is what reaches the server.
func (s *Server) Egress() *egress.Options { return s.egress }

// Make makes a key that is not published: RS256, PS256, ES256 or EdDSA.
func (s *Server) Make(algorithm string) *Key {
	s.t.Helper()
	k := &Key{ID: rand.Text(), Algorithm: algorithm}
	var err error
	switch algorithm {
	case "ES256":
		k.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "RS256", "PS256":
		k.private, err = rsa.GenerateKey(rand.Reader, 2048)
	case "EdDSA":
		_, k.private, err = ed25519.GenerateKey(rand.Reader)
	default:
		s.t.Fatalf("bearertest: no algorithm %q", algorithm)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

// KeyOf is a key that is made by the test, of an RSA, P-256 or Ed25519 key. It is
// not published.
func KeyOf(id, algorithm string, private crypto.Signer) *Key { return &Key{id, algorithm, private} }

// Rotate makes a key, publishes it beside the others, and signs with it from
// now on.
func (s *Server) Rotate(algorithm string) *Key {
	s.t.Helper()
	k := s.Make(algorithm)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.signer = append(s.keys, k), k
	return k
}

// Withdraw takes a key out of the key set.
func (s *Server) Withdraw(k *Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.keys {
		if s.keys[i] == k {
			s.keys = append(s.keys[:i:i], s.keys[i+1:]...)
			return
		}
	}
}

// Signer is the key that signs now.
func (s *Server) Signer() *Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signer
}

// Claims are those of a good token (RFC 9068) for five minutes.
func (s *Server) Claims(resource, subject string, scopes ...string) map[string]any {
	now := time.Now().Unix()
	return map[string]any{"iss": s.Issuer, "aud": resource, "sub": subject, "client_id": "client-1", "jti": rand.Text(),
		"iat": now, "exp": now + 300, "scope": strings.Join(scopes, " ")}
}

// Token returns a good token.
func (s *Server) Token(resource, subject string, scopes ...string) string {
	s.t.Helper()
	return s.Sign(s.Claims(resource, subject, scopes...), nil)
}

// Sign signs claims. header is added to alg, kid and typ, and replaces them; a
// nil value in it takes a member out.
func (s *Server) Sign(claims, header map[string]any) string {
	s.t.Helper()
	k := s.Signer()
	all := map[string]any{"alg": k.Algorithm, "kid": k.ID, "typ": "at+jwt"}
	for name, v := range header {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	return s.SignText(k, s.text(all), s.text(claims))
}

func (s *Server) text(v any) string {
	s.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// SignText signs any two texts with a key, whatever they say.
func (s *Server) SignText(k *Key, header, payload string) string {
	s.t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(header)) + "." + encode([]byte(payload))
	return input + "." + encode(s.sign(k, input))
}

func (s *Server) sign(k *Key, input string) []byte {
	s.t.Helper()
	sum := sha256.Sum256([]byte(input))
	var (
		out []byte
		err error
	)
	switch private := k.private.(type) {
	case *ecdsa.PrivateKey:
		var r, v *big.Int
		if r, v, err = ecdsa.Sign(rand.Reader, private, sum[:]); err == nil {
			out = append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...)
		}
	case *rsa.PrivateKey:
		if k.Algorithm == "PS256" {
			out, err = rsa.SignPSS(rand.Reader, private, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			out, err = rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, sum[:])
		}
	case ed25519.PrivateKey:
		out = ed25519.Sign(private, []byte(input))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// Opaque returns a token that only this server can read. Introspection answers
// with the claims, and with "active": true unless they say otherwise.
func (s *Server) Opaque(claims map[string]any) string {
	token := "opaque-" + rand.Text()
	s.Register(token, claims)
	return token
}

// Register makes a token known to introspection.
func (s *Server) Register(token string, claims map[string]any) {
	all := map[string]any{"active": true}
	for k, v := range claims {
		all[k] = v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opaque[token] = all
}

// Revoke makes a token inactive. What it says besides stays, as real servers
// do it.
func (s *Server) Revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.opaque[token]
	s.opaque[token] = map[string]any{"active": false, "exp": old["exp"]}
}

// Serve lets h answer for the whole server, until nil gives it back.
func (s *Server) Serve(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

// Fail makes every answer a status, until 0.
func (s *Server) Fail(status int) {
	if status == 0 {
		s.Serve(nil)
		return
	}
	s.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
}

// Hold keeps every request waiting from now on, until release is called.
// Waiting gets a value for each.
func (s *Server) Hold() (release func()) {
	ch := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = ch
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hold = nil
		close(ch)
	})
}

// Waiting gets a value for each request that [Server.Hold] keeps.
func (s *Server) Waiting() <-chan struct{} { return s.waiting }

// Fetches is how often the key set was asked for.
func (s *Server) Fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keysets
}

// Asked is how often introspection was asked.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	switch r.URL.Path {
	case "/keys":
		s.keysets++
	case "/introspect":
		s.asked++
	}
	hold, handler := s.hold, s.handler
	s.mu.Unlock()
	if hold != nil {
		s.waiting <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case handler != nil:
		handler.ServeHTTP(w, r)
	case r.URL.Path == "/keys" && r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/jwk-set+json")
		_, _ = w.Write(s.KeySet())
	case r.URL.Path == "/introspect" && r.Method == http.MethodPost:
		s.introspect(w, r)
	default:
		http.NotFound(w, r)
	}
}

// KeySet is the document with the published keys.
func (s *Server) KeySet() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, k := range s.keys {
		set.Keys = append(set.Keys, k.Public())
	}
	text, err := json.Marshal(set)
	if err != nil {
		s.t.Error(err)
	}
	return text
}

// Public is the key as it is published.
func (k *Key) Public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.ID, Algorithm: k.Algorithm, Use: "sig"}
}

func (s *Server) introspect(w http.ResponseWriter, r *http.Request) {
	if id, secret, ok := r.BasicAuth(); !ok || id != Client || secret != Secret {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	answer := s.opaque[r.PostFormValue("token")]
	text, err := json.Marshal(answer)
	s.mu.Unlock()
	switch {
	case err != nil:
		s.t.Error(err)
	case answer == nil:
		text = []byte(`{"active":false}`)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}
