package world

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"golang.org/x/oauth2"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
)

// Token signs a person in at the authorization server of the first hop, as an
// agent's runtime would with a browser, and returns an access token for the
// resource.
func (w *World) Token(person, resource string) (string, error) {
	verifier, state := oauth2.GenerateVerifier(), rand.Text()
	c := &oauth2.Config{ClientID: Agent, RedirectURL: AgentReturn, Scopes: []string{"tools"}, Endpoint: oauth2.Endpoint{AuthURL: w.IdentityURL + "/authorize"}}
	back, err := w.Identity.Consent(c.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", resource)), authserver.User{ID: person}, nil)
	if err != nil {
		return "", err
	}
	if back.Get("state") != state || back.Get("code") == "" {
		return "", fmt.Errorf("world: %s could not sign in: %q", person, back.Get("error"))
	}
	resp, err := http.PostForm(w.IdentityURL+"/token", url.Values{"grant_type": {"authorization_code"}, "code": {back.Get("code")},
		"redirect_uri": {AgentReturn}, "code_verifier": {verifier}, "client_id": {Agent}, "resource": {resource}})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct {
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Access == "" {
		return "", fmt.Errorf("world: no token for %s: status %s, %v", person, resp.Status, err)
	}
	return out.Access, nil
}

// Consent is what the browser of a person brings back from the provider.
func (w *World) Consent(person, departure string) (url.Values, error) {
	return w.Desk.Consent(departure, authserver.User{ID: person, Org: "desk"}, nil)
}
