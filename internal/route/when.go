package route

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// condition is a string that stands at one place of the body.
type condition struct{ pointer, value string }

// conditions takes what stands behind the path out of the pattern.
func (c *compiled) conditions() (rest string, err error) {
	parts := strings.Split(c.Pattern, " #")
	for _, text := range parts[1:] {
		pointer, escaped, ok := strings.Cut(text, "=")
		value, err := url.PathUnescape(escaped)
		switch {
		case !ok || err != nil || value == "" || strings.Contains(escaped, " "):
			return "", errors.New("want conditions of the form #/pointer=value, escaped as in a path")
		case !strings.HasPrefix(pointer, "/") || badEscape(pointer):
			return "", errors.New("want a JSON Pointer in a condition")
		case slices.ContainsFunc(c.when, func(w condition) bool { return w.pointer == pointer }):
			return "", errors.New("has two conditions on one place")
		}
		c.when = append(c.when, condition{pointer, value})
	}
	return parts[0], nil
}

// excludes reports whether no request fulfils the conditions of both.
func excludes(a, b *compiled) bool {
	return slices.ContainsFunc(a.when, func(w condition) bool {
		return slices.ContainsFunc(b.when, func(x condition) bool { return w.pointer == x.pointer && w.value != x.value })
	})
}

// holds returns what reports whether a request fulfils a route's conditions. The
// body is read the first time that there are any, and only if it says that it
// is JSON: what one server reads as JSON, another reads as a form.
func holds(req *Request) func(*compiled) bool {
	var body any
	read := false
	return func(c *compiled) bool {
		if len(c.when) == 0 {
			return true
		}
		if kind, n := header(req.Header, "Content-Type"); !read && n == 1 && kind == "application/json" {
			body, _ = strictjson.Parse(req.Body)
		}
		read = true
		return !slices.ContainsFunc(c.when, func(w condition) bool {
			v, _ := strictjson.Lookup(body, w.pointer)
			return v != w.value
		})
	}
}
