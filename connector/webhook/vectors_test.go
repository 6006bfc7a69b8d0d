package webhook_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type vector struct {
	ID, Kind, Provider, Alg, Secret, Encoding, Expected, URL, Method, Body, Must, Public string
	Timestamp                                                                            string
	TimestampMS                                                                          string `json:"timestamp_ms"`
	SecretEncoding                                                                       string `json:"secret_encoding"`
	Signed                                                                               []byte `json:"signed_bytes_b64"`
	Configured                                                                           string `json:"configured_secret"`
	Headers                                                                              map[string]string
	Params                                                                               [][2]string
	PublicKey                                                                            string `json:"public_key_spki_b64"`
	KeyHex                                                                               string `json:"key_hex"`
	DataHex                                                                              string `json:"data_hex"`
	MACHex                                                                               string `json:"hmac_sha256_hex"`
	Verified                                                                             bool
	Hex                                                                                  string
	Bodies                                                                               []struct{ Body, Hex string }
}

func vectors(t testing.TB) map[string]vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var file struct{ Vectors []vector }
	require.NoError(t, json.Unmarshal(text, &file))
	out := map[string]vector{}
	for _, v := range file.Vectors {
		out[v.ID] = v
	}
	require.Len(t, out, len(file.Vectors))
	return out
}

func must(v *webhook.Verifier, err error) *webhook.Verifier {
	if err != nil {
		panic(err)
	}
	return v
}

func unix(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return time.Unix(n, 0)
}

var someTime = time.Unix(1.7e9, 0)

var (
	box      = webhook.HMAC{Name: "box", Headers: []string{"Box-Signature-Primary", "Box-Signature-Secondary"}, Base64: true, Signed: "{body}{timestamp}", Timestamp: "Box-Delivery-Timestamp", Unit: webhook.RFC3339, ID: "Box-Delivery-Id"}
	zendesk  = webhook.HMAC{Name: "zendesk", Headers: []string{"X-Zendesk-Webhook-Signature"}, Base64: true, Signed: "{timestamp}{body}", Timestamp: "X-Zendesk-Webhook-Signature-Timestamp", Unit: webhook.RFC3339}
	circleci = webhook.HMAC{Name: "circleci", Headers: []string{"Circleci-Signature"}, Prefix: "v1="}
)

// attempt is a vector as a delivery. Nil verifier: the vector is of bytes only.
func (v vector) attempt(t *testing.T) (*webhook.Verifier, *webhook.Request, time.Time) {
	r := &webhook.Request{Method: "POST", Header: http.Header{}, Body: []byte(v.Body)}
	for name, value := range v.Headers {
		r.Header.Set(name, value)
	}
	secrets := []string{v.Secret}
	base, query, _ := strings.Cut(v.URL, "?")
	r.RawQuery = query
	switch v.Provider {
	case "github":
		return must(webhook.GitHub(secrets, nil)), r, someTime
	case "bitbucket/jira":
		return must(webhook.Atlassian(webhook.Jira, secrets, nil)), r, someTime
	case "slack":
		return must(webhook.Slack(secrets, nil)), r, unix(v.Timestamp)
	case "standard-webhooks", "svix":
		at := r.Header.Get("webhook-timestamp") + r.Header.Get("svix-timestamp")
		return must(webhook.StandardWebhooks([]string{v.Configured}, nil)), r, unix(at)
	case "stripe":
		stamp, body, _ := strings.Cut(string(v.Signed), ".")
		r.Body = []byte(body)
		r.Header.Set("Stripe-Signature", "t="+stamp+",v1="+v.Expected+",v0=00")
		return must(webhook.Stripe(secrets, nil)), r, unix(stamp)
	case "twilio":
		form := []string{}
		for _, p := range v.Params {
			form = append(form, strings.NewReplacer("+", "%2B").Replace(p[0]+"="+p[1]))
		}
		if v.Params != nil {
			r.Body = []byte(strings.Join(form, "&"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		r.Header.Set("X-Twilio-Signature", v.Expected)
		return must(webhook.Twilio(base, secrets, nil)), r, someTime
	case "square":
		return must(webhook.Square(base, secrets, nil)), r, someTime
	case "hubspot":
		if v.Kind == "webhook_sha256_prefix" {
			version := "v2"
			if v.URL == "" {
				version, base = "v1", "https://unused.example/"
			}
			r.Method = v.Method
			r.Header.Set("X-HubSpot-Signature-Version", version)
			r.Header.Set("X-HubSpot-Signature", v.Expected)
			return must(webhook.HubSpotLegacy(base, secrets, nil)), r, someTime
		}
		n, err := strconv.ParseInt(v.TimestampMS, 10, 64)
		require.NoError(t, err)
		return must(webhook.HubSpot(base, secrets, nil)), r, time.UnixMilli(n)
	case "shopify":
		if v.Body == "" {
			return nil, nil, someTime // the query of an installation, and no webhook
		}
		r.Header.Set("X-Shopify-Hmac-Sha256", v.Expected)
		return must(webhook.Shopify(secrets, nil)), r, someTime
	case "adyen":
		switch {
		case v.Body != "":
			r.Header.Set("HmacSignature", v.Expected)
			return must(webhook.AdyenPlatform(secrets, nil)), r, someTime
		case v.ID == "adyen_go_item":
			r.Body = adyenBody(v.Expected, strings.Split(string(v.Signed), ":"))
			return must(webhook.Adyen(secrets, nil)), r, someTime
		}
	case "sendgrid":
		for name, value := range vectors(t)["sendgrid_ecdsa_p256"].Headers {
			r.Header.Set(name, value)
		}
		return must(webhook.SendGrid([]string{vectors(t)["sendgrid_ecdsa_p256"].PublicKey}, nil)), r, unix(v.Timestamp)
	case "box":
		if v.Timestamp == "" {
			v.Timestamp = "2020-01-01T00:00:00-07:00"
		}
		at, err := time.Parse(time.RFC3339, v.Timestamp)
		if err != nil {
			at = someTime
		}
		if v.Body == "" {
			r.Body = []byte(strings.TrimSuffix(string(v.Signed), v.Timestamp))
			r.Header.Set("Box-Delivery-Timestamp", v.Timestamp)
			r.Header.Set("Box-Signature-Primary", v.Expected)
		}
		return must(webhook.NewHMAC(box, secrets, nil)), r, at
	case "zendesk":
		at, err := time.Parse(time.RFC3339, r.Header.Get("X-Zendesk-Webhook-Signature-Timestamp"))
		require.NoError(t, err)
		return must(webhook.NewHMAC(zendesk, secrets, nil)), r, at
	case "circleci":
		return must(webhook.NewHMAC(circleci, secrets, nil)), r, someTime
	}
	return nil, nil, someTime
}

func adyenBody(signature string, f []string) []byte {
	item := map[string]any{"pspReference": f[0], "originalReference": f[1], "merchantAccountCode": f[2], "merchantReference": f[3],
		"amount": map[string]any{"value": json.Number(f[4]), "currency": f[5]}, "eventCode": f[6], "success": f[7], "additionalData": map[string]any{"hmacSignature": signature}}
	if f[1] == "" {
		delete(item, "originalReference")
	}
	b, err := json.Marshal(map[string]any{"live": "false", "notificationItems": []any{map[string]any{"NotificationRequestItem": item}}})
	if err != nil {
		panic(err)
	}
	return b
}

// Every vector that can be computed is verified, by its scheme where it is a
// webhook's; W-25: those that cannot are refused, and not taken for proof.
func TestVectors_P5(t *testing.T) {
	seen := map[string]int{}
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			seen[v.Kind]++
			switch v.Kind {
			case "hmac_primitive":
				k, err1 := hex.DecodeString(v.KeyHex)
				data, err2 := hex.DecodeString(v.DataHex)
				require.NoError(t, err1)
				require.NoError(t, err2)
				m := hmac.New(sha256.New, k)
				m.Write(data)
				require.Equal(t, v.MACHex, hex.EncodeToString(m.Sum(nil)))
				return
			case "ed25519_keypair":
				_, err := webhook.StandardWebhooks([]string{v.Secret}, nil)
				require.ErrorIs(t, err, webhook.ErrOptions, "a private key is none to verify with")
				must(webhook.StandardWebhooks([]string{v.Public}, nil))
				return
			case "webhook_ed25519":
				r := &webhook.Request{Header: http.Header{}, Body: []byte(v.Body)}
				for name, value := range v.Headers {
					r.Header.Set(name, value)
				}
				d, err := must(webhook.StandardWebhooks([]string{v.Public}, nil)).Verify(r, unix("1614265330"))
				require.NoError(t, err)
				require.Equal(t, "msg_p5jXN8AQM9LWM0D4loKWxJek", d.ID)
				return
			case "webhook_hmac_derived":
				if v.Secret == "" {
					_, err := webhook.GitHub([]string{v.Secret}, nil)
					require.ErrorIs(t, err, webhook.ErrOptions, "W-08")
				}
				for _, b := range v.Bodies { // W-01
					r := &webhook.Request{Header: http.Header{"X-Hub-Signature-256": {"sha256=" + b.Hex}}, Body: []byte(b.Body)}
					_, err := must(webhook.GitHub([]string{v.Secret}, nil)).Verify(r, someTime)
					require.NoError(t, err)
				}
				return
			}
			if v.Configured == "" && (v.Provider == "standard-webhooks" || v.Provider == "svix") {
				v.Configured = "whsec_" + base64.StdEncoding.EncodeToString([]byte("no key was published")) // W-25
			}
			verifier, r, at := v.attempt(t)
			if verifier == nil {
				v.recompute(t)
				return
			}
			d, err := verifier.Verify(r, at)
			if v.Must == "reject" || !v.Verified {
				require.ErrorIs(t, err, webhook.ErrSignature)
				return
			}
			require.NoError(t, err)
			require.NotEmpty(t, d.ID)
			v.refuseWhatIsNear(t, verifier, r, at)
		})
	}
	require.GreaterOrEqual(t, seen["webhook_hmac"], 32)
}

// recompute checks a vector that no delivery has: bytes, key and MAC.
func (v vector) recompute(t *testing.T) {
	h := sha256.New
	if v.Alg == "hmac-sha1" {
		h = sha1.New
	}
	key := []byte(v.Secret)
	if v.SecretEncoding == "hex" {
		var err error
		key, err = hex.DecodeString(v.Secret)
		require.NoError(t, err)
	}
	m := hmac.New(func() hash.Hash { return h() }, key)
	m.Write(v.Signed)
	got := hex.EncodeToString(m.Sum(nil))
	if v.Encoding == "base64" {
		got = base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	require.Equal(t, v.Expected, got)
}

// refuseWhatIsNear changes one thing at a time of what was accepted.
func (v vector) refuseWhatIsNear(t *testing.T, verifier *webhook.Verifier, r *webhook.Request, at time.Time) {
	body := r.Body
	for name, b := range map[string][]byte{"one byte more": append([]byte(string(body)), ' '), "one byte less": body[:max(0, len(body)-1)]} {
		if len(b) == len(body) || v.Provider == "adyen" && v.Body == "" && name == "one byte more" {
			continue // white space that Adyen does not sign
		}
		r.Body = b
		_, err := verifier.Verify(r, at)
		require.Error(t, err, name)
	}
	r.Body = body
	for name, lines := range r.Header {
		if name == "Content-Type" || strings.HasSuffix(name, "-Id") && v.Provider == "box" || strings.HasSuffix(name, "Secondary") || strings.HasPrefix(name, "Box-Signature-A") || strings.HasPrefix(name, "Box-Signature-V") {
			continue
		}
		for why, forged := range map[string][]string{"missing": nil, "empty": {""}, "twice, W-22": {lines[0], lines[0]}, "forged first": {"x", lines[0]}, "cut": {lines[0][:len(lines[0])-1]}} {
			if name == "Stripe-Signature" && why == "cut" {
				continue // the last part is not ours
			}
			if v.Provider == "box" && (why == "missing") && name == "Box-Signature-Primary" {
				continue // the other one is enough
			}
			r.Header[name] = forged
			_, err := verifier.Verify(r, at)
			require.Error(t, err, "%s %s", name, why)
			if v.Secret != "" {
				require.NotContains(t, err.Error(), v.Secret)
			}
			require.ErrorIs(t, err, toolresult.AuthenticationRequired)
		}
		r.Header[name] = lines
	}
	_, err := verifier.Verify(r, at)
	require.NoError(t, err, "the control")
}
