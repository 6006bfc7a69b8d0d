package check

import (
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/route"
)

// routesOf compiles what the routes of each capability say about effects. The
// manifest's own checks say what is wrong with one that cannot be compiled.
func routesOf(m connector.Manifest) (out []*route.Table) {
	for _, d := range m.Capabilities {
		var rs []route.Route
		for _, r := range d.Routes {
			rs = append(rs, route.Route{Pattern: r.Pattern, Effect: route.Effect(r.Effect), Unscoped: "only its effect is looked at"})
		}
		if t, err := route.Compile(rs); err == nil {
			out = append(out, t)
		}
	}
	return out
}

// changes reports whether a request is one that may change something: as its route
// declares, and if it is of none, as its method says. What a route declares is held
// against the provider's state by write/reads-are-safe.
func (s *Session) changes(r *http.Request, body []byte) bool {
	req := &route.Request{Method: r.Method, Path: strings.TrimPrefix(r.URL.EscapedPath(), s.Fixture.BasePath), Header: r.Header, Body: body}
	reads := false
	for _, t := range s.routes {
		switch t.Effect(req) {
		case route.Changes:
			return true
		case route.Reads:
			reads = true
		}
	}
	return !reads && unsafe(r.Method)
}

func unsafe(method string) bool {
	return !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, method)
}

type changesKey struct{}

// Changes reports whether a request that a plan of faults is asked about is one
// that may change something.
func Changes(r *http.Request) bool {
	if yes, ok := r.Context().Value(changesKey{}).(bool); ok {
		return yes
	}
	return unsafe(r.Method)
}

// Changed returns the exchanges that may have changed something.
func Changed(list []*Exchange) (out []*Exchange) {
	return slices.DeleteFunc(slices.Clone(list), func(x *Exchange) bool { return !x.Changes })
}
