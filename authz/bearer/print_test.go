package bearer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
)

// C2: neither the options nor what is made of them prints the key of nonces.
func TestNonceKeyIsNotPrinted_C2(t *testing.T) {
	key := []byte("CANARY-nonce-key-of-32-bytes-xyz")
	opts := bearer.DPoPOptions{NonceKey: key}
	d, err := bearer.NewDPoP("https://mcp.example.com/mcp", &opts)
	require.NoError(t, err)
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	for _, v := range []any{opts, &opts, d, *d, []any{opts, *d}, struct{ In any }{d}, struct{ in bearer.DPoP }{*d}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		log.Info("it", "v", v)
		_ = json.NewEncoder(&out).Encode(v)
		_ = gob.NewEncoder(&out).Encode(v)
	}
	for _, spelled := range []string{string(key[:12]), fmt.Sprintf("%x", key[:12]), fmt.Sprint(key[:12])[1:20], base64.StdEncoding.EncodeToString(key[:12])} {
		require.NotContains(t, out.String(), spelled)
	}
}
