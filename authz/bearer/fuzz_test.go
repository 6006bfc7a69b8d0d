package bearer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever a header says, at most one token comes out of it, and it is one that
// could stand in a header by itself.
func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{"Bearer a.b.c", "bearer  x==", "Basic YTpi", "Bearer", "Bearer a,b", "DPoP x", "Bearer \x00", ""} {
		f.Add(s, "access_token=x&a=b")
	}
	f.Fuzz(func(t *testing.T, value, query string) {
		scheme, token, bad := parseAuthorization(value, true)
		if bad != nil {
			require.Nil(t, token)
			require.Empty(t, scheme)
			return
		}
		require.NotContains(t, token(), " ")
		require.NotContains(t, token(), ",")
		again, same, bad := parseAuthorization(scheme+" "+token(), true)
		require.Nil(t, bad)
		require.Equal(t, scheme, again)
		require.Equal(t, token(), same())
		require.True(t, strings.HasSuffix(value, token()))

		// What net/url finds, we find.
		if values, _ := url.ParseQuery(query); values.Has("access_token") {
			require.True(t, inQuery(query))
			_, _, bad := presented(&http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{"Authorization": {value}}}, true)
			require.Equal(t, malformed, bad.kind)
		}
	})
}

// Whatever a token holds, it is decoded in one way or not at all.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"a.b.c", "eyJhbGciOiJub25lIn0.e30.eA", "e30.e30.", "e30.e30.eA==", "..", "e30.e30.e30.e30", "e30\n.e30.eA"} {
		f.Add(s)
	}
	s := &signatures{algorithms: nil, untyped: true, scope: "scope", client: "client_id"}
	f.Fuzz(func(t *testing.T, token string) {
		got, kind := parseSigned(token)
		if kind != jws {
			require.Nil(t, got.header)
			require.Nil(t, got.payload)
			return
		}
		require.NotNil(t, got.header)
		require.NotNil(t, got.payload)
		require.Equal(t, 2, strings.Count(token, "."))
		require.NotContains(t, token, "=")
		_, _, bad := s.checkHeader(got.header)
		require.NotNil(t, bad, "no algorithm is on the list")
	})
}

// Whatever claims say, they are whole or refused, and never without their
// needed parts.
func FuzzClaims(f *testing.F) {
	f.Add(`{"iss":"i","sub":"s","aud":["a"],"exp":1e3,"iat":0,"jti":"j","client_id":"c","scope":"a b","act":{"sub":"x"}}`, true)
	f.Add(`{"sub":"s","exp":"1","scope":["a"]}`, false)
	f.Add(`{"exp":1e999}`, true)
	f.Fuzz(func(t *testing.T, text string, strict bool) {
		payload, _ := parsePayload(text)
		c, bad := readClaims(payload, strict, "i", "scope", "client_id")
		if bad != nil {
			require.Nil(t, c)
			require.NotEmpty(t, bad.why)
			return
		}
		require.NotEmpty(t, c.Subject)
		require.Equal(t, "i", c.Issuer)
		if strict {
			require.NotEmpty(t, c.Client)
			require.NotEmpty(t, c.ID)
			require.False(t, c.Expires.IsZero())
		}
		for _, s := range c.Scopes {
			require.True(t, isScope(s))
		}
		_ = c.checkTimes(time.Now(), time.Second)
	})
}

func parsePayload(text string) (map[string]any, bool) {
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	err := d.Decode(&m)
	return m, err == nil
}

// Whatever an issuer answers, there are keys that may be used, or none.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"2","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"oct","k":"AA"}]}`))
	f.Add([]byte(`{"keys":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text)
		if err != nil {
			require.Nil(t, keys)
			return
		}
		for id, ks := range keys {
			require.NotEmpty(t, id)
			for _, k := range ks {
				require.NotEmpty(t, family(k.Key))
				require.True(t, k.IsPublic())
			}
		}
	})
}

// Whatever an issuer answers about a token, it is active only if it says so.
func FuzzIntrospection(f *testing.F) {
	f.Add([]byte(`{"active":true,"sub":"s","aud":"a"}`))
	f.Add([]byte(`{"active":"true"}`))
	f.Add([]byte(`{"active":false,"exp":1}`))
	in := &introspection{scope: "scope", holder: "client_id"}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, bad := in.read(text, "i")
		if bad != nil {
			require.Nil(t, c)
			return
		}
		var said struct {
			Active *bool `json:"active"`
		}
		require.NoError(t, json.Unmarshal(text, &said))
		require.True(t, *said.Active)
		require.Equal(t, "i", c.Issuer)
	})
}

// Whatever a body says, another reader of JSON finds no call where we find none.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"method":"tools/call","params":{"name":"x"},"id":1}`))
	f.Add([]byte(`{"METHOD":"tools/call","Params":{"NAME":"x"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, ok := fromBody(body)
		if !ok {
			return
		}
		// encoding/json matches names without regard to case.
		var m struct {
			Method string
			Params json.RawMessage
		}
		var p struct{ Name string }
		if json.Unmarshal(body, &m) != nil {
			return
		}
		_ = json.Unmarshal(m.Params, &p)
		require.Equal(t, m.Method == callMethod, a.call)
		if a.call {
			require.Equal(t, p.Name, a.tool)
		}
	})
}
