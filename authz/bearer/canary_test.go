package bearer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// printed is a value as every verb and encoder shows it.
func printed(v any) string {
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", v)
	}
	text, _ := json.Marshal(v)
	out.Write(text)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	return out.String()
}

// No token and no client secret comes out anywhere: not in answers, errors, log
// lines, principals or anything that is reachable from what this package makes;
// whatever goes wrong.
func TestCanary_R10_C6(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var out strings.Builder
		var proof *bearer.Proof
		second := bearertest.New(t)
		second.Issuer = "https://second.test"
		v, err := bearer.NewJWT(second.Issuer, second.Keys(), bearer.OneTenant("acme"), &bearer.JWTOptions{Egress: second.Egress()})
		require.NoError(t, err)
		ask, err := bearer.NewIntrospection(w.as.Issuer, w.as.Introspection(), secret(), bearer.OneTenant("acme"), &bearer.IntrospectionOptions{Egress: w.as.Egress()})
		require.NoError(t, err)
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		b, err := bearer.New(resource, []*bearer.Verifier{v, ask}, &bearer.Options{Logger: logger,
			Confirm: map[string]func(context.Context, *bearer.Proof) error{"kid": func(_ context.Context, p *bearer.Proof) error { proof = p; return nil }}})
		require.NoError(t, err)

		jwt := second.Token(resource, "alice")
		bound := second.Claims(resource, "alice")
		bound["cnf"] = map[string]string{"kid": "x"}
		tokens := []string{
			jwt, second.Sign(bound, nil), jwt[:len(jwt)-3] + "AAA", second.Token("https://other.test", "alice"),
			second.Sign(second.Claims(resource, "alice"), map[string]any{"kid": "unknown"}),
			w.as.Opaque(w.with(nil)), "opaque-canary-unknown", "canary canary", strings.Repeat("canary", 4000),
		}
		echo := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(rw, "error about %s by %s", r.PostFormValue("token"), r.Header.Get("Authorization"))
		})
		cut := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		for _, trouble := range []http.Handler{nil, echo, cut} {
			w.as.Serve(trouble)
			second.Serve(trouble)
			for _, token := range tokens {
				w.h = b.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					who, err := b.Principal(r.Context(), r)
					out.WriteString(printed(who) + printed(who.Identity()) + printed(err) + printed(r.Header))
				}))
				got := w.send(token, call("tickets.get"))
				out.WriteString(printed(got))
				_, err := b.Principal(t.Context(), withToken(token))
				out.WriteString(printed(err))
				if e := toolresult.AsError(err); e != nil {
					out.WriteString(printed(e.Cause()))
				}
			}
			time.Sleep(time.Hour)
			tokens[0] = second.Token(resource, "alice")
		}
		require.NotNil(t, proof)
		out.WriteString(printed(proof.Claims) + printed(proof.Request.Header) + proof.TokenHash)
		out.WriteString(printed(b) + printed(*b) + printed(v) + printed(*ask))

		text := out.String()
		require.Contains(t, text, "a request was not let in", "control: what is searched is there")
		require.Contains(t, text, "alice")
		require.NotContains(t, text, bearertest.Secret)
		require.NotContains(t, text, "canary")
		for _, token := range tokens {
			parts := strings.Split(token, ".")
			for _, form := range append(parts[len(parts)-1:], token) {
				require.NotContains(t, text, form)
				require.NotContains(t, text, fmt.Sprintf("%x", form))
			}
		}
	})
}

// An unlucky principal is not printed with what it may.
func TestLogHasNoClaims_A9(t *testing.T) {
	w := newWorld(t)
	w.post(w.as.Sign(w.with(map[string]any{"sub": "canary-subject\n", "aud": resource}), nil))
	w.post(w.as.Sign(w.with(map[string]any{"iss": "https://canary.test"}), nil))
	w.post(w.as.Sign(w.with(nil), map[string]any{"kid": "canary-kid"}))
	require.Equal(t, 3, bytes.Count(w.log.Bytes(), []byte("\n")), w.log.String())
	require.NotContains(t, w.log.String(), "canary")
}
