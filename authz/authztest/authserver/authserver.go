// Package authserver is an authorization server for tests of what connects
// accounts: codes with PKCE, refresh tokens that work once, revocation,
// introspection, client credentials, assertions and token exchange. It is as
// strict as the standards let a server be, counts what it is asked, and fails
// where a test tells it to: before it has acted, or after.
//
//	as := authserver.New(nil)
//	as.AddClient(authserver.Client{ID: "host", Secret: "s", Redirects: []string{"https://host.test/callback"}})
//	profile, opts := egresstest.Serve(t, as)
//	answer := as.Consent(departure, authserver.User{ID: "alice", Org: "acme"}, nil)
//
// A Server is an [http.Handler] and imports no testing package: serve it over
// pipes with egresstest, over httptest, or from a program of its own. It keeps
// everything in memory, shows nobody a page, and is no place to start a real
// server from.
//
// What passes here proves what we believe about such servers. A test must pass
// against somebody else's too.
package authserver

import (
	"crypto"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// User is who signs in at the server.
type User struct{ ID, Org string }

// Client is a registered client. One without a Secret and a Key is public.
type Client struct {
	ID, Secret string
	Post       bool             // the secret goes into the body; else HTTP Basic
	Key        crypto.PublicKey // of client assertions and of assertions as a grant
	Redirects  []string         // compared byte for byte
}

// Naming is how an authorization response names the issuer (RFC 9207).
type Naming uint8

// The ways.
const (
	Right  Naming = iota // as it is
	Absent               // not at all
	Wrong                // somebody else
)

// Rotation is what happens to a refresh token that was used.
type Rotation uint8

// The rotations.
const (
	Strict Rotation = iota // used again, it ends the whole grant (RFC 9700 section 4.14.2)
	Grace                  // it works until the new one is used
	Never                  // it stays
)

// Options are options of New. Zero fields take the values in the comments.
type Options struct {
	Issuer    string        // "https://as.test"
	AccessFor time.Duration // of access tokens; 1 h
	CodeFor   time.Duration // of codes; 1 min
	Naming    Naming
	Rotation  Rotation
	// EndsAccess ends the old access token when the refresh token is used.
	EndsAccess bool
	// NoRefresh gives no refresh tokens.
	NoRefresh bool
	// Resources are those that tokens are issued for (RFC 8707); nil: any.
	Resources []string
}

// Server is an authorization server. It is safe for concurrent use.
type Server struct {
	opts Options

	mu       sync.Mutex
	clients  map[string]Client
	codes    map[string]*code
	refresh  map[string]*refresh
	access   map[string]*Token
	grants   map[string]bool // ended
	subjects map[string]User
	faults   []*Fault
	counts   map[string]int
	jtis     map[string]bool
}

// Token is an access token as the server knows it.
type Token struct {
	User     User
	Client   string
	Scopes   []string
	Resource string
	Expires  time.Time
	grant    string
	ended    bool
}

type code struct {
	Token
	redirect, challenge string
	used                bool
	expires             time.Time
}

type refresh struct {
	Token
	used     bool
	previous string // the one that it replaced, for Grace
}

// New returns a server without clients. opts may be nil.
func New(opts *Options) *Server {
	s := &Server{clients: map[string]Client{}, codes: map[string]*code{}, refresh: map[string]*refresh{}, access: map[string]*Token{},
		grants: map[string]bool{}, subjects: map[string]User{}, counts: map[string]int{}, jtis: map[string]bool{}}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Issuer == "" {
		s.opts.Issuer = "https://as.test"
	}
	if s.opts.AccessFor == 0 {
		s.opts.AccessFor = time.Hour
	}
	if s.opts.CodeFor == 0 {
		s.opts.CodeFor = time.Minute
	}
	return s
}

// Issuer is what the server calls itself.
func (s *Server) Issuer() string { return s.opts.Issuer }

// Set changes the options of a server that runs.
func (s *Server) Set(change func(*Options)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.opts)
}

// AddClient registers a client, or replaces it.
func (s *Server) AddClient(c Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c.ID] = c
}

// AddSubject makes a token of somebody else's good for an exchange (RFC 8693).
func (s *Server) AddSubject(token string, u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subjects[token] = u
}

// Counts returns how often something was asked for, by "token", "revoke",
// "introspect", "userinfo", and "token refresh_token" and so on by grant; and
// what came of it: "issued refresh_token" and so on, "error invalid_grant" and so
// on, "reuse".
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Count returns one of Counts.
func (s *Server) Count(what string) int { return s.Counts()[what] }

// Active returns what an access token is good for now.
func (s *Server) Active(token string) (Token, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.access[token]
	if t == nil || !s.good(t) {
		return Token{}, false
	}
	return *t, true
}

func (s *Server) good(t *Token) bool {
	return !t.ended && !s.grants[t.grant] && time.Now().Before(t.Expires)
}

// Bearer returns what the access token of a request is good for.
func (s *Server) Bearer(r *http.Request) (Token, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return Token{}, false
	}
	return s.Active(token)
}

// Live counts the access and refresh tokens of a user that are good now.
func (s *Server) Live(user string) (access, refresh int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.access {
		if t.User.ID == user && s.good(t) {
			access++
		}
	}
	for _, r := range s.refresh {
		if r.User.ID == user && !r.used && !s.grants[r.grant] {
			refresh++
		}
	}
	return access, refresh
}

// End ends everything that a user consented to, as the user would at the
// provider.
func (s *Server) End(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refresh {
		if r.User.ID == user {
			s.grants[r.grant] = true
		}
	}
	for _, t := range s.access {
		if t.User.ID == user {
			t.ended = true
		}
	}
}

// EndAccess ends the access tokens of a user, and leaves the refresh tokens.
func (s *Server) EndAccess(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.access {
		if t.User.ID == user {
			t.ended = true
		}
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		s.write(w, http.StatusOK, s.metadata())
	case "/authorize":
		s.authorize(w, r)
	case "/token":
		s.serve(w, r, "token", s.token)
	case "/revoke":
		s.serve(w, r, "revoke", s.revoke)
	case "/introspect":
		s.serve(w, r, "introspect", s.introspect)
	case "/userinfo":
		s.serve(w, r, "userinfo", s.userinfo)
	default:
		http.NotFound(w, r)
	}
}

// metadata is the document of RFC 8414.
func (s *Server) metadata() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := strings.TrimSuffix(s.opts.Issuer, "/")
	return map[string]any{
		"issuer": s.opts.Issuer, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token",
		"revocation_endpoint": at + "/revoke", "introspection_endpoint": at + "/introspect",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": s.opts.Naming != Absent,
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", "client_credentials", grantJWT, grantExchange},
	}
}

func (s *Server) write(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// userinfo says whose token it is.
func (s *Server) userinfo(r *http.Request) (int, map[string]any) {
	t, ok := s.Bearer(r)
	if !ok {
		return http.StatusUnauthorized, map[string]any{"error": "invalid_token"}
	}
	return http.StatusOK, map[string]any{"sub": t.User.ID, "org": t.User.Org}
}

// introspect answers about an access token (RFC 7662), to a client.
func (s *Server) introspect(r *http.Request) (int, map[string]any) {
	if _, ok := s.client(r); !ok {
		return s.fail("invalid_client")
	}
	t, ok := s.Active(r.PostForm.Get("token"))
	if !ok {
		return http.StatusOK, map[string]any{"active": false}
	}
	out := map[string]any{"active": true, "iss": s.opts.Issuer, "sub": t.User.ID, "client_id": t.Client, "scope": strings.Join(t.Scopes, " "), "exp": t.Expires.Unix()}
	if t.Resource != "" {
		out["aud"] = t.Resource
	}
	return http.StatusOK, out
}

// revoke ends the grant of a refresh token, or one access token (RFC 7009). It
// says nothing about tokens that it does not know, or that are another client's.
func (s *Server) revoke(r *http.Request) (int, map[string]any) {
	c, ok := s.client(r)
	if !ok {
		return s.fail("invalid_client")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token := r.PostForm.Get("token")
	if t := s.refresh[token]; t != nil && t.Client == c.ID {
		s.grants[t.grant] = true
		s.counts["revoked refresh_token"]++
	} else if t := s.access[token]; t != nil && t.Client == c.ID {
		t.ended = true
		s.counts["revoked access_token"]++
	}
	return http.StatusOK, nil
}

func (s *Server) fail(codeword string) (int, map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts["error "+codeword]++
	status := http.StatusBadRequest
	if codeword == "invalid_client" {
		status = http.StatusUnauthorized
	}
	return status, map[string]any{"error": codeword}
}

func newToken(kind string) string { return kind + "-" + rand.Text() }

func within(part, whole []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(whole, s) })
}
