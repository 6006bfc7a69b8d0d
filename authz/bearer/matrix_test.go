package bearer_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
)

// A row of the matrix is one token, and what must come of it. corrects names
// the libraries that let it pass by default, as measured for one RS256 key with
// a list of algorithms, issuer and audience configured.
type row struct {
	name     string
	id       string // of the requirement
	corrects string
	token    func(w *world) string
	status   int    // 0: 401 with invalid_token
	why      string // in the operator's log
	set      func(*setup)
}

// claims makes a token with other claims.
func claims(change map[string]any) func(*world) string {
	return func(w *world) string { return w.as.Sign(w.with(change), nil) }
}

func header(change map[string]any) func(*world) string {
	return func(w *world) string { return w.as.Sign(w.with(nil), change) }
}

// after makes a token with a time so many seconds from now.
func after(claim string, seconds int64) func(*world) string {
	return func(w *world) string {
		return w.as.Sign(w.with(map[string]any{claim: time.Now().Unix() + seconds}), nil)
	}
}

// raw makes a token of two texts; CLAIMS in payload stands for the members of
// good claims without iss, aud and exp.
func raw(head, payload string) func(*world) string {
	return func(w *world) string {
		k := w.as.Signer()
		good, _ := json.Marshal(w.with(map[string]any{"iss": nil, "aud": nil, "exp": nil}))
		members := strings.Trim(string(good), "{}")
		return w.as.SignText(k, strings.ReplaceAll(head, "KID", k.ID), strings.ReplaceAll(payload, "CLAIMS", members))
	}
}

const (
	goodHead = `{"alg":"ES256","kid":"KID","typ":"at+jwt"}`
	goodRest = `"iss":"https://issuer.test","exp":9999999999,CLAIMS`
)

// change changes the text of a good token.
func change(f func(string) string) func(*world) string {
	return func(w *world) string { return f(w.as.Sign(w.with(nil), nil)) }
}

// foreign makes a token with a key that is not the issuer's, and a header that
// says where to find it.
func foreign(name string, value any) func(*world) string {
	return func(w *world) string {
		k := w.as.Make("ES256")
		if value == nil {
			value = k.Public()
		}
		head, _ := json.Marshal(map[string]any{"alg": "ES256", "kid": w.as.Signer().ID, "typ": "at+jwt", name: value})
		payload, _ := json.Marshal(w.with(nil))
		return w.as.SignText(k, string(head), string(payload))
	}
}

// macWithPublicKey is a token under HS256 whose key is the issuer's public one.
func macWithPublicKey(w *world) string {
	der, _ := x509.MarshalPKIXPublicKey(w.as.Signer().Public().Key)
	encode := base64.RawURLEncoding.EncodeToString
	payload, _ := json.Marshal(w.with(nil))
	input := encode([]byte(`{"alg":"HS256","kid":"`+w.as.Signer().ID+`","typ":"at+jwt"}`)) + "." + encode(payload)
	mac := hmac.New(sha256.New, der)
	mac.Write([]byte(input))
	return input + "." + encode(mac.Sum(nil))
}

func matrix() []row {
	const all = "go-oidc, go-jose, golang-jwt, jwx"
	algs := func(a ...string) func(*setup) { return func(s *setup) { s.jwt.Algorithms = a } }
	untyped := func(s *setup) { s.jwt.AllowUntyped = true }
	return []row{
		// Controls: what must pass.
		{name: "a good token", token: claims(nil), status: 200},
		{name: "RS256", token: func(w *world) string { w.as.Rotate("RS256"); return w.as.Token(resource, "alice") }, status: 200},
		{name: "PS256", token: func(w *world) string { w.as.Rotate("PS256"); return w.as.Token(resource, "alice") }, status: 200},
		{name: "EdDSA", token: func(w *world) string { w.as.Rotate("EdDSA"); return w.as.Token(resource, "alice") }, status: 200},
		{name: "an audience among others", id: "H1-26", token: claims(map[string]any{"aud": []string{"https://other.test", resource}}), status: 200},
		{name: "the long type", id: "H1-20", token: header(map[string]any{"typ": "application/at+jwt"}), status: 200},
		{name: "the type in capitals", id: "H1-20", token: header(map[string]any{"typ": "AT+JWT"}), status: 200},
		{name: "an end with a fraction", id: "H1-27", token: claims(map[string]any{"exp": 9999999999.5}), status: 200},
		{name: "a header that says where keys are, with the issuer's signature", id: "H1-23", token: header(map[string]any{"jku": "https://evil.test/keys", "x5u": "https://evil.test/cert"}), status: 200},

		// Type and algorithm.
		{name: "an ID token's type", id: "H1-20", corrects: all, token: header(map[string]any{"typ": "JWT"}), why: "type"},
		{name: "no type", id: "H1-20", corrects: all, token: header(map[string]any{"typ": nil}), why: "type"},
		{name: "a type that is no string", id: "H1-20", token: header(map[string]any{"typ": 1}), why: "typ is no string"},
		{name: "a type of something else", id: "H1-20", token: header(map[string]any{"typ": "logout+jwt"}), why: "type"},
		{name: "no type, where the issuer is said to be old", id: "H1-20", token: header(map[string]any{"typ": nil}), set: untyped, status: 200},
		{name: "the type JWT, where the issuer is said to be old", id: "H1-20", token: header(map[string]any{"typ": "JWT"}), set: untyped, status: 200},
		{name: "another type, where the issuer is said to be old", id: "H1-20", token: header(map[string]any{"typ": "dpop+jwt"}), set: untyped, why: "type"},
		{name: "alg none", id: "H1-21", token: header(map[string]any{"alg": "none"}), why: "algorithm"},
		{name: "alg none without a signature", id: "H1-21", token: func(w *world) string {
			t := header(map[string]any{"alg": "none"})(w)
			return t[:strings.LastIndex(t, ".")+1]
		}, why: "well-formed"},
		{name: "alg nOnE", id: "H1-21", token: header(map[string]any{"alg": "nOnE"}), why: "algorithm"},
		{name: "an algorithm that is not on the list", id: "H1-21", token: claims(nil), set: algs("RS256"), why: "algorithm"},
		{name: "alg missing", id: "H1-21", token: header(map[string]any{"alg": nil}), why: "alg is missing"},
		{name: "a MAC by the public key", id: "H1-22", token: macWithPublicKey, why: "algorithm"},
		{name: "an algorithm of another kind of key", id: "H1-22", token: header(map[string]any{"alg": "RS256"}), why: "no key"},
		{name: "an algorithm of the same kind of key, which the key is not for", id: "H1-22", token: func(w *world) string {
			other := *w.as.Rotate("RS256")
			other.Algorithm = "PS256"
			payload, _ := json.Marshal(w.with(nil))
			return w.as.SignText(&other, `{"alg":"PS256","kid":"`+other.ID+`","typ":"at+jwt"}`, string(payload))
		}, why: "no key"},

		// Keys from the token.
		{name: "the key in the header", id: "H1-23", token: foreign("jwk", nil), why: "no key"},
		{name: "a URL of keys in the header", id: "H1-23", token: foreign("jku", "https://evil.test/keys"), why: "no key"},
		{name: "a URL of certificates in the header", id: "H1-23", token: foreign("x5u", "https://evil.test/cert"), why: "no key"},
		{name: "certificates in the header", id: "H1-23", token: foreign("x5c", []string{"MIIB"}), why: "no key"},
		{name: "no kid", id: "H1-23", corrects: "go-oidc, golang-jwt, jwx (with one key in the set)", token: header(map[string]any{"kid": nil}), why: "kid"},
		{name: "a kid that is no string", id: "H1-23", token: header(map[string]any{"kid": 7}), why: "kid"},
		{name: "an unknown kid", id: "H1-40", token: header(map[string]any{"kid": "../../dev/null"}), why: "not the issuer's"},

		// Extensions.
		{name: "a critical extension", id: "H1-24", corrects: "golang-jwt, jwx", token: header(map[string]any{"crit": []string{"x"}, "x": 1}), why: "extension"},
		{name: "an unencoded payload", id: "H1-24", token: header(map[string]any{"crit": []string{"b64"}, "b64": true}), why: "extension"},
		{name: "an empty list of extensions", id: "H1-24", token: header(map[string]any{"crit": []string{}}), why: "extension"},
		{name: "an extension that is not called critical", id: "H1-24", token: header(map[string]any{"b64": false}), why: "extension"},

		// Issuer.
		{name: "an issuer with a slash", id: "H1-25", token: claims(map[string]any{"iss": "https://issuer.test/"}), why: "not configured"},
		{name: "an issuer in capitals", id: "H1-25", token: claims(map[string]any{"iss": "https://ISSUER.test"}), why: "not configured"},
		{name: "an issuer with the port", id: "H1-25", token: claims(map[string]any{"iss": "https://issuer.test:443"}), why: "not configured"},
		{name: "an issuer with an escape", id: "H1-25", token: claims(map[string]any{"iss": "https://issuer.tes%74"}), why: "not configured"},
		{name: "an issuer with another scheme", id: "H1-25", token: claims(map[string]any{"iss": "http://issuer.test"}), why: "not configured"},
		{name: "an issuer with a space", id: "H1-25", token: claims(map[string]any{"iss": "https://issuer.test "}), why: "not configured"},
		{name: "no issuer", id: "H1-25", token: claims(map[string]any{"iss": nil}), why: "names no issuer"},
		{name: "an issuer that is a list", id: "H1-25", token: claims(map[string]any{"iss": []string{"https://issuer.test"}}), why: "not configured"},

		// Audience.
		{name: "another audience", id: "H1-26", token: claims(map[string]any{"aud": "https://other.test/mcp"}), why: "another resource"},
		{name: "an audience below", id: "H1-26", token: claims(map[string]any{"aud": resource + "/x"}), why: "another resource"},
		{name: "an audience beside", id: "H1-26", token: claims(map[string]any{"aud": "https://mcp.test/public/mcp2"}), why: "another resource"},
		{name: "an audience above", id: "H1-26", token: claims(map[string]any{"aud": "https://mcp.test"}), why: "another resource"},
		{name: "an audience with a slash", id: "H1-26", corrects: "go-sdk's MatchesResource", token: claims(map[string]any{"aud": resource + "/"}), why: "another resource"},
		{name: "an audience in capitals", id: "H1-26", token: claims(map[string]any{"aud": "https://MCP.test/public/mcp"}), why: "another resource"},
		{name: "the client as audience, as in an ID token", id: "H1-26", token: claims(map[string]any{"aud": "client-1"}), why: "another resource"},
		{name: "no audience", id: "H1-26", token: claims(map[string]any{"aud": nil}), why: "another resource"},
		{name: "an empty list of audiences", id: "H1-26", token: claims(map[string]any{"aud": []string{}}), why: "another resource"},
		{name: "an audience that is null", id: "H1-26", token: raw(goodHead, `{"aud":null,`+goodRest+`}`), why: "aud is no string"},
		{name: "an audience with a number", id: "H1-26", token: claims(map[string]any{"aud": []any{resource, 1}}), why: "aud is no string"},
		{name: "an alias that nobody wrote down", id: "H1-26", token: claims(map[string]any{"aud": "urn:mcp"}), why: "another resource"},
		{name: "an alias that somebody wrote down", id: "H1-26", token: claims(map[string]any{"aud": "urn:mcp"}), set: func(s *setup) { s.jwt.Aliases = []string{"urn:mcp"} }, status: 200},

		// Times.
		{name: "no end", id: "H1-27", corrects: "go-jose, golang-jwt, jwx", token: claims(map[string]any{"exp": nil}), why: "exp is missing"},
		{name: "an end that is null", id: "H1-27", token: raw(goodHead, `{"exp":null,"iss":"https://issuer.test","aud":"`+resource+`",CLAIMS}`), why: "exp is missing"},
		{name: "an end in a string", id: "H1-29", corrects: "go-oidc, jwx", token: claims(map[string]any{"exp": "9999999999"}), why: "exp is missing"},
		{name: "an end out of every range", id: "H1-29", token: raw(goodHead, `{"exp":1e400,"iss":"https://issuer.test","aud":"`+resource+`",CLAIMS}`), why: "exp is missing"},
		{name: "an end before time", id: "H1-29", token: claims(map[string]any{"exp": -1}), why: "exp is missing"},
		{name: "an end within the leeway", id: "H1-28", token: after("exp", -29), status: 200},
		{name: "an end at the leeway", id: "H1-28", token: after("exp", -30), why: "expired"},
		{name: "an end a second after the leeway", id: "H1-28", token: after("exp", -31), why: "expired"},
		{name: "a beginning within the leeway", id: "H1-28", token: after("nbf", 30), status: 200},
		{name: "a beginning after the leeway", id: "H1-28", corrects: "go-oidc (five minutes)", token: after("nbf", 31), why: "not valid yet"},
		{name: "a beginning in two minutes", id: "H1-28", corrects: "go-oidc", token: after("nbf", 120), why: "not valid yet"},
		{name: "a beginning in a string", id: "H1-29", token: claims(map[string]any{"nbf": "1"}), why: "nbf is no number"},
		{name: "issued within the leeway", id: "H1-28", token: after("iat", 30), status: 200},
		{name: "issued after the leeway", id: "H1-28", token: after("iat", 31), why: "issued in the future"},
		{name: "issued in an hour", id: "H1-28", corrects: "go-oidc, golang-jwt", token: after("iat", 3600), why: "issued in the future"},
		{name: "not issued", id: "H1-29", token: claims(map[string]any{"iat": nil}), why: "iat is missing"},

		// The others of RFC 9068.
		{name: "no subject", id: "H1-29", corrects: all, token: claims(map[string]any{"sub": nil}), why: "sub is missing"},
		{name: "an empty subject", id: "H1-29", corrects: all, token: claims(map[string]any{"sub": ""}), why: "sub is missing"},
		{name: "a subject that is a number", id: "H1-29", token: claims(map[string]any{"sub": 7}), why: "sub is missing"},
		{name: "a subject that ends the line", id: "H1-32", token: claims(map[string]any{"sub": "alice\nadmin"}), why: "no principal"},
		{name: "no client", id: "H1-29", corrects: all, token: claims(map[string]any{"client_id": nil}), why: "client_id is missing"},
		{name: "no id", id: "H1-29", corrects: all, token: claims(map[string]any{"jti": nil}), why: "jti is missing"},
		{name: "scopes that are a number", id: "H1-29", token: claims(map[string]any{"scope": 7}), why: "scopes are no strings"},
		{name: "a scope that breaks out of a challenge", id: "H1-29", token: claims(map[string]any{"scope": `a" error="x`}), why: "characters"},

		// Two readings of one text.
		{name: "the audience twice", id: "H1-30", corrects: "go-oidc, golang-jwt, jwx", token: raw(goodHead, `{"aud":"https://other.test","aud":"`+resource+`",`+goodRest+`}`), why: "well-formed"},
		{name: "the audience twice but for case", id: "H1-30", corrects: "go-oidc, golang-jwt, jwx", token: raw(goodHead, `{"AUD":"https://other.test","aud":"`+resource+`",`+goodRest+`}`), why: "well-formed"},
		{name: "the algorithm twice", id: "H1-30", corrects: "go-oidc, golang-jwt, jwx", token: raw(`{"alg":"none","alg":"ES256","kid":"KID","typ":"at+jwt"}`, `{"aud":"`+resource+`",`+goodRest+`}`), why: "well-formed"},
		{name: "the actor's name twice", id: "H1-30", token: raw(goodHead, `{"act":{"sub":"a","sub":"b"},"aud":"`+resource+`",`+goodRest+`}`), why: "well-formed"},
		{name: "control: the same once", token: raw(goodHead, `{"aud":"`+resource+`",`+goodRest+`}`), status: 200},
		{name: "claims that go on", id: "H1-31", token: raw(goodHead, `{"aud":"`+resource+`",`+goodRest+`}{}`), why: "well-formed"},
		{name: "claims that are a list", id: "H1-31", token: raw(goodHead, `[]`), why: "well-formed"},
		{name: "claims that are no UTF-8", id: "H1-31", token: raw(goodHead, "{\"sub\":\"\xff\","+goodRest+`}`), why: "well-formed"},
		{name: "claims nested without end", id: "H1-31", token: raw(goodHead, `{"x":`+strings.Repeat("[", 3000)+strings.Repeat("]", 3000)+`,`+goodRest+`}`), why: "well-formed"},

		// Form.
		{name: "the JSON serialization", id: "H1-31", corrects: "go-oidc", token: change(func(t string) string {
			p := strings.Split(t, ".")
			return `{"protected":"` + p[0] + `","payload":"` + p[1] + `","signature":"` + p[2] + `"}`
		}), status: 400, why: "no single token"},
		{name: "a fourth part", id: "H1-31", token: change(func(t string) string { return t + ".x" }), why: "names no issuer"},
		{name: "two parts", id: "H1-31", token: change(func(t string) string { return t[:strings.LastIndex(t, ".")] }), why: "names no issuer"},
		{name: "no signature", id: "H1-31", token: change(func(t string) string { return t[:strings.LastIndex(t, ".")+1] }), why: "well-formed"},
		{name: "padding", id: "H1-31", token: change(func(t string) string { return t + "==" }), why: "well-formed"},
		{name: "a space inside", id: "H1-31", token: change(func(t string) string { return strings.Replace(t, ".", ". ", 1) }), status: 400, why: "no single token"},
		{name: "the other alphabet", id: "H1-31", token: change(func(t string) string { return t[:len(t)-4] + "+/+/" }), why: "well-formed"},
		{name: "bits that mean nothing", id: "H1-31", token: change(looseBits), why: "well-formed"},
		{name: "too long", id: "H1-31", token: claims(map[string]any{"x": strings.Repeat("x", 16<<10)}), why: "too long"},
		{name: "as long as may be", id: "H1-31", token: claims(map[string]any{"x": strings.Repeat("x", 11<<10)}), status: 200},
		{name: "text", id: "H1-06", token: func(*world) string { return "not-a-token" }, why: "names no issuer"},
		{name: "another signature", id: "H1-06", token: func(w *world) string {
			one, two := claims(nil)(w), claims(nil)(w)
			return one[:strings.LastIndex(one, ".")] + two[strings.LastIndex(two, "."):]
		}, why: "no key"},
		{name: "other claims under a signature", id: "H1-06", token: func(w *world) string {
			one, two := strings.Split(claims(nil)(w), "."), strings.Split(claims(map[string]any{"sub": "root"})(w), ".")
			return one[0] + "." + two[1] + "." + one[2]
		}, why: "no key"},

		// Bound to a key, and made for somebody else.
		{name: "bound to a key of DPoP, as Bearer", id: "H1-60", token: claims(map[string]any{"cnf": map[string]any{"jkt": "x"}}), why: "another scheme"},
		{name: "bound to a certificate", id: "H1-61", token: claims(map[string]any{"cnf": map[string]any{"x5t#S256": "x"}}), why: "cannot be checked"},
		{name: "bound to something new", id: "H1-61", token: claims(map[string]any{"cnf": map[string]any{"quantum": "x"}}), why: "cannot be checked"},
		{name: "bound to nothing", id: "H1-61", token: claims(map[string]any{"cnf": map[string]any{}}), why: "not known"},
		{name: "bound to null", id: "H1-61", token: raw(goodHead, `{"cnf":null,"aud":"`+resource+`",`+goodRest+`}`), why: "not known"},
		{name: "an actor without a name", id: "H1-33", token: claims(map[string]any{"act": map[string]any{}}), why: "actor has no sub"},
		{name: "an actor that is a string", id: "H1-33", token: claims(map[string]any{"act": "agent"}), why: "actor has no sub"},
		{name: "an actor of another issuer", id: "H1-33", token: claims(map[string]any{"act": map[string]any{"sub": "agent", "iss": "https://other.test"}}), why: "another issuer"},
		{name: "an earlier actor without a name", id: "H1-33", token: claims(map[string]any{"act": map[string]any{"sub": "agent", "act": 7}}), why: "actor has no sub"},

		// Which comes first.
		{name: "expired, and too few scopes", id: "H1-08", corrects: "go-sdk's RequireBearerToken (403)", token: func(w *world) string {
			return w.as.Sign(w.with(map[string]any{"scope": "", "exp": time.Now().Unix() - 3600}), nil)
		}, set: func(s *setup) { s.opts.Scopes = []string{"tickets.read"} }, why: "expired"},
		{name: "too few scopes", id: "H1-07", token: claims(map[string]any{"scope": "x"}), set: func(s *setup) { s.opts.Scopes = []string{"tickets.read"} }, status: 403, why: "too few scopes"},
	}
}

// looseBits sets bits of the last character that its decoding drops.
func looseBits(t string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	at := strings.IndexByte(alphabet, t[len(t)-1]) // 64 bytes leave 4 bits
	return t[:len(t)-1] + string(alphabet[at^1])
}

// The matrix: every row in a bubble of its own, so that times are exact. What a
// caller is told is the same for every reason.
func TestNegativeMatrix_A1_A2(t *testing.T) {
	for _, row := range matrix() {
		t.Run(row.id+" "+row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(s *setup) {
					if row.set != nil {
						row.set(s)
					}
				})
				token := row.token(w)
				got := w.post(token)
				require.LessOrEqual(t, w.as.Fetches(), 2)
				if row.status == 200 {
					require.Equal(t, 200, got.Status, w.log.String())
					require.Equal(t, "acme/alice", w.who.String())
					require.Equal(t, list, w.body)
					return
				}
				status, oauth := row.status, map[int]string{400: "invalid_request", 401: "invalid_token", 403: "insufficient_scope"}
				if status == 0 {
					status = http.StatusUnauthorized
				}
				require.Equal(t, status, got.Status, got.Text)
				require.Contains(t, got.Challenge, `error="`+oauth[status]+`", resource_metadata="`+metadataURL+`"`)
				require.Equal(t, 7.0, got.ID)
				require.Equal(t, status, got.Error.Code)
				require.Zero(t, w.runs)
				require.Contains(t, w.log.String(), row.why)
				require.NotContains(t, w.log.String(), token)
			})
		})
	}
}

// H1-12: what the caller is told about a token depends on nothing but that it is not
// valid.
func TestOneAnswerForEveryInvalidToken_H1_12(t *testing.T) {
	texts := map[string]bool{}
	for _, row := range matrix() {
		if row.status == 0 && row.set == nil {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				got := w.post(row.token(w))
				texts[got.Text+got.Challenge] = true
			})
		}
	}
	require.Len(t, texts, 1)
}

// A2, H1-25: A key of one issuer verifies no token of another, and each issuer has its own
// list of algorithms.
func TestSeveralIssuers_A2_H1_25(t *testing.T) {
	other := newWorld(t).as
	other.Issuer = "https://other.test"
	v, err := bearer.NewJWT(other.Issuer, other.Keys(), bearer.OneTenant("globex"), &bearer.JWTOptions{Egress: other.Egress()})
	require.NoError(t, err)
	w := newWorld(t, func(s *setup) { s.more = []*bearer.Verifier{v} })

	require.Equal(t, 200, w.post(w.as.Token(resource, "alice")).Status)
	require.Equal(t, "acme/alice", w.who.String())
	require.Equal(t, 200, w.post(other.Token(resource, "alice")).Status)
	require.Equal(t, "globex/alice", w.who.String())
	require.Equal(t, "https://other.test", w.who.Key().Issuer, "the same name of two issuers is two principals (H1-32)")

	lie := w.with(map[string]any{"iss": other.Issuer})
	require.Equal(t, 401, w.post(w.as.Sign(lie, nil)).Status, "signed by the first, in the name of the second")
	require.Equal(t, 401, w.post(w.as.Sign(lie, map[string]any{"kid": other.Signer().ID})).Status, "and with the second's kid")
}
