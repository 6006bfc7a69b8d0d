package writes

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

// A walk is shrunk to the steps that matter, and never to one that finds nothing.
func TestAWalkIsShrunkToWhatMatters(t *testing.T) {
	tried := 0
	try := func(p []step) string {
		tried++
		i := slices.Index(p, refused)
		if i >= 0 && slices.Contains(p[i:], create) && slices.Contains(p[i:], again) {
			return "found"
		}
		return ""
	}
	long := []step{get, create, list, refused, dropped, again, create, restarted, again, get, cut, create}
	path, what := shrunk(long, try(long), try)
	require.Equal(t, "found", what)
	require.Len(t, path, 3)
	require.NotEmpty(t, try(path))
	require.Less(t, tried, 60)

	path, _ = shrunk([]step{create}, "always", func([]step) string { return "always" })
	require.Empty(t, path, "what is found by nothing at all")
}

// The key is read where the declaration says, and from nowhere else.
func TestTheKeyIsReadWhereItIsDeclared(t *testing.T) {
	header := &connector.Declaration{Idempotency: connector.Idempotency{Header: "Idempotency-Key"}}
	field := &connector.Declaration{Idempotency: connector.Idempotency{Field: "/meta/a~1b"}}
	for _, c := range []struct {
		why  string
		d    *connector.Declaration
		x    check.Exchange
		want string
	}{
		{"a header", header, check.Exchange{Header: http.Header{"Idempotency-Key": {"k"}}}, "k"},
		{"no header", header, check.Exchange{Header: http.Header{}, Body: []byte(`{"meta":{"a/b":"k"}}`)}, ""},
		{"a member, by a pointer with an escape", field, check.Exchange{Body: []byte(`{"meta":{"a/b":"k"}}`)}, "k"},
		{"no such member", field, check.Exchange{Body: []byte(`{"meta":{}}`)}, ""},
		{"a list on the way", field, check.Exchange{Body: []byte(`{"meta":[1]}`)}, ""},
		{"a number in its place", field, check.Exchange{Body: []byte(`{"meta":{"a/b":7}}`)}, ""},
		{"no JSON", field, check.Exchange{Body: []byte(`<html>`)}, ""},
		{"no body", field, check.Exchange{}, ""},
	} {
		require.Equal(t, c.want, keyOf(c.d, &c.x), c.why)
	}
}
