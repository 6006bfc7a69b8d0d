package authserver

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Consents say what a user does on the server's page.
type Consents struct {
	Deny   bool     // says no
	Scopes []string // allows these of those asked for; nil: all
}

// Consent is what the browser of a user brings back to the redirect URI from an
// authorization URL. It is an error when the server would show a page of its own:
// the client or the redirect URI is not one that it knows.
func (s *Server) Consent(authorizationURL string, u User, c *Consents) (url.Values, error) {
	at, err := url.Parse(authorizationURL)
	if err != nil {
		return nil, err
	}
	_, q, err := s.consent(at.Query(), u, c)
	return q, err
}

// authorize is the endpoint for a browser. The user is that of the parameters
// test_user and test_org, in place of a page to sign in on.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	redirect, back, err := s.consent(q, User{q.Get("test_user"), q.Get("test_org")}, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sep := "?"
	if strings.Contains(redirect, "?") {
		sep = "&"
	}
	http.Redirect(w, r, redirect+sep+back.Encode(), http.StatusFound)
}

func (s *Server) consent(q url.Values, u User, c *Consents) (redirect string, back url.Values, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts["authorize"]++
	client, ok := s.clients[q.Get("client_id")]
	redirect = q.Get("redirect_uri")
	if !ok || !slices.Contains(client.Redirects, redirect) || u.ID == "" {
		return "", nil, errors.New("authserver: unknown client, redirect URI or user")
	}
	back = url.Values{"state": {q.Get("state")}}
	switch s.opts.Naming {
	case Right:
		back.Set("iss", s.opts.Issuer)
	case Wrong:
		back.Set("iss", "https://attacker.test")
	}
	scopes := strings.Fields(q.Get("scope"))
	if c != nil && c.Scopes != nil {
		scopes = slices.DeleteFunc(scopes, func(x string) bool { return !slices.Contains(c.Scopes, x) })
	}
	word := ""
	switch {
	case q.Get("response_type") != "code":
		word = "unsupported_response_type"
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		word = "invalid_request"
	case !s.serves(q["resource"]):
		word = "invalid_target"
	case c != nil && c.Deny:
		word = "access_denied"
	}
	if word != "" {
		back.Set("error", word)
		return redirect, back, nil
	}
	id := newToken("code")
	s.codes[id] = &code{Token: Token{User: u, Client: client.ID, Scopes: scopes, Resource: q.Get("resource"), grant: newToken("grant")},
		redirect: redirect, challenge: q.Get("code_challenge"), expires: time.Now().Add(s.opts.CodeFor)}
	back.Set("code", id)
	return redirect, back, nil
}

// serves reports whether tokens are issued for what was asked.
func (s *Server) serves(resources []string) bool {
	return len(resources) <= 1 && (s.opts.Resources == nil || len(resources) == 1 && slices.Contains(s.opts.Resources, resources[0]))
}
