package egress

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// R10: what an authorizer adds is secret, with all it is made of.
func TestAdded_R10(t *testing.T) {
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, row := range []struct {
		why           string
		before, after http.Header
		was, is       string
		want          []string
		not           []string
	}{
		{why: "a bearer token", after: http.Header{"Authorization": {"Bearer tok-1234"}}, want: []string{"Bearer tok-1234", "tok-1234"}},
		{why: "a key in a header", after: http.Header{"X-Api-Key": {"key-1234"}}, want: []string{"key-1234"}},
		{why: "an unchanged header is no secret", before: http.Header{"Accept": {"text/plain"}}, after: http.Header{"Accept": {"text/plain"}}, not: []string{"text/plain"}},
		{why: "a changed header is", before: http.Header{"X-Key": {"placeholder"}}, after: http.Header{"X-Key": {"real-key"}}, want: []string{"real-key"}, not: []string{"placeholder"}},
		{why: "the password of a user", after: http.Header{"Authorization": {basic("bot@example.com:pass-1234")}},
			want: []string{"pass-1234", "bot@example.com:pass-1234"}, not: []string{"bot@example.com"}},
		{why: "a user that is a key", after: http.Header{"Authorization": {basic("sk_live_0123456789:")}}, want: []string{"sk_live_0123456789"}},
		{why: "a user that is a key, and a word as password", after: http.Header{"Authorization": {basic("0123456789abcdef0:api_token")}},
			want: []string{"0123456789abcdef0"}},
		{why: "parameters of a scheme", after: http.Header{"Authorization": {`Token token="tok-1234", v=1`}}, want: []string{"tok-1234"}, not: []string{"1"}},
		{why: "cookies", after: http.Header{"Cookie": {"a=b1234; session=s3cr"}}, want: []string{"b1234", "s3cr"}},
		{why: "a parameter of the query", was: "q=open", is: "q=open&api_key=k%2F123", want: []string{"k/123"}, not: []string{"open"}},
		{why: "a query that does not parse", is: "a=%zz&api_key=k123", want: []string{"k123"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := (*secrets)(nil).from(row.before, row.after, row.was, row.is)
			var got []string
			if s != nil {
				got = s.values
			}
			for _, w := range row.want {
				require.Contains(t, got, w)
			}
			for _, n := range row.not {
				require.NotContains(t, got, n)
			}
		})
	}
}

// R10: a secret is found in every form that software writes.
func TestScrubForms_R10(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9_-]{6,40}`),
			rapid.StringMatching(`[A-Za-z0-9/+=&<>" %\\~-]{6,40}`),
			rapid.StringOfN(rapid.RuneFrom([]rune("aé€🙂/\"")), 6, 12, -1),
		).Draw(t, "secret")
		s := (*secrets)(nil).with([]string{secret})
		before := rapid.StringMatching(`[ -~]{0,7}`).Draw(t, "before")
		j, err := json.Marshal(secret)
		require.NoError(t, err)
		in := string(j[1 : len(j)-1])
		for form, text := range map[string]string{
			"raw": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret), "json": in,
			"html": html.EscapeString(secret), "hex": hex.EncodeToString([]byte(secret)),
			"php": strings.ReplaceAll(in, "/", `\/`),
		} {
			got := string(s.scrub([]byte(before + "<" + text + ">")))
			require.NotContains(t, got, text, form)
			require.Contains(t, got, redacted, form)
		}
		// inside a longer text in base64, what is left gives nothing away
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			got := string(s.scrub([]byte(enc.EncodeToString([]byte(before + secret + ":x")))))
			require.Contains(t, got, redacted)
		}
	})
}

func TestSecretsAreBounded_R10(t *testing.T) {
	var s *secrets
	require.Equal(t, []byte("abc"), s.scrub([]byte("abc")))
	s = s.with([]string{"abc", "", "abcd"})
	require.Equal(t, []string{"abcd"}, s.values, "shorter ones are everywhere")
	require.Same(t, s, s.with([]string{"abcd"}))
	for i := range 3 * maxSecrets {
		s = s.with([]string{"token-" + string(rune('A'+i))})
	}
	require.Len(t, s.values, maxSecrets)
	long := (*secrets)(nil).with([]string{"abcd", "abcd-efgh"})
	require.Equal(t, redacted, string(long.scrub([]byte("abcd-efgh"))), "the longest first")
}

func TestScrubHeader_R10(t *testing.T) {
	s := (*secrets)(nil).with([]string{"Tok-1234"})
	h := http.Header{"Set-Cookie": {"a=b"}, "X-Tok-1234": {"v"}, "X-List": {"a", "b, Tok-1234"}}
	s.header(h)
	require.Equal(t, http.Header{"X-List": {"a", "b, [redacted]"}}, h)
}
