package paging

import (
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Tokens is for a provider whose answer holds a token for the next page.
type Tokens struct {
	// Opaque says that a token may come back and mean another page, as in MCP,
	// where a server may say "continue" each time. Only the number of pages ends
	// such a listing.
	Opaque bool
}

// TokenPage is a page of [Tokens].
type TokenPage struct {
	// Token is the provider's. It may be empty, and is not there on the first page.
	Token string
	Later bool

	style Tokens
	trail trail
}

// Open reads where a page is. A position of another kind is CURSOR_INVALID.
func (s Tokens) Open(from cursor.Position) (*TokenPage, error) {
	token, t, err := place(from)
	if err != nil {
		return nil, err
	}
	return &TokenPage{token, t.pages > 0, s, t}, nil
}

// Close says what comes after a page with the items of these ids, in their order.
// more says whether the provider gave a token: null and no field are none. If a
// provider means the end by an empty one, more is false; for MCP an empty token is
// a token. ids may be nil if items have none: pages that come back are then found
// by their tokens alone.
func (p *TokenPage) Close(ids []string, more bool, token string) (Turn, error) {
	turn := Turn{Keep: len(ids), Next: cursor.End()}
	if !more {
		return turn, nil
	}
	if p.Later && !p.style.Opaque && token == p.Token {
		return Turn{}, stalled("the next page is this one")
	}
	var err error
	turn.Next, err = p.trail.step(token, ids, !p.style.Opaque)
	return turn, err
}

// Links is for a provider that says where the next page is: in a Link header
// (connector.Meta.Next) or as a URL in the answer. The URL is never followed as it
// is. It has to lead to the same origin and path as the page before, and nothing
// but the parameters of Place may differ.
type Links struct {
	// Place names the query parameters that say which page it is: "page",
	// "cursor", "$skiptoken". At least one.
	Place []string

	// Numbered says that the place is a number of a page or of items, so that
	// what is added or removed in between moves items to other pages: every page
	// but the first then says [Drift].
	Numbered bool
}

// LinkPage is a page of [Links].
type LinkPage struct {
	// Params are the parameters of Place for this page; nil on the first.
	Params map[string]string

	style Links
	trail trail
	token string
}

// Open reads where a page is. A position of another kind is CURSOR_INVALID.
func (s Links) Open(from cursor.Position) (*LinkPage, error) {
	token, t, err := place(from)
	if err != nil {
		return nil, err
	}
	p := &LinkPage{style: s, trail: t, token: token}
	if t.pages == 0 {
		return p, nil
	}
	q, err := url.ParseQuery(token)
	if err != nil || len(q) == 0 {
		return nil, lost()
	}
	p.Params = map[string]string{}
	for name, v := range q {
		if !slices.Contains(s.Place, name) || len(v) != 1 {
			return nil, lost()
		}
		p.Params[name] = v[0]
	}
	p.trail.drift = s.Numbered
	return p, nil
}

// Close says what comes after a page. request is the address that was asked, with
// its query; next is where the provider says that the next page is, absolute or
// relative to it; "" is the end. ids as in [TokenPage.Close].
func (p *LinkPage) Close(ids []string, request, next string) (Turn, error) {
	turn := Turn{Keep: len(ids), Next: cursor.End(), Missing: p.trail.missing()}
	if next == "" {
		return turn, nil
	}
	token, err := p.style.place(request, next)
	if err != nil {
		return Turn{}, err
	}
	if token == p.token {
		return Turn{}, stalled("the next page is this one")
	}
	turn.Next, err = p.trail.step(token, ids, true)
	return turn, err
}

// place takes what says where the page is out of a link.
func (s Links) place(request, next string) (string, error) {
	elsewhere := toolresult.NewError(toolresult.ProviderError, "the provider's link to the next page leads elsewhere")
	base, err := url.Parse(request)
	if err != nil || base.Host == "" || base.User != nil {
		return "", toolresult.NewError(toolresult.ContractViolation, "the address of a request is absolute")
	}
	// A browser reads \ as /, and some servers drop control characters.
	if strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }) {
		return "", elsewhere
	}
	there, err := base.Parse(next)
	if err != nil || there.User != nil || origin(there) != origin(base) || there.EscapedPath() != base.EscapedPath() {
		return "", elsewhere
	}
	before, err := url.ParseQuery(base.RawQuery)
	after, err2 := url.ParseQuery(there.RawQuery)
	if err != nil || err2 != nil {
		return "", elsewhere
	}
	token := url.Values{}
	for name, v := range after {
		switch {
		case slices.Contains(s.Place, name) && len(v) == 1:
			token[name] = v
		case !slices.Equal(v, before[name]):
			return "", elsewhere
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok && !slices.Contains(s.Place, name) {
			return "", elsewhere // a filter that is dropped widens the listing
		}
	}
	if len(token) == 0 {
		return "", elsewhere
	}
	return token.Encode(), nil
}

// origin is the scheme, the host in lower case and the port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
