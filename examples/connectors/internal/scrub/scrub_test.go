package scrub_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/examples/connectors/internal/scrub"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

func TestText_R10(t *testing.T) {
	for in, want := range map[string]string{
		`nothing to hide, attempt=2`:                                           `nothing to hide, attempt=2`,
		`{"authorization": "Bearer tok_secret_7", "attempt": 1}`:               `{"authorization": "[redacted]", "attempt": 1}`,
		`{"user_email": "alice@example.test"}`:                                 `{"user_email": "[e-mail]"}`,
		`authorization: Bearer tok_secret_7`:                                   `authorization: "[redacted]"`,
		`sent Bearer tok_secret_7 to payment`:                                  `sent Bearer [redacted] to payment`,
		`a token Bearer tok_secret_7 was sent`:                                 `a token Bearer [redacted] was sent`,
		`token=token Bearer tok_secret_7`:                                      `token="[redacted]"`,
		`"payload":"{\"password\":\"hunter2\",\"n\":1}"`:                       `"payload":"{\"password\":"[redacted]",\"n\":1}"`,
		`DB_PASSWORD=hunter2 DB_HOST=db`:                                       `DB_PASSWORD="[redacted]" DB_HOST=db`,
		`GET /x?api_key=abcdef&page=2`:                                         `GET /x?api_key="[redacted]"&page=2`,
		`jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln end`:                    `jwt [redacted] end`,
		`dial postgres://app:hunter2@db:5432/orders`:                           `dial postgres://[redacted]@db:5432/orders`,
		`key AKIAABCDEFGHIJKLMNOP used`:                                        `key [redacted] used`,
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----": `[redacted key]`,
		`-----BEGIN PRIVATE KEY----- MIIE, cut off`:                            `[redacted key]`,
		`{"cookie": 'a=b; c=d', "x": 1}`:                                       `{"cookie": "[redacted]", "x": 1}`,
	} {
		require.Equal(t, want, scrub.Text(in))
	}
	for _, line := range alr.Logs(alr.Namespace) {
		got := scrub.Text(line.Text)
		require.NotContains(t, got, "tok_secret")
		require.NotContains(t, got, "alice@")
	}
}

func FuzzText(f *testing.F) {
	f.Add(`{"token":"`, `"}`)
	f.Add("\\\"", "://a@")
	f.Fuzz(func(t *testing.T, before, after string) {
		const token, mail = "Bearer tok_secret_7", "alice@example.test"
		got := scrub.Text(before + " " + token + " " + mail + " " + after)
		if strings.Contains(got, "tok_secret_7") || strings.Contains(got, mail) {
			t.Fatalf("%q", got)
		}
	})
}

func BenchmarkText(b *testing.B) {
	lines := alr.Logs(alr.Namespace)
	for b.Loop() {
		for _, l := range lines {
			scrub.Text(l.Text)
		}
	}
}
