package check

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func reveals(text, secret string) string {
	r := newRun(&Fixture{Canaries: []string{secret}})
	return (&Session{run: r}).Reveals(text)
}

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
		require.NotEmpty(t, reveals("before "+text+" after", secret), name)
	}
}

// What is no secret is not taken for one, so that a check does not cry wolf.
func TestWhatIsNoSecretIsNotFound(t *testing.T) {
	for _, text := range []string{"", "of-alice=", "tok/en+", "a text about tokens and alice", base64.StdEncoding.EncodeToString([]byte("alice"))} {
		require.Empty(t, reveals(text, secret), text)
	}
	require.Empty(t, reveals("short", "short"), "what is under 8 bytes is found everywhere")

	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(secret))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Empty(t, reveals(b.String(), secret), "compressed text is not looked into: it is a limit, and this says so")
}
