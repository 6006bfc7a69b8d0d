package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/schema"
)

// C7: what a form may not ask a person for.
func TestAsksForSecret_C7(t *testing.T) {
	for _, text := range []string{
		"password", "Your Password", "slack_password", "newPassword", "PASSWD", "apiKey", "api_key", "API key of the project", "access-token",
		"Enter the one-time code", "verification code", "PIN", "cardNumber", "credit card", "cvv", "client_secret", "recovery phrase", "ssh key", "OTP", "privatekey",
	} {
		require.True(t, schema.AsksForSecret("harmless", text), text)
	}
	for _, text := range []string{"", "account", "Which project?", "color", "keyword", "priority", "opinion", "spinner", "country code", "the key figure", "Name of the customer", "zip code"} {
		require.False(t, schema.AsksForSecret(text), text)
	}
}

// C7: an answer that does not fit what was asked for is none.
func TestFitsForm_C7(t *testing.T) {
	form := []byte(`{"type":"object","properties":{"size":{"type":"string","enum":["s","m"]}},"required":["size"]}`)
	require.True(t, schema.FitsForm(form, []byte(`{"size":"s"}`)))
	for _, content := range []string{`{}`, `null`, `{"size":"xl"}`, `{"size":1}`, `[]`, `"s"`, ``, `{`} {
		require.False(t, schema.FitsForm(form, []byte(content)), content)
	}
	require.True(t, schema.FitsForm([]byte(`{"type":"object"}`), []byte("null")), "nothing is asked for")
	require.False(t, schema.FitsForm([]byte(`{"type":7}`), []byte("{}")))
}
