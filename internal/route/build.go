package route

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Build returns the escaped path and the query of a request to a declared
// pattern: params fill in the variables, and the others become the query.
func (t *Table) Build(pattern string, params map[string]string) (path, query string, err error) {
	i := slices.IndexFunc(t.routes, func(c *compiled) bool { return c.Pattern == pattern })
	if i < 0 {
		return "", "", ErrRoute
	}
	c := t.routes[i]
	q := url.Values{}
	for k, v := range params {
		if _, declared := c.params[k]; declared {
			q.Set(k, v)
		} else if !c.variable(k) {
			return "", "", fmt.Errorf("%w: %q", ErrParam, k)
		}
	}
	var b strings.Builder
	for _, s := range c.segs {
		b.WriteString("/")
		b.WriteString(url.PathEscape(s.prefix + params[s.name] + s.suffix))
		if _, given := params[s.name]; s.name != "" && !given {
			return "", "", fmt.Errorf("%w: {%s}", ErrValue, s.name)
		}
		if _, ok := s.match(s.prefix + params[s.name] + s.suffix); s.name != "" && !ok {
			return "", "", fmt.Errorf("route: {%s} is empty", s.name)
		}
	}
	path = b.String()
	segs, err := split(path, nil)
	if err != nil {
		return "", "", err
	}
	for i, s := range c.segs { // what goes out is read back as it was meant
		if v, ok := s.match(segs[i]); !ok || s.name != "" && v != params[s.name] {
			return "", "", ErrPath
		}
	}
	if t.find(c.method, segs, func(x *compiled) bool { return !excludes(x, c) }) != c { // and as this route, not as a more specific one
		return "", "", ErrRoute
	}
	return path, q.Encode(), nil
}
