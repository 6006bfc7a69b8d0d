package connector_test

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/rules"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// caseOf is a provider and what reads it.
type caseOf struct {
	rules   provider.Rules
	handler http.HandlerFunc
	limit   int64 // Limits.Bytes
	keep    bool  // there is a store for what is too large
}

// call calls a capability that passes on what the provider says.
func (c caseOf) call(t *testing.T) (*toolresult.Result, *world) {
	t.Helper()
	get := func(ctx context.Context, call *connector.ReadCall, _ struct{}) (*connector.Answer[any], error) {
		var out any
		if _, err := call.Get(ctx, "/x", nil, &out); err != nil {
			return nil, err
		}
		return connector.Found(out), nil
	}
	s := spec("x.get", anyGet)
	s.Limits.Bytes = c.limit
	set := setup{handler: c.handler, caps: []connector.Capability{connector.Read(s, connector.OnConnection, get)},
		info: connector.Info{ID: "x", Version: "1", Owner: "o", Endpoint: "test", Auth: connector.Auth{Mode: connector.AuthAPIKey}, Rules: c.rules},
		policy: authztest.Policy(func(*authz.Request) (authz.Decision, error) {
			return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r"}, nil
		})}
	if c.keep {
		set.opts.Artifacts = artifact.NewMemory(1 << 24)
	}
	w := newWorld(t, set)
	return w.call("x.get", `{}`), w
}

func says(kind, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", kind)
		rw.Write([]byte(body))
	}
}

const asJSON = "application/json"

// R7, R8, E5: the size of results, text, numbers and emptiness, by the numbers of
// the collected failure cases.
func TestResultCases_T_R7_E5(t *testing.T) {
	array := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	for _, row := range []struct {
		why  string
		c    caseOf
		code toolresult.ErrorCode // "": an answer
		data string               // "": not compared
		ref  bool                 // the answer is an artifact
	}{
		{"T-01: more than any answer", caseOf{handler: says(asJSON, array(`"`+strings.Repeat("a", 1<<10)+`"`, 32<<10))}, toolresult.ResultTooLarge, "", false},
		{"T-01: more than fits a result, with a store", caseOf{handler: says(asJSON, array(`"abcdefgh"`, 1000)), limit: 1 << 10, keep: true}, "", "", true},
		{"T-01: more than fits a result, without one", caseOf{handler: says(asJSON, array(`"abcdefgh"`, 1000)), limit: 1 << 10}, toolresult.ResultTooLarge, "", false},
		{"T-03: no half of a document: all of it or none", caseOf{handler: says(asJSON, array(`{"id":1}`, 1000)), limit: 4 << 10}, toolresult.ResultTooLarge, "", false},
		{"T-06: many small parts count together", caseOf{handler: says(asJSON, array(`"a"`, 4096)), limit: 8 << 10}, toolresult.ResultTooLarge, "", false},
		{"T-06: escapes count as they are written", caseOf{handler: says(asJSON, `"`+strings.Repeat(`\u0001`, 300)+`"`), limit: 1 << 10}, toolresult.ResultTooLarge, "", false},
		{"T-07: no half of a picture", caseOf{handler: says(asJSON, `{"png":"`+base64.StdEncoding.EncodeToString(make([]byte, 45<<10))+`"}`), limit: 32 << 10}, toolresult.ResultTooLarge, "", false},
		{"T-07: a picture has a handle", caseOf{handler: says(asJSON, `{"png":"`+base64.StdEncoding.EncodeToString(make([]byte, 45<<10))+`"}`), limit: 32 << 10, keep: true}, "", "", true},
		{"T-09: not UTF-8", caseOf{handler: says(asJSON, "\"a\xe9\"")}, toolresult.ProviderError, "", false},
		{"T-09: UTF-16", caseOf{handler: says(asJSON, "\xff\xfe\"\x00")}, toolresult.ProviderError, "", false},
		{"T-09: NUL", caseOf{handler: says(asJSON, `"a\u0000"`)}, toolresult.ProviderError, "", false},
		{"T-10: an id beyond 2^53", caseOf{handler: says(asJSON, `{"id":9007199254740993}`)}, "", `{"id":9007199254740993}`, false},
		{"T-10: and another", caseOf{handler: says(asJSON, `{"id":725653563933458432}`)}, "", `{"id":725653563933458432}`, false},
		{"T-10: numbers keep their digits", caseOf{handler: says(asJSON, `[1.0,1e2]`)}, "", `[1.0,1e2]`, false},
		{"T-11: small in gzip, and large", caseOf{handler: zipped(64 << 20)}, toolresult.ResultTooLarge, "", false},
		{"T-13: an empty list is an answer", caseOf{handler: says(asJSON, `[]`)}, "", `[]`, false},
		{"T-13: a field that is missing is none", caseOf{rules: rules.Holding(nil, "GET /x", "/items"), handler: says(asJSON, `{}`)}, toolresult.ProviderError, "", false},
		{"T-13: null is no list", caseOf{rules: rules.Holding(nil, "GET /x", "/items"), handler: says(asJSON, `{"items":null}`)}, toolresult.ProviderError, "", false},
		{"T-13: nothing, because nobody was signed in", caseOf{rules: rules.Jira, handler: func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("X-Seraph-LoginReason", "AUTHENTICATED_FAILED")
			rw.Write([]byte(`{"issues":[]}`))
		}}, toolresult.ConnectionRequired, "", false},
		{"E-27: a sign-in page", caseOf{rules: rules.HTTP, handler: says("text/html", "<!DOCTYPE html>state=abc123")}, toolresult.ProviderError, "", false},
		{"E-29: a promise is no answer", caseOf{rules: rules.GitHub, handler: func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "5")
			rw.WriteHeader(202)
			rw.Write([]byte(`{}`))
		}}, toolresult.ProviderUnavailable, "", false},
		{"E-01: the body is judged, and still there for whoever decodes it", caseOf{rules: rules.GitHub, handler: says(asJSON, `{"message":"You have exceeded a secondary rate limit"}`)}, "", `{"message":"You have exceeded a secondary rate limit"}`, false},
	} {
		r, w := row.c.call(t)
		if row.code != "" {
			require.NotNil(t, r.Error, row.why)
			require.Equal(t, row.code, r.Error.Code, "%s: %s", row.why, w.violation())
			require.Empty(t, r.Data, row.why)
			text, err := json.Marshal(r)
			require.NoError(t, err)
			require.NotContains(t, string(text), "abc123", "%s (K-07)", row.why)
			continue
		}
		require.NoError(t, r.Err(), row.why)
		require.Equal(t, row.ref, r.DataRef != "", row.why)
		if row.ref {
			require.Empty(t, r.Data, "T-05: %s: no second copy beside the handle", row.why)
		}
		if row.data != "" {
			require.Equal(t, row.data, string(r.Data), row.why)
		}
	}
}

func zipped(n int) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", asJSON)
		rw.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(rw)
		defer z.Close()
		for range n >> 20 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}
}

// T-02: a text for a model is cut between characters, wherever the limit is; and
// T-03: it says that it was cut.
func TestTextIsCutBetweenCharacters_T_R7(t *testing.T) {
	r := toolresult.Complete("c", json.RawMessage(`"aaaaaaaaa😀e\u0301👩‍👩‍👧\r\n`+strings.Repeat("é😀", 2000)+`"`))
	for limit := 1; limit < 3000; limit += 7 {
		text := r.Text(&toolresult.TextOptions{MaxBytes: limit})
		require.True(t, utf8.ValidString(text), limit)
		require.NotContains(t, text, "\ufffd", limit)
		require.Contains(t, text, "this text was cut", limit)
	}
}
