package writes

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

const secret = `tok/en+"4711"-of-alice=`

// A secret is found however it is written, wherever it stands.
func TestASecretIsFoundHoweverItIsWritten(t *testing.T) {
	reversed := []byte(secret)
	slices.Reverse(reversed)
	for name, text := range map[string]string{
		"as it is":               secret,
		"in hexadecimal":         hex.EncodeToString([]byte(secret)),
		"in a query":             url.QueryEscape(secret),
		"in a path":              url.PathEscape(secret),
		"in JSON":                `tok/en+\"4711\"-of-alice=`,
		"backwards":              string(reversed),
		"in base64":              base64.StdEncoding.EncodeToString([]byte(secret)),
		"in base64, shifted":     base64.StdEncoding.EncodeToString([]byte("u:" + secret)),
		"in base64, shifted on":  base64.RawStdEncoding.EncodeToString([]byte("x" + secret + "more")),
		"in base64 of URLs":      base64.RawURLEncoding.EncodeToString([]byte("user:" + secret)),
		"without its end":        secret[:len(secret)-4],
		"without its beginning":  secret[4:],
		"as basic authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+secret)),
	} {
		require.NotEmpty(t, found("before "+text+" after", secret), name)
	}
}

// What is no secret is not taken for one, so that a check does not cry wolf.
func TestWhatIsNoSecretIsNotFound(t *testing.T) {
	for _, text := range []string{"", "of-alice=", "tok/en+", "a text about tokens and alice", base64.StdEncoding.EncodeToString([]byte("alice"))} {
		require.Empty(t, found(text, secret), text)
	}
	require.Empty(t, found("short", "short"), "what is under 8 bytes is found everywhere")

	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(secret))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Empty(t, found(b.String(), secret), "compressed text is not looked into: it is a limit, and this says so")
}

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
