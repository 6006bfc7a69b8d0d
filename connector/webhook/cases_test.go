package webhook_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

const secret = "not-a-real-secret-0123456789abcdef"

func mac(key, text string) []byte {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return m.Sum(nil)
}

func hexMAC(key, text string) string { return hex.EncodeToString(mac(key, text)) }

func b64MAC(key, text string) string { return base64.StdEncoding.EncodeToString(mac(key, text)) }

// from makes a request of a body and of name, value, name, value...
func from(body string, headers ...string) *webhook.Request {
	r := &webhook.Request{Method: "POST", Header: http.Header{}, Body: []byte(body)}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func hub(body string, more ...string) *webhook.Request {
	return from(body, append([]string{"X-Hub-Signature-256", "sha256=" + hexMAC(secret, body)}, more...)...)
}

func stripe(stamp, body string) *webhook.Request {
	return from(body, "Stripe-Signature", "t="+stamp+",v1="+hexMAC(secret, stamp+"."+body))
}

func slack(stamp, body string) *webhook.Request {
	return from(body, "X-Slack-Request-Timestamp", stamp, "X-Slack-Signature", "v0="+hexMAC(secret, "v0:"+stamp+":"+body))
}

const standardKey = "a key of thirty-two bytes, just so"

var standardSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(standardKey))

func standard(signatures string) *webhook.Request {
	return from(`{"type":"ping"}`, "webhook-id", "msg_1", "webhook-timestamp", "1700000000", "webhook-signature", signatures)
}

var goodStandard = "v1," + b64MAC(standardKey, `msg_1.1700000000.{"type":"ping"}`)

// publicKey makes a key pair whose signature of the same message is returned.
func publicKey() (public, entry string) {
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", 32)))
	sig := ed25519.Sign(private, []byte(`msg_1.1700000000.{"type":"ping"}`))
	return "whpk_" + base64.StdEncoding.EncodeToString(private.Public().(ed25519.PublicKey)), "v1a," + base64.StdEncoding.EncodeToString(sig)
}

// P5: every case of deliveries that are to be believed or not. A row with no
// error is believed.
func TestCases_P5(t *testing.T) {
	github := must(webhook.GitHub([]string{secret}, nil))
	slackV := must(webhook.Slack([]string{secret}, nil))
	stripeV := must(webhook.Stripe([]string{secret}, nil))
	standardV := must(webhook.StandardWebhooks([]string{standardSecret}, nil))
	public, asymmetric := publicKey()
	asymmetricV := must(webhook.StandardWebhooks([]string{public}, nil))
	both := must(webhook.StandardWebhooks([]string{public, standardSecret}, nil))
	token := must(webhook.GitLabToken([]string{"other", "the token"}, nil))
	emoji, escaped := "{\"tier\":\"\U0001F60A coffee\"}", `{"tier":"\ud83d\ude0a coffee"}`
	odd := `{"a":"\u001B[31m","n":1.0,"k":1e2}`
	at := time.Unix(1.7e9, 0)
	stamp := func(d int) string { return fmt.Sprint(1700000000 + d) }
	vs := vectors(t)
	_, twilio, _ := vs["twilio_docs"].attempt(t)
	_, square, _ := vs["square_v1"].attempt(t)
	for _, row := range []struct {
		why string
		v   *webhook.Verifier
		r   *webhook.Request
		err error
	}{
		{"W-01: an emoji as bytes", github, hub(emoji), nil},
		{"W-01: an emoji as escapes", github, hub(escaped), nil},
		{"W-01: the one under the other's signature", github, from(emoji, "X-Hub-Signature-256", "sha256="+hexMAC(secret, escaped)), webhook.ErrSignature},
		{"W-02, H1: JSON that nobody would write like this", github, hub(odd), nil},
		{"W-02: the same, parsed and written", github, from(`{"a":"\u001b[31m","n":1,"k":100}`, "X-Hub-Signature-256", "sha256="+hexMAC(secret, odd)), webhook.ErrSignature},
		{"W-02: a form", github, hub("payload=%7B%22a%22%3A1%7D&b=+%20"), nil},
		{"W-02: no JSON at all", github, hub("\xff\x00 {"), nil},
		{"W-03: a line end that is signed", github, hub("{}\r\n"), nil},
		{"W-03: and was trimmed", github, from("{}", "X-Hub-Signature-256", "sha256="+hexMAC(secret, "{}\r\n")), webhook.ErrSignature},

		{"W-05: 299 s old", stripeV, stripe(stamp(-299), "{}"), nil},
		{"W-05: 300 s old", stripeV, stripe(stamp(-300), "{}"), nil},
		{"W-05: 301 s old", stripeV, stripe(stamp(-301), "{}"), webhook.ErrTimestamp},
		{"W-05: 300 s ahead", stripeV, stripe(stamp(300), "{}"), nil},
		{"W-05: 600 s ahead", stripeV, stripe(stamp(600), "{}"), webhook.ErrTimestamp},
		{"W-05: t=abc", stripeV, stripe("abc", "{}"), webhook.ErrHeader},
		{"W-05: t=", stripeV, stripe("", "{}"), webhook.ErrHeader},
		{"W-05: t=-1", stripeV, stripe("-1", "{}"), webhook.ErrHeader},
		{"W-05: t=+1700000000", stripeV, stripe("+1700000000", "{}"), webhook.ErrHeader},
		{"W-05: a time that overflows", stripeV, stripe("99999999999999999999", "{}"), webhook.ErrHeader},
		{"W-05: a time that overflows what a time can be", stripeV, stripe("9223372036854775807", "{}"), webhook.ErrHeader},
		{"W-05: the text of the time is what is signed, zeros and all", stripeV, stripe("01700000000", "{}"), nil},
		{"two times", stripeV, from("{}", "Stripe-Signature", "t=1700000000,t=1,v1="+hexMAC(secret, "1700000000.{}")), webhook.ErrHeader},
		{"only v0, which is for tests", stripeV, from("{}", "Stripe-Signature", "t=1700000000,v0="+hexMAC(secret, "1700000000.{}")), webhook.ErrHeader},
		{"the second v1 fits", stripeV, from("{}", "Stripe-Signature", "t=1700000000,v1=00,v1="+strings.Repeat("0", 64)+",v1="+hexMAC(secret, "1700000000.{}")), nil},
		{"a thousand parts", stripeV, from("{}", "Stripe-Signature", strings.Repeat("v1=00,", 1000)+"t=1"), webhook.ErrHeader},

		{"W-06: Slack", slackV, slack(stamp(0), "a=+&b=%20"), nil},
		{"W-06: without its time", slackV, from("{}", "X-Slack-Signature", "v0="+hexMAC(secret, "v0:1700000000:{}")), webhook.ErrHeader},
		{"W-06: v1=", slackV, from("{}", "X-Slack-Request-Timestamp", stamp(0), "X-Slack-Signature", "v1="+hexMAC(secret, "v0:1700000000:{}")), webhook.ErrHeader},
		{"W-06: a form that was parsed and written again", slackV, from("a=1&b=2", "X-Slack-Request-Timestamp", stamp(0), "X-Slack-Signature", "v0="+hexMAC(secret, "v0:1700000000:b=2&a=1")), webhook.ErrSignature},
		{"W-06: 301 s old", slackV, slack(stamp(-301), "{}"), webhook.ErrTimestamp},

		{"W-07, H2: no header", github, from("{}"), webhook.ErrHeader},
		{"W-07, H2: an empty header", github, from("{}", "X-Hub-Signature-256", ""), webhook.ErrHeader},
		{"W-07: only the older header", github, from("{}", "X-Hub-Signature", "sha1=d23b"), webhook.ErrHeader},
		{"W-08, H2: no key", &webhook.Verifier{}, hub("{}"), webhook.ErrOptions},
		{"W-08, H2: no verifier", nil, hub("{}"), webhook.ErrOptions},
		{"H2: a wrong signature", github, from("{}", "X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), webhook.ErrSignature},
		{"H2: one that is too short", github, from("{}", "X-Hub-Signature-256", "sha256="+hexMAC(secret, "{}")[:40]), webhook.ErrHeader},
		{"a prefix and nothing", github, from("{}", "X-Hub-Signature-256", "sha256="), webhook.ErrHeader},
		{"no prefix", github, from("{}", "X-Hub-Signature-256", hexMAC(secret, "{}")), webhook.ErrHeader},
		{"capital digits are the same bytes", github, from("{}", "X-Hub-Signature-256", "sha256="+strings.ToUpper(hexMAC(secret, "{}"))), nil},
		{"H3: a digest of secret and body is no MAC", github, from("{}", "X-Hub-Signature-256", fmt.Sprintf("sha256=%x", sha256.Sum256([]byte(secret+"{}")))), webhook.ErrSignature},

		{"W-09: the key is what the secret is the base64 of", standardV, standard(goodStandard), nil},
		{"W-09: the text of the secret as key", standardV, standard("v1," + b64MAC(standardSecret, `msg_1.1700000000.{"type":"ping"}`)), webhook.ErrSignature},
		{"W-09: the body alone", standardV, standard("v1," + b64MAC(standardKey, `{"type":"ping"}`)), webhook.ErrSignature},
		{"W-09: with url-safe digits", standardV, standard(strings.NewReplacer("+", "-", "/", "_").Replace(goodStandard) + "-"), webhook.ErrSignature},
		{"W-09: without padding", standardV, standard(strings.TrimRight(goodStandard, "=")), webhook.ErrSignature},
		{"W-10: among others", standardV, standard("v1,AAAA= v2,BBBB= " + goodStandard + " v1,CCCC="), nil},
		{"W-10: a MAC that says it is asymmetric", both, standard("v1a" + goodStandard[2:]), webhook.ErrSignature},
		{"W-10: a version and nothing", standardV, standard("v1"), webhook.ErrSignature},
		{"W-10: an empty signature", standardV, standard("v1,"), webhook.ErrSignature},
		{"W-10: no version", standardV, standard(goodStandard[2:]), webhook.ErrSignature},
		{"W-10: ten thousand of them", standardV, standard(strings.Repeat("v1,AAAA ", 10000) + goodStandard), webhook.ErrHeader},
		{"W-10: asymmetric", asymmetricV, standard("v1,AAAA= " + asymmetric), nil},
		{"W-10: an asymmetric one that says it is a MAC", both, standard("v1" + asymmetric[3:]), webhook.ErrSignature},
		{"W-10: a MAC for a verifier that has public keys only", asymmetricV, standard(goodStandard), webhook.ErrSignature},
		{"W-10: a MAC keyed with the public key", asymmetricV, standard("v1," + b64MAC(public, `msg_1.1700000000.{"type":"ping"}`)), webhook.ErrSignature},
		{"both kinds of key, either fits", both, standard(goodStandard), nil},
		{"W-11: another id", standardV, from(`{"type":"ping"}`, "webhook-id", "msg_2", "webhook-timestamp", "1700000000", "webhook-signature", goodStandard), webhook.ErrSignature},
		{"an id with a dot, which moves the border to the time", standardV, from("x", "webhook-id", "a.1", "webhook-timestamp", "1700000000", "webhook-signature", "v1,"+b64MAC(standardKey, "a.1.1700000000.x")), webhook.ErrHeader},
		{"headers of two families", standardV, from(`{"type":"ping"}`, "svix-id", "msg_1", "webhook-timestamp", "1700000000", "webhook-signature", goodStandard), webhook.ErrHeader},
		{"five minutes and a second", standardV, from("x", "webhook-id", "a", "webhook-timestamp", "1699999699", "webhook-signature", "v1,"+b64MAC(standardKey, "a.1699999699.x")), webhook.ErrTimestamp},

		{"W-13: the public address, whatever the request says", must(webhook.Square("https://example.com/webhook", []string{"asdf1234"}, nil)), square, nil},
		{"W-13: the address behind the proxy", must(webhook.Square("http://10.0.0.5:8080/webhook", []string{"asdf1234"}, nil)), square, webhook.ErrSignature},
		{"W-13: a slash at the end", must(webhook.Square("https://example.com/webhook/", []string{"asdf1234"}, nil)), square, webhook.ErrSignature},
		{"W-13: Twilio with the default port", must(webhook.Twilio("https://mycompany.com:443/myapp.php", []string{"12345"}, nil)), twilio, nil},
		{"W-13: Twilio with another port", must(webhook.Twilio("https://mycompany.com:8443/myapp.php", []string{"12345"}, nil)), twilio, webhook.ErrSignature},

		{"W-22: two lines, the first forged", github, hub("{}", "X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), webhook.ErrHeader},
		{"W-22: two ids", github, hub("{}", "X-GitHub-Delivery", "a", "X-GitHub-Delivery", "b"), webhook.ErrHeader},
		{"an id of many lines", github, hub("{}", "X-GitHub-Delivery", "a\nb"), webhook.ErrHeader},
		{"an id that is a book", github, hub("{}", "X-GitHub-Delivery", strings.Repeat("a", 257)), webhook.ErrHeader},

		{"GitLab: the token", token, from("{}", "X-Gitlab-Token", "the token"), nil},
		{"GitLab: another token", token, from("{}", "X-Gitlab-Token", "the toke"), webhook.ErrSignature},
		{"GitLab: none", token, from("{}"), webhook.ErrHeader},
		{"no request", github, nil, webhook.ErrRawBody},
	} {
		t.Run(row.why, func(t *testing.T) {
			d, err := row.v.Verify(row.r, at)
			if row.err == nil {
				require.NoError(t, err)
				require.NotEmpty(t, d.ID)
				return
			}
			require.ErrorIs(t, err, row.err)
			require.Zero(t, d)
			require.NotContains(t, err.Error(), secret)
		})
	}
}

// W-14: names are sorted, not names with their values. In the vectors too.
func TestTwilioSortsNames_W14(t *testing.T) {
	for id, want := range map[string]error{"twilio_go_sort": nil, "twilio_go_wrong_sort": webhook.ErrSignature, "twilio_repeated_params": nil} {
		v, r, at := vectors(t)[id].attempt(t)
		_, err := v.Verify(r, at)
		require.ErrorIs(t, err, want)
	}
	v := vectors(t)["twilio_docs"]
	verifier, r, at := v.attempt(t)
	r.Header.Set("Content-Type", "application/json")
	_, err := verifier.Verify(r, at)
	require.ErrorIs(t, err, webhook.ErrSignature, "a body that nothing signs")
	verifier, r, at = vectors(t)["twilio_go_json_body"].attempt(t)
	r.RawQuery += "&bodySHA256=" + strings.Repeat("0", 64)
	_, err = verifier.Verify(r, at)
	require.Error(t, err, "two digests")
}

// W-15: each item of a notification is signed, and all are looked at.
func TestAdyenItems_W15(t *testing.T) {
	key := "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"
	raw, err := hex.DecodeString(key)
	require.NoError(t, err)
	v := must(webhook.Adyen([]string{key}, nil))
	sign := func(text string) string { return b64MAC(string(raw), text) }
	good := adyenBody(sign("psp::account:ref:1000:EUR:AUTHORISATION:true"), []string{"psp", "", "account", "ref", "1000", "EUR", "AUTHORISATION", "true"})
	d, err := v.Verify(from(string(good)), someTime)
	require.NoError(t, err, "a field that is missing is signed as empty")
	require.Equal(t, "AUTHORISATION", d.Type)
	forged := adyenBody(sign("x"), []string{"psp", "", "account", "ref", "500000", "EUR", "AUTHORISATION", "true"})
	join := func(a, b []byte) string {
		item := func(b []byte) string {
			_, rest, _ := strings.Cut(string(b), `"notificationItems":[`)
			return strings.TrimSuffix(rest, "]}")
		}
		return `{"notificationItems":[` + item(a) + "," + item(b) + "]}"
	}
	for why, body := range map[string]string{
		"the second item is forged":    join(good, forged),
		"the first one is":             join(forged, good),
		"no items":                     `{"notificationItems":[]}`,
		"no list":                      `{}`,
		"an item that is none":         `{"notificationItems":[1]}`,
		"the value of the item twice":  strings.Replace(string(good), `"eventCode"`, `"eventCode":"X","eventCode"`, 1),
		"an amount that is an object":  strings.Replace(string(good), `"value":1000`, `"value":{}`, 1),
		"a border moved by a colon":    string(adyenBody(sign("psp::account:ref:1000:EUR:AUTHORISATION:true"), []string{"psp", "", "account:ref", "", "1000", "EUR", "AUTHORISATION", "true"})),
		"a hundred and one items":      `{"notificationItems":[` + strings.Repeat("{},", 100) + `{}]}`,
		"not JSON":                     "x",
		"a signature of another item":  string(adyenBody(sign("other::account:ref:1000:EUR:AUTHORISATION:true"), []string{"psp", "", "account", "ref", "1000", "EUR", "AUTHORISATION", "true"})),
		"an item that is not signed":   `{"notificationItems":[{"NotificationRequestItem":{"pspReference":"a"}}]}`,
		"the key as text, not as hex":  string(adyenBody(b64MAC(key, "psp::account:ref:1000:EUR:AUTHORISATION:true"), []string{"psp", "", "account", "ref", "1000", "EUR", "AUTHORISATION", "true"})),
		"an empty body where items go": "",
	} {
		_, err := v.Verify(from(body), someTime)
		require.Error(t, err, why)
	}
	text := `a\:b`
	escaped := adyenBody(sign(`psp::account:a\\\:b:1000:EUR:X:true`), []string{"psp", "", "account", text, "1000", "EUR", "X", "true"})
	_, err = v.Verify(from(string(escaped)), someTime)
	require.NoError(t, err, "colons and backslashes are escaped")
	d2, err := v.Verify(from(join(good, good)), someTime)
	require.NoError(t, err)
	require.NotEqual(t, d.ID, d2.ID)
}

// W-21: a handshake is answered to who can sign it.
func TestChallenge_W21(t *testing.T) {
	v := must(webhook.Slack([]string{secret}, nil))
	body := `{"type":"url_verification","challenge":"3eZbrw1a"}`
	d, err := v.Verify(slack("1700000000", body), someTime)
	require.NoError(t, err)
	require.Equal(t, "3eZbrw1a", d.Challenge)
	_, err = v.Verify(from(body), someTime)
	require.Error(t, err, "unsigned")
	for _, c := range []string{strings.Repeat("a", 257), `a\nb`} {
		d, err = v.Verify(slack("1700000000", `{"type":"url_verification","challenge":"`+c+`"}`), someTime)
		require.NoError(t, err)
		require.Empty(t, d.Challenge, "bounded, one line")
	}
	d, err = v.Verify(slack("1700000000", `{"type":"event_callback","event_id":"Ev1","event":{"type":"message"},"challenge":"x"}`), someTime)
	require.NoError(t, err)
	require.Empty(t, d.Challenge)
	require.Equal(t, "Ev1", d.ID)
	require.Equal(t, "message", d.Type)
}

// W-08: no constructor takes an empty secret, or none.
func TestNoKeyNoVerifier_W08(t *testing.T) {
	for name, make := range map[string]func([]string, *webhook.Options) (*webhook.Verifier, error){
		"github": webhook.GitHub, "gitea": webhook.Gitea, "shopify": webhook.Shopify, "slack": webhook.Slack, "stripe": webhook.Stripe,
		"standard": webhook.StandardWebhooks, "adyen": webhook.Adyen, "adyen platform": webhook.AdyenPlatform, "sendgrid": webhook.SendGrid, "gitlab": webhook.GitLabToken,
		"atlassian": func(s []string, o *webhook.Options) (*webhook.Verifier, error) {
			return webhook.Atlassian(webhook.Bitbucket, s, o)
		},
		"twilio": func(s []string, o *webhook.Options) (*webhook.Verifier, error) {
			return webhook.Twilio("https://a.example/", s, o)
		},
		"square": func(s []string, o *webhook.Options) (*webhook.Verifier, error) {
			return webhook.Square("https://a.example/", s, o)
		},
		"hubspot": func(s []string, o *webhook.Options) (*webhook.Verifier, error) {
			return webhook.HubSpot("https://a.example/", s, o)
		},
		"legacy": func(s []string, o *webhook.Options) (*webhook.Verifier, error) {
			return webhook.HubSpotLegacy("https://a.example/", s, o)
		},
		"own": func(s []string, o *webhook.Options) (*webhook.Verifier, error) { return webhook.NewHMAC(box, s, o) },
	} {
		for _, secrets := range [][]string{nil, {}, {""}, {" "}, {"good enough", ""}, {"from a file\n"}, {"whsec_"}, strings.Split(strings.Repeat("aa ", 9)+"aa", " ")} {
			if len(secrets) == 1 && secrets[0] == "whsec_" && name != "standard" {
				continue // a fine secret elsewhere
			}
			v, err := make(secrets, nil)
			require.ErrorIs(t, err, webhook.ErrOptions, "%s %q", name, secrets)
			require.Nil(t, v)
			for _, s := range secrets {
				if len(s) > 3 {
					require.NotContains(t, err.Error(), s)
				}
			}
		}
		for _, d := range []time.Duration{-1, 2 * time.Hour} {
			_, err := make([]string{secret}, &webhook.Options{Tolerance: d})
			require.ErrorIs(t, err, webhook.ErrOptions)
		}
	}
	for _, url := range []string{"", "/path", "https://a.example/?q=1", "https://a.example/#f", "https://u@a.example/", "a.example", "://"} {
		_, err := webhook.Twilio(url, []string{secret}, nil)
		require.ErrorIs(t, err, webhook.ErrOptions, url)
		_, err = webhook.Square(url, []string{secret}, nil)
		require.ErrorIs(t, err, webhook.ErrOptions, url)
	}
	for why, h := range map[string]webhook.HMAC{
		"no name":                     {Headers: []string{"X"}},
		"no header":                   {Name: "x"},
		"the body is not signed":      {Name: "x", Headers: []string{"X"}, Signed: "{timestamp}", Timestamp: "T"},
		"a time that is not signed":   {Name: "x", Headers: []string{"X"}, Timestamp: "T"},
		"a time that has no header":   {Name: "x", Headers: []string{"X"}, Signed: "{timestamp}{body}"},
		"an id that has no header":    {Name: "x", Headers: []string{"X"}, Signed: "{id}{body}"},
		"an address that is not told": {Name: "x", Headers: []string{"X"}, Signed: "{url}{body}"},
		"a word of nobody":            {Name: "x", Headers: []string{"X"}, Signed: "{body}{host}"},
		"a word without an end":       {Name: "x", Headers: []string{"X"}, Signed: "{body}{body"},
	} {
		_, err := webhook.NewHMAC(h, []string{secret}, nil)
		require.ErrorIs(t, err, webhook.ErrOptions, why)
	}
}

// Several secrets: the old one is good until it is taken away.
func TestRotation_P5(t *testing.T) {
	v := must(webhook.GitHub([]string{"the next", secret}, nil))
	_, err := v.Verify(hub("{}"), someTime)
	require.NoError(t, err)
	_, err = must(webhook.GitHub([]string{"the next"}, nil)).Verify(hub("{}"), someTime)
	require.ErrorIs(t, err, webhook.ErrSignature)
	for _, text := range []string{fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s %q %x", v, v, v)} {
		require.NotContains(t, text, "next", "R10")
		require.Contains(t, text, "github")
	}
}

// A delivery that is captured and sent again under another id has another name
// that gives it away, in schemes that do not sign the id.
func TestNames_P5(t *testing.T) {
	v := must(webhook.GitHub([]string{secret}, nil))
	a, err := v.Verify(hub("{}", "X-GitHub-Delivery", "a", "X-GitHub-Event", "push"), someTime)
	require.NoError(t, err)
	b, err := v.Verify(hub("{}", "X-GitHub-Delivery", "b", "X-GitHub-Event", "push"), someTime)
	require.NoError(t, err)
	require.NotEqual(t, a.ID, b.ID)
	require.Equal(t, a.Digest, b.Digest)
	require.Equal(t, "push", a.Type)
	v = must(webhook.GitHub([]string{secret}, &webhook.Options{RepeatedBodies: true}))
	a, err = v.Verify(hub("{}", "X-GitHub-Delivery", "a"), someTime)
	require.NoError(t, err)
	require.Empty(t, a.Digest)
	a, err = must(webhook.Stripe([]string{secret}, nil)).Verify(stripe("1700000000", `{"id":"evt_1","type":"charge.failed"}`), someTime)
	require.NoError(t, err)
	require.Equal(t, []string{"evt_1", "", "charge.failed"}, []string{a.ID, a.Digest, a.Type}, "a signed id needs no other")
	h := must(webhook.HubSpot("https://a.example/", []string{secret}, nil))
	batch := func(attempt int) *webhook.Request {
		body := fmt.Sprintf(`[{"eventId":2,"attemptNumber":%d},{"eventId":1,"subscriptionType":"x"}]`, attempt)
		return from(body, "X-HubSpot-Signature-v3", b64MAC(secret, "POSThttps://a.example/"+body+"1700000000000"), "X-HubSpot-Request-Timestamp", "1700000000000")
	}
	a, err = h.Verify(batch(0), someTime)
	require.NoError(t, err)
	b, err = h.Verify(batch(1), someTime)
	require.NoError(t, err)
	require.Equal(t, a.ID, b.ID, "HubSpot counts attempts in the body")
}

func FuzzVerify(f *testing.F) {
	public, _ := publicKey()
	sendgrid := vectors(f)["sendgrid_ecdsa_p256"].PublicKey
	all := []*webhook.Verifier{
		must(webhook.GitHub([]string{secret}, nil)), must(webhook.Slack([]string{secret}, nil)), must(webhook.Stripe([]string{secret}, nil)),
		must(webhook.StandardWebhooks([]string{standardSecret, public}, nil)), must(webhook.Twilio("https://a.example/", []string{secret}, nil)),
		must(webhook.Adyen([]string{"aabb"}, nil)), must(webhook.SendGrid([]string{sendgrid}, nil)), must(webhook.HubSpotLegacy("https://a.example/", []string{secret}, nil)),
		must(webhook.HubSpot("https://a.example/", []string{secret}, nil)), must(webhook.NewHMAC(box, []string{secret}, nil)), must(webhook.GitLabToken([]string{secret}, nil)),
	}
	names := []string{"X-Hub-Signature-256", "X-Slack-Signature", "Stripe-Signature", "webhook-signature", "X-Twilio-Signature", "", "X-Twilio-Email-Event-Webhook-Signature", "X-HubSpot-Signature", "X-HubSpot-Signature-v3", "Box-Signature-Primary", "X-Gitlab-Token"}
	f.Add(0, "sha256=00", "1700000000", "{}", "bodySHA256=00")
	f.Add(2, "t=1700000000,v1=00", "1700000000", "[{}]", "")
	f.Add(3, goodStandard, "1700000000", `{"type":"ping"}`, "")
	f.Add(5, "", "", `{"notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":"AA=="}}}]}`, "")
	f.Fuzz(func(t *testing.T, which int, sig, stamp, body, query string) {
		i := int(uint(which) % uint(len(all)))
		r := from(body, "X-Slack-Request-Timestamp", stamp, "webhook-timestamp", stamp, "webhook-id", "id", "X-Twilio-Email-Event-Webhook-Timestamp", stamp, "X-HubSpot-Request-Timestamp", stamp,
			"Box-Delivery-Timestamp", stamp, "X-HubSpot-Signature-Version", "v2", "Content-Type", "application/x-www-form-urlencoded", names[i], sig)
		r.RawQuery = query
		d, err := all[i].Verify(r, someTime)
		if err != nil {
			require.Zero(t, d)
			return
		}
		require.NotEmpty(t, d.ID) // a fuzzer has no key: only seeds get here
		require.LessOrEqual(t, len(d.ID), 256)
	})
}

// W-23: Box writes what is not ASCII as escapes in small letters; the bytes on
// the wire are what counts, however they could be written otherwise.
func TestBytesOnTheWire_W23(t *testing.T) {
	for _, id := range []string{"box_emoji_wire", "box_slash_wire", "box_backslash_wire", "box_carriage_return_wire"} {
		v, r, at := vectors(t)[id].attempt(t)
		_, err := v.Verify(r, at)
		require.NoError(t, err, id)
		decoded := strings.NewReplacer(`\ud83d\ude00`, "\U0001F600", `\/`, "/", `\\`, "\\", `\r`, "\r").Replace(string(r.Body))
		require.NotEqual(t, decoded, string(r.Body))
		for _, other := range []string{decoded, strings.ToUpper(string(r.Body))} {
			r.Body = []byte(other)
			_, err = v.Verify(r, at)
			require.ErrorIs(t, err, webhook.ErrSignature, id)
		}
	}
}
