package credential

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Placement says where on a request a key goes, and to which one origin. It is
// for brokers, is immutable and holds no key. The zero Placement refuses every
// request.
type Placement struct{ origin, header, prefix, query string }

// PlacementOptions are options of [NewPlacement]. The zero value is a bearer
// token: "Authorization: Bearer <key>" (RFC 6750 section 2.1).
type PlacementOptions struct {
	// Header is the header that carries the key, such as "X-Redmine-API-Key",
	// and Prefix what stands before it, such as "Token ".
	Header, Prefix string

	// Query is the parameter that carries the key, for providers that take it
	// nowhere else: servers and proxies write URLs into their logs. Not with
	// Header or Prefix.
	Query string
}

// NewPlacement checks the origin ("https://api.example.com"; the port may be left
// out) and where the key goes. It refuses an origin with anything but scheme,
// host and port, and a header that is no field name (RFC 9110 section 5.1) or
// that frames the message. opts may be nil.
func NewPlacement(origin string, opts *PlacementOptions) (Placement, error) {
	var o PlacementOptions
	if opts != nil {
		o = *opts
	}
	canonical, err := parseOrigin(origin)
	switch {
	case err != nil:
		return Placement{}, err
	case o.Query != "" && (o.Header != "" || o.Prefix != ""):
		return Placement{}, errors.New("credential: a key goes into a header or into the query, not both")
	case o.Query != "":
		return Placement{origin: canonical, query: o.Query}, nil
	case o.Header == "" && o.Prefix != "":
		return Placement{}, errors.New("credential: Prefix needs a Header: without one the prefix is Bearer")
	case o.Header == "":
		o.Header, o.Prefix = "Authorization", "Bearer "
	}
	if err := checkHeader(o.Header, o.Prefix); err != nil {
		return Placement{}, err
	}
	return Placement{origin: canonical, header: o.Header, prefix: o.Prefix}, nil
}

// Serves reports whether a request that goes to origin is one that the key is
// for.
func (p Placement) Serves(origin string, req *http.Request) bool {
	return p.origin != "" && origin == p.origin && sendsTo(req, origin)
}

// Put puts the key on a request that goes to origin, in place of what stands
// there. It refuses with EGRESS_DENIED any other origin, and with
// PROVIDER_UNAVAILABLE a key that could break out of its place; req is then as it
// was.
func (p Placement) Put(origin string, req *http.Request, key []byte) error {
	if !p.Serves(origin, req) {
		return toolresult.NewError(toolresult.EgressDenied, "the credential is for another origin")
	}
	if err := checkKey(key); err != nil {
		return toolresult.WrapError(toolresult.ProviderUnavailable, "the credential cannot be read now", err)
	}
	if p.query != "" {
		pair, q := url.Values{p.query: {string(key)}}.Encode(), req.URL.Query()
		switch {
		case q.Has(p.query):
			q.Set(p.query, string(key))
			req.URL.RawQuery = q.Encode()
		case req.URL.RawQuery == "":
			req.URL.RawQuery = pair
		default:
			req.URL.RawQuery += "&" + pair // what was written stays as it was written
		}
		return nil
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	for name := range req.Header { // in any spelling
		if strings.EqualFold(name, p.header) {
			delete(req.Header, name)
		}
	}
	req.Header.Set(p.header, p.prefix+string(key))
	return nil
}
