package bearer_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
)

// holder is a client with a key.
type holder struct {
	as  *bearertest.Server
	key *bearertest.Key
	jwk map[string]any
	jkt string
}

func newHolder(t testing.TB, as *bearertest.Server, algorithm string, private crypto.Signer) *holder {
	h := &holder{as: as, key: bearertest.KeyOf("x", algorithm, private)}
	public := jose.JSONWebKey{Key: private.Public()}
	text, err := public.MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &h.jwk))
	sum, err := public.Thumbprint(crypto.SHA256)
	require.NoError(t, err)
	h.jkt = base64.RawURLEncoding.EncodeToString(sum)
	return h
}

func p256(t testing.TB) crypto.Signer {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return k
}

func ath(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// parts are the header and the claims of a good proof.
func (h *holder) parts(token string) (header, claims map[string]any) {
	return map[string]any{"typ": "dpop+jwt", "alg": h.key.Algorithm, "jwk": h.jwk},
		map[string]any{"jti": rand.Text(), "htm": "POST", "htu": resource, "iat": time.Now().Unix(), "ath": ath(token)}
}

func (h *holder) sign(header, claims map[string]any) string {
	first, _ := json.Marshal(header)
	second, _ := json.Marshal(claims)
	return h.as.SignText(h.key, string(first), string(second))
}

func (h *holder) proof(token string, change map[string]any) string {
	header, claims := h.parts(token)
	maps.Copy(claims, change)
	return h.sign(header, claims)
}

// bound is a token for the holder.
func (h *holder) bound(w *world) string {
	return w.as.Sign(w.with(map[string]any{"cnf": map[string]any{"jkt": h.jkt}}), nil)
}

func withDPoP(t testing.TB, opts *bearer.DPoPOptions) func(*setup) {
	return func(s *setup) {
		d, err := bearer.NewDPoP(resource, opts)
		require.NoError(t, err)
		s.opts.Confirm = map[string]bearer.ConfirmFunc{"jkt": d.Confirm}
	}
}

// prove presents a token with proofs.
func (w *world) prove(token string, proofs ...string) reply {
	return w.post("", set("Authorization", "DPoP "+token), set("DPoP", proofs...))
}

// H1-60: every rule of RFC 9449, section 4.3, and 7.1.
func TestDPoP_H1_60(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withDPoP(t, nil))
		h, other := newHolder(t, w.as, "ES256", p256(t)), newHolder(t, w.as, "ES256", p256(t))
		token := h.bound(w)
		claim := func(name string, v any) func(string) []string {
			return func(token string) []string { return []string{h.proof(token, map[string]any{name: v})} }
		}
		without := func(name string) func(string) []string {
			return func(token string) []string {
				header, claims := h.parts(token)
				delete(claims, name)
				return []string{h.sign(header, claims)}
			}
		}
		head := func(name string, v any) func(string) []string {
			return func(token string) []string {
				header, claims := h.parts(token)
				if header[name] = v; v == nil {
					delete(header, name)
				}
				return []string{h.sign(header, claims)}
			}
		}
		ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
		private := maps.Clone(h.jwk)
		private["d"] = "AAAA"
		rows := []struct {
			name   string
			status int
			proofs func(token string) []string
		}{
			{"control: a good proof", 200, func(token string) []string { return []string{h.proof(token, nil)} }},
			{"no proof", 401, func(string) []string { return nil }},
			{"two proofs", 401, func(token string) []string { return []string{h.proof(token, nil), h.proof(token, nil)} }},
			{"two in one header", 401, func(token string) []string { return []string{h.proof(token, nil) + ", " + h.proof(token, nil)} }},
			{"an empty one", 401, func(string) []string { return []string{""} }},
			{"the token itself", 401, func(token string) []string { return []string{token} }},
			{"one that is too long", 401, claim("x", strings.Repeat("x", 9<<10))},
			{"no typ", 401, head("typ", nil)},
			{"another typ", 401, head("typ", "JWT")},
			{"typ in other letters", 401, head("typ", "DPoP+JWT")},
			{"alg none", 401, head("alg", "none")},
			{"a symmetric alg", 401, head("alg", "HS256")},
			{"an alg of another family", 401, head("alg", "RS256")},
			{"no jwk", 401, head("jwk", nil)},
			{"a jwk that is a text", 401, head("jwk", "x")},
			{"a jwk that is empty", 401, head("jwk", map[string]any{})},
			{"a symmetric jwk", 401, head("jwk", map[string]any{"kty": "oct", "k": "AAAA"})},
			{"a private jwk", 401, head("jwk", private)},
			{"a jwk off the curve", 401, head("jwk", map[string]any{"kty": "EC", "crv": "P-256", "x": h.jwk["x"], "y": other.jwk["y"]})},
			{"an extension", 401, head("crit", []string{"exp"})},
			{"an unencoded payload", 401, head("b64", false)},
			{"no jti", 401, without("jti")},
			{"an empty jti", 401, claim("jti", "")},
			{"a jti that is a number", 401, claim("jti", 7)},
			{"a long jti", 401, claim("jti", strings.Repeat("x", 300))},
			{"no htm", 401, without("htm")},
			{"another htm", 401, claim("htm", "GET")},
			{"htm in small letters", 401, claim("htm", "post")},
			{"no htu", 401, without("htu")},
			{"htu of another host", 401, claim("htu", "https://evil.test/public/mcp")},
			{"htu of another path", 401, claim("htu", resource+"/x")},
			{"htu with a slash more", 401, claim("htu", resource+"/")},
			{"htu of another scheme", 401, claim("htu", "http"+strings.TrimPrefix(resource, "https"))},
			{"htu of another port", 401, claim("htu", "https://mcp.test:8443/public/mcp")},
			{"htu with a user", 401, claim("htu", "https://u@mcp.test/public/mcp")},
			{"htu with dots", 401, claim("htu", "https://mcp.test/public/x/../mcp")},
			{"htu that is no URL", 401, claim("htu", "::")},
			{"htu with a query, which does not count", 200, claim("htu", resource+"?a=1#b")},
			{"htu in another spelling that means the same", 200, claim("htu", "HTTPS://MCP.test:443/public/mcp")},
			{"no iat", 401, without("iat")},
			{"iat that is a text", 401, claim("iat", "1")},
			{"a proof at the end of its window", 200, claim("iat", ago(59*time.Second))},
			{"a proof that is over", 401, claim("iat", ago(62*time.Second))},
			{"a clock that is ahead a little", 200, claim("iat", ago(-9*time.Second))},
			{"a proof from the future", 401, claim("iat", ago(-12*time.Second))},
			{"no ath", 401, without("ath")},
			{"ath of another token", 401, claim("ath", ath("x"))},
			{"an empty ath", 401, claim("ath", "")},
			{"another key", 401, func(token string) []string { return []string{other.proof(token, nil)} }},
			{"the key of the token, and the signature of another", 401, func(token string) []string {
				header, claims := h.parts(token)
				return []string{other.sign(header, claims)}
			}},
			{"a claim twice", 401, func(token string) []string {
				header, _ := h.parts(token)
				first, _ := json.Marshal(header)
				return []string{w.as.SignText(h.key, string(first), fmt.Sprintf(`{"htm":"GET","htm":"POST","jti":"a","htu":%q,"iat":%d,"ath":%q}`, resource, time.Now().Unix(), ath(token)))}
			}},
			{"a changed payload", 401, func(token string) []string {
				parts := strings.Split(h.proof(token, nil), ".")
				_, claims := h.parts(token)
				text, _ := json.Marshal(claims)
				return []string{parts[0] + "." + base64.RawURLEncoding.EncodeToString(text) + "." + parts[2]}
			}},
		}
		for _, row := range rows {
			before := w.runs
			got := w.prove(token, row.proofs(token)...)
			require.Equal(t, row.status, got.Status, "%s: %s", row.name, w.log)
			if row.status == 200 {
				continue
			}
			require.Equal(t, before, w.runs, row.name)
			require.Equal(t, `DPoP error="invalid_dpop_proof", resource_metadata="`+metadataURL+`", algs="ES256 RS256 PS256 EdDSA"`, got.Challenge, row.name)
			require.Equal(t, 7.0, got.ID)
		}
		require.NotContains(t, w.log.String(), token)

		// Once is once, for as long as the proof is good.
		proof := h.proof(token, map[string]any{"iat": ago(-9 * time.Second)})
		require.Equal(t, 200, w.prove(token, proof).Status)
		for range 3 {
			require.Equal(t, 401, w.prove(token, proof).Status, "replayed")
			time.Sleep(22 * time.Second)
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, 401, w.prove(token, proof).Status, "too old by now")
		// The same jti by another key is another proof.
		same := map[string]any{"jti": "same"}
		require.Equal(t, 200, w.prove(token, h.proof(token, same)).Status)
		theirs := other.bound(w)
		require.Equal(t, 200, w.prove(theirs, other.proof(theirs, same)).Status)
		require.Equal(t, 401, w.prove(token, h.proof(token, same)).Status)

		// The other half of section 7.2: neither way is the other.
		require.Equal(t, 401, w.post(token, set("DPoP", h.proof(token, nil))).Status, "a bound token as Bearer, proof and all")
		plain := w.as.Sign(w.with(nil), nil)
		require.Equal(t, 401, w.prove(plain, h.proof(plain, nil)).Status, "a token that is bound to nothing")
		require.Empty(t, w.seen.Header.Get("DPoP"), "the handler gets no proof")
		require.Empty(t, w.seen.Header.Get("Authorization"))
	})
}

// H1-60: keys of the other families, and a list that is shorter.
func TestDPoPAlgorithms_H1_60(t *testing.T) {
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	all, few := newWorld(t, withDPoP(t, nil)), newWorld(t, withDPoP(t, &bearer.DPoPOptions{Algorithms: []string{"ES256"}}))
	for algorithm, private := range map[string]crypto.Signer{"RS256": strong, "PS256": strong, "EdDSA": ed} {
		h := newHolder(t, all.as, algorithm, private)
		token := h.bound(all)
		require.Equal(t, 200, all.prove(token, h.proof(token, nil)).Status, "%s: %s", algorithm, all.log)
		h.as, token = few.as, h.bound(few)
		got := few.prove(token, h.proof(token, nil))
		require.Equal(t, 401, got.Status)
		require.Contains(t, got.Challenge, `algs="ES256"`)
	}
}

// H1-60: A server that wants a nonce says which (section 9), takes it on any replica,
// and not for ever.
func TestDPoPNonce_H1_60(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := bytes.Repeat([]byte{7}, 32)
		w := newWorld(t, withDPoP(t, &bearer.DPoPOptions{NonceKey: key}))
		h := newHolder(t, w.as, "ES256", p256(t))
		token := h.bound(w)
		got := w.prove(token, h.proof(token, nil))
		require.Equal(t, 401, got.Status)
		require.True(t, strings.HasPrefix(got.Challenge, `DPoP error="use_dpop_nonce", `), got.Challenge)
		nonce := got.Header.Get("DPoP-Nonce")
		require.NotEmpty(t, nonce)
		with := map[string]any{"nonce": nonce}
		require.Equal(t, 200, w.prove(token, h.proof(token, with)).Status)
		replica, err := bearer.NewDPoP(resource, &bearer.DPoPOptions{NonceKey: key})
		require.NoError(t, err)
		r, err := http.NewRequest("POST", resource, nil)
		require.NoError(t, err)
		r.Header.Set("DPoP", h.proof(token, with))
		require.NoError(t, replica.Confirm(t.Context(), &bearer.Proof{Value: h.jkt, TokenHash: ath(token), Request: r}))
		for _, bad := range []any{"", "x", nonce + "x", 7} {
			require.Equal(t, 401, w.prove(token, h.proof(token, map[string]any{"nonce": bad})).Status)
		}
		bad := w.prove(token, h.proof(token, map[string]any{"nonce": nonce, "htm": "GET"}))
		require.Contains(t, bad.Challenge, "invalid_dpop_proof")
		require.Empty(t, bad.Header.Get("DPoP-Nonce"))
		time.Sleep(5 * time.Minute)
		token = h.bound(w)
		require.Equal(t, 401, w.prove(token, h.proof(token, with)).Status, "an old nonce")
	})
}

// replays is a store that can be away.
type replays struct{ err error }

func (r replays) Use(context.Context, [32]byte, time.Time) (bool, error) { return true, r.err }

// H1-60, H1-13: A store of used proofs that is away is no verdict, and nobody is let in.
func TestDPoPStoreAway_H1_60_H1_13(t *testing.T) {
	w := newWorld(t, withDPoP(t, &bearer.DPoPOptions{Replays: replays{errors.New("canary: dial tcp 10.0.0.5")}}))
	h := newHolder(t, w.as, "ES256", p256(t))
	token := h.bound(w)
	got := w.prove(token, h.proof(token, nil))
	require.Equal(t, 503, got.Status)
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.NotContains(t, got.Text+got.Challenge, "canary")
	require.Zero(t, w.runs)

	var zero *bearer.DPoP
	for _, d := range []*bearer.DPoP{zero, {}} {
		require.Error(t, d.Confirm(t.Context(), &bearer.Proof{}))
	}
	for _, o := range []bearer.DPoPOptions{{Window: -1}, {Window: time.Hour}, {NonceKey: []byte("short")}, {Algorithms: []string{"HS256"}}, {Algorithms: []string{}}} {
		_, err := bearer.NewDPoP(resource, &o)
		require.Error(t, err)
	}
	_, err := bearer.NewDPoP("mcp.test", nil)
	require.Error(t, err)
}

// H1-60: of many that come at once with one proof, one is let in.
func TestDPoPOnceAtOnce_H1_60(t *testing.T) {
	w := newWorld(t, withDPoP(t, nil))
	h := newHolder(t, w.as, "ES256", p256(t))
	token := h.bound(w)
	proof := h.proof(token, nil)
	var in atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if w.prove(token, proof).Status == 200 {
				in.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, in.Load())
}

// FuzzDPoP: no header makes anybody somebody, and none makes it panic.
func FuzzDPoP(f *testing.F) {
	w := newWorld(f, withDPoP(f, nil))
	h := newHolder(f, w.as, "ES256", p256(f))
	token := h.bound(w)
	f.Add(h.proof("another", nil))
	f.Add(h.proof(token, map[string]any{"htm": "GET"}))
	header, claims := h.parts(token)
	header["jwk"] = map[string]any{"kty": "RSA", "n": "AQ", "e": "AQAB"}
	f.Add(h.sign(header, claims))
	f.Add("e30.e30.")
	f.Add("..")
	f.Fuzz(func(t *testing.T, proof string) {
		got := w.prove(token, proof)
		require.Equal(t, 401, got.Status)
		require.Zero(t, w.runs)
	})
}
