package connection

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// BeginRequest asks for an account, or for more of one.
type BeginRequest struct {
	Provider string // needed

	// Scopes are asked for beside Provider.Always and what the connection has.
	Scopes []string
	// Org is the organization that the account must belong to; "": any. That of
	// Connection goes before it.
	Org string
	// Connection is extended or consented to again; "": a new one.
	Connection string
	// ReturnTo is a path of the host, where the user goes afterwards; "": its
	// default.
	ReturnTo string
}

// Link is the host's own page for one transaction. It authorizes nobody: it
// works for the user it was made for, signed in.
type Link struct {
	ID      string
	URL     string
	Expires time.Time
}

// Begin makes a link for p. Nothing is sent to the provider.
func (m *Manager) Begin(ctx context.Context, p authz.Principal, req *BeginRequest) (Link, error) {
	if p.IsZero() {
		return Link{}, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known")
	}
	if req == nil || m.providers[req.Provider] == nil {
		return Link{}, toolresult.NewError(toolresult.InvalidInput, "there is no such provider")
	}
	prov := m.providers[req.Provider]
	switch {
	case prov.Grant != AuthorizationCode || m.opts.ConnectURL == nil:
		return Link{}, toolresult.NewError(toolresult.Unsupported, "accounts of this provider are not connected by users here")
	case !localPath(req.ReturnTo):
		return Link{}, toolresult.NewError(toolresult.InvalidInput, "ReturnTo must be a path of this host")
	}
	tx := Transaction{
		ID: rand.Text(), Owner: p.Key(), Provider: prov.Name, Issuer: prov.Issuer, TokenEndpoint: prov.Token.BaseURL,
		ClientID: prov.ClientID, RedirectURI: prov.RedirectURI, Resource: prov.Resource, Scopes: union(prov.Always, req.Scopes),
		Org: req.Org, ReturnTo: req.ReturnTo, Stage: Begun, Created: time.Now(), Expires: time.Now().Add(m.opts.LinkFor),
	}
	if err := m.extend(ctx, &tx, req.Connection); err != nil {
		return Link{}, err
	}
	if err := m.permitted(ctx, p, prov, tx.Scopes); err != nil {
		return Link{}, err
	}
	if _, err := m.store.AddTransaction(ctx, tx); err != nil {
		return Link{}, errStore(err)
	}
	return Link{ID: tx.ID, URL: m.opts.ConnectURL(tx.ID), Expires: tx.Expires}, nil
}

// extend binds a transaction to the connection that it is about, and refuses one
// at a provider that a leak has not been cleared up at.
func (m *Manager) extend(ctx context.Context, tx *Transaction, id string) error {
	leaked, err := m.leaking(ctx, tx.Owner, tx.Provider)
	if err != nil || leaked {
		return cmpErr(err, errHeld())
	}
	if id == "" {
		return nil
	}
	rec, err := m.store.Get(ctx, tx.Owner.Tenant, id)
	switch {
	case err != nil:
		return missing(err)
	case rec.Owner != tx.Owner || rec.Provider != tx.Provider || !rec.State.Usable() && rec.State != Reauthorize:
		return errNoAccount()
	}
	tx.Connection, tx.Generation, tx.Org = rec.ID, rec.Generation, rec.Org
	tx.Scopes = union(tx.Scopes, rec.Scopes)
	return nil
}

// permitted asks the administrator's limits.
func (m *Manager) permitted(ctx context.Context, p authz.Principal, prov *provider, scopes []string) error {
	e := toolresult.NewError(toolresult.PermissionDenied, "the administrator does not permit these scopes at this provider")
	if !subset(scopes, prov.Scopes) {
		return e
	}
	if m.opts.Permit != nil {
		if err := m.opts.Permit(ctx, p, prov.Name, slices.Clone(scopes)); err != nil {
			return toolresult.WrapError(toolresult.PermissionDenied, "the administrator does not permit these scopes at this provider", err)
		}
	}
	return nil
}

// localPath reports whether s is a path that no browser takes for another host.
func localPath(s string) bool {
	return s == "" || strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") && len(s) <= 2048 &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f })
}

// Pending is what a user is asked to consent to.
type Pending struct {
	Provider, Title string
	Scopes, New     []string // all, and those that the connection lacks so far
	Org             string   // that the account must belong to; "": any
	Connection      string   // that is extended; "" for a new one
	Stage           Stage
	Expires         time.Time
}

// Pending returns what a transaction of p is about, for the host's page. One of
// somebody else is answered like one that does not exist: NOT_FOUND.
func (m *Manager) Pending(ctx context.Context, p authz.Principal, id string) (Pending, error) {
	tx, err := m.mine(ctx, p, id)
	if err != nil {
		return Pending{}, err
	}
	out := Pending{Provider: tx.Provider, Title: tx.Provider, Scopes: tx.Scopes, New: tx.Scopes, Org: tx.Org, Connection: tx.Connection, Stage: tx.Stage, Expires: tx.Expires}
	if prov := m.providers[tx.Provider]; prov != nil {
		out.Title = prov.Title
	}
	if tx.Connection != "" {
		if rec, err := m.store.Get(ctx, tx.Owner.Tenant, tx.Connection); err == nil {
			out.New = lacking(tx.Scopes, rec.Scopes)
		}
	}
	return out, nil
}

func errNoLink() error {
	return toolresult.NewError(toolresult.NotFound, "this link is over, or was not made for you")
}

// mine returns a transaction of p.
func (m *Manager) mine(ctx context.Context, p authz.Principal, id string) (Transaction, error) {
	if p.IsZero() {
		return Transaction{}, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known")
	}
	tx, err := m.store.Transaction(ctx, p.Key().Tenant, id)
	switch {
	case errors.Is(err, toolresult.NotFound):
		return Transaction{}, errNoLink()
	case err != nil:
		return Transaction{}, errStore(err)
	case tx.Owner != p.Key():
		return Transaction{}, errNoLink()
	}
	return tx, nil
}

// Departure is where the user's browser goes, and what it must bring back.
type Departure struct {
	URL string // the provider's authorization endpoint

	// Browser is a secret for a cookie of this browser alone (__Host-, HttpOnly,
	// Secure, SameSite=Lax), to be given to Callback. Expires is when it is
	// useless.
	Browser string
	Expires time.Time
}

// Open starts a transaction in the browser of p, who has agreed on the host's
// page. Opening it again makes the earlier departure useless.
func (m *Manager) Open(ctx context.Context, p authz.Principal, id string) (Departure, error) {
	tx, err := m.mine(ctx, p, id)
	if err != nil {
		return Departure{}, err
	}
	prov := m.providers[tx.Provider]
	now := time.Now()
	switch {
	case tx.Stage != Begun && tx.Stage != Opened, !now.Before(tx.Expires):
		return Departure{}, errNoLink()
	case !m.still(prov, &tx):
		return Departure{}, errNoLink()
	}
	if err := m.current(ctx, &tx); err != nil {
		return Departure{}, err
	}
	if err := m.permitted(ctx, p, prov, tx.Scopes); err != nil {
		return Departure{}, err
	}
	verifier, state, browser := oauth2.GenerateVerifier(), rand.Text(), rand.Text()
	sealed, err := m.seal(tx.Owner.Tenant, tx.ID, fieldVerifier, token.NewSecret(verifier))
	if err != nil {
		return Departure{}, errSealed(err)
	}
	tx.Stage, tx.State, tx.Browser, tx.Verifier, tx.Expires = Opened, sha256.Sum256([]byte(state)), sha256.Sum256([]byte(browser)), sealed, now.Add(stateFor)
	if tx, err = m.store.SwapTransaction(ctx, tx); errors.Is(err, ErrVersion) {
		return Departure{}, errNoLink()
	} else if err != nil {
		return Departure{}, errStore(err)
	}
	return Departure{URL: authorizationURL(prov, &tx, state, verifier), Browser: browser, Expires: tx.Expires}, nil
}

// still reports whether the profile says what it said when tx began.
func (m *Manager) still(prov *provider, tx *Transaction) bool {
	return prov != nil && prov.Grant == AuthorizationCode && prov.fixes(tx.Issuer, tx.TokenEndpoint, tx.ClientID, tx.Resource) && prov.RedirectURI == tx.RedirectURI
}

// current checks that the connection is the one that tx is about.
func (m *Manager) current(ctx context.Context, tx *Transaction) error {
	var again Transaction
	again.Owner, again.Provider = tx.Owner, tx.Provider
	if err := m.extend(ctx, &again, tx.Connection); err != nil {
		return err
	}
	if tx.Connection != "" && again.Generation != tx.Generation {
		return errNoLink()
	}
	return nil
}

// authorizationURL builds the address (RFC 6749 section 4.1.1, RFC 7636, RFC
// 8707). The endpoint's own query is kept.
func authorizationURL(prov *provider, tx *Transaction, state, verifier string) string {
	q := url.Values{}
	for k, v := range prov.Params {
		q.Set(k, v)
	}
	q.Set("response_type", "code")
	q.Set("client_id", tx.ClientID)
	q.Set("redirect_uri", tx.RedirectURI)
	q.Set("state", tx.ID+"."+state)
	q.Set("code_challenge", oauth2.S256ChallengeFromVerifier(verifier))
	q.Set("code_challenge_method", "S256")
	if len(tx.Scopes) > 0 {
		q.Set("scope", prov.scopeText(tx.Scopes))
	}
	if tx.Resource != "" {
		q.Set("resource", tx.Resource)
	}
	sep := "?"
	if strings.Contains(prov.AuthorizationEndpoint, "?") {
		sep = "&"
	}
	return prov.AuthorizationEndpoint + sep + q.Encode()
}

// Outcome is what came of a transaction.
type Outcome struct {
	Connection Connection
	ReturnTo   string
}

// The words of Transaction.Failure.
const (
	failedIssuer   = "issuer"          // another issuer answered, or none said which it is
	failedDenied   = "denied"          // the user or the provider said no
	failedAnswer   = "answer"          // an error, no code, or two
	failedProfile  = "profile_changed" // the profile is not the one that it began with
	failedRefused  = "exchange_refused"
	failedUnknown  = "exchange_unknown" // the answer to the exchange was lost
	failedConfirm  = "not_confirmed"    // the provider did not say whose account it is
	failedOrg      = "wrong_org"
	failedAccount  = "wrong_account"
	failedOver     = "connection_changed" // the connection was disconnected or consented to meanwhile
	failedInternal = "not_stored"
)

// errFlow says what a failed transaction means for the user.
func errFlow(word string) *toolresult.Error {
	switch word {
	case failedIssuer:
		return toolresult.NewError(toolresult.PermissionDenied, "the answer does not come from the provider that was asked: nothing was connected")
	case failedDenied:
		return toolresult.NewError(toolresult.PermissionDenied, "consent was not given: nothing was changed")
	case failedOrg:
		return toolresult.NewError(toolresult.PermissionDenied, "the account belongs to another organization than the one that was asked for: nothing was connected")
	case failedAccount:
		return toolresult.NewError(toolresult.PermissionDenied, "this is another account than the one that was to be extended: nothing was changed")
	case failedConfirm:
		return toolresult.NewError(toolresult.ProviderError, "the provider did not say whose account it is: nothing was connected")
	case failedOver:
		return toolresult.NewError(toolresult.Conflict, "the connection was changed meanwhile: start again")
	case failedUnknown:
		return toolresult.NewError(toolresult.ProviderUnavailable, "the provider's answer was lost: start again")
	case failedInternal:
		return toolresult.NewError(toolresult.ProviderUnavailable, "the connection could not be stored: start again")
	}
	return toolresult.NewError(toolresult.ProviderError, "the provider did not connect the account: start again")
}

// Callback acts on the provider's answer to a departure: p is who is signed in,
// browser the secret of the departure's cookie, and q the query of the request.
// It sends the code once, whatever becomes of it, and goes on when ctx ends. A
// second call with the same answer returns what came of the first.
//
// Answers of other users, other browsers and other tenants are NOT_FOUND, and
// nothing is sent.
func (m *Manager) Callback(ctx context.Context, p authz.Principal, browser string, q url.Values) (Outcome, error) {
	id, state, ok := strings.Cut(single(q, "state"), ".")
	if !ok || browser == "" {
		return Outcome{}, errNoLink()
	}
	tx, err := m.mine(ctx, p, id)
	switch {
	case err != nil:
		return Outcome{}, err
	case !same(tx.State, state), !same(tx.Browser, browser):
		return Outcome{}, errNoLink()
	case tx.Stage == Done || tx.Stage == Failed:
		return m.first(ctx, &tx)
	case tx.Stage == Taken && !time.Now().Before(tx.Expires):
		return Outcome{}, errFlow(failedUnknown) // whoever took it is gone
	case tx.Stage == Taken:
		return Outcome{}, toolresult.NewError(toolresult.Conflict, "the answer is being acted on")
	case tx.Stage != Opened || !time.Now().Before(tx.Expires):
		return Outcome{}, errNoLink()
	}
	tx.Stage = Taken
	if tx, err = m.store.SwapTransaction(ctx, tx); errors.Is(err, ErrVersion) {
		return Outcome{}, toolresult.NewError(toolresult.Conflict, "the answer is being acted on")
	} else if err != nil {
		return Outcome{}, errStore(err)
	}
	ctx = context.WithoutCancel(ctx) // the code works once
	rec, word := m.act(ctx, &tx, q)
	return m.close(ctx, tx, rec, word)
}

// single returns a parameter that stands once, and "" otherwise.
func single(q url.Values, name string) string {
	if v := q[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

func same(hash [32]byte, secret string) bool {
	got := sha256.Sum256([]byte(secret))
	return secret != "" && subtle.ConstantTimeCompare(hash[:], got[:]) == 1
}

// first returns what came of a transaction that is over.
func (m *Manager) first(ctx context.Context, tx *Transaction) (Outcome, error) {
	if tx.Stage == Failed {
		return Outcome{}, errFlow(tx.Failure)
	}
	rec, err := m.store.Get(ctx, tx.Owner.Tenant, tx.Connection)
	if err != nil {
		return Outcome{}, missing(err)
	}
	return Outcome{rec.Connection, tx.ReturnTo}, nil
}

// close notes what came of a transaction.
func (m *Manager) close(ctx context.Context, tx Transaction, rec Record, word string) (Outcome, error) {
	tx.Stage, tx.Verifier = Done, nil
	if word != "" {
		tx.Stage, tx.Failure = Failed, word
	} else {
		tx.Connection, tx.Generation = rec.ID, rec.Generation
	}
	if _, err := m.store.SwapTransaction(ctx, tx); err != nil {
		m.log.WarnContext(ctx, "what came of a transaction could not be noted", "tenant", tx.Owner.Tenant, "provider", tx.Provider)
	}
	if word != "" {
		m.log.InfoContext(ctx, "an account was not connected", "tenant", tx.Owner.Tenant, "provider", tx.Provider, "reason", word)
		return Outcome{}, errFlow(word)
	}
	return Outcome{rec.Connection, tx.ReturnTo}, nil
}

// act judges the answer of a transaction that was taken, and connects the
// account. The issuer comes first: an error of somebody else's is nothing to act
// on.
func (m *Manager) act(ctx context.Context, tx *Transaction, q url.Values) (Record, string) {
	prov := m.providers[tx.Provider]
	switch {
	case !m.still(prov, tx):
		return Record{}, failedProfile
	case !prov.issued(q):
		return Record{}, failedIssuer
	case single(q, "error") == "access_denied":
		return Record{}, failedDenied
	case q.Has("error"):
		return Record{}, failedAnswer
	}
	code := single(q, "code")
	if code == "" {
		return Record{}, failedAnswer
	}
	verifier, err := m.unseal(tx.Owner.Tenant, tx.ID, fieldVerifier, tx.Verifier)
	if err != nil || verifier.IsZero() {
		return Record{}, failedInternal
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {tx.RedirectURI}, "code_verifier": {verifier.Reveal()}}
	if tx.Resource != "" {
		form.Set("resource", tx.Resource)
	}
	a, err := prov.token.Post(ctx, form)
	if err != nil {
		return Record{}, m.exchangeFailed(ctx, tx, err)
	}
	return m.connect(ctx, prov, tx, a)
}

// issued applies the table of MCP and RFC 9207: an issuer that is named must be
// the one that was asked, byte for byte, and one that says it names itself must.
func (p *provider) issued(q url.Values) bool {
	iss, named := q["iss"]
	if !named {
		return !p.SendsIssuer
	}
	return len(iss) == 1 && (iss[0] == p.Issuer || slices.Contains(p.IssuerAliases, iss[0]))
}

func (m *Manager) exchangeFailed(ctx context.Context, tx *Transaction, err error) string {
	m.log.WarnContext(ctx, "a code could not be exchanged", "tenant", tx.Owner.Tenant, "provider", tx.Provider, "failure", err.Error())
	var f *token.Failure
	if errors.As(err, &f) && f.Kind == token.Unknown {
		return failedUnknown
	}
	return failedRefused
}
