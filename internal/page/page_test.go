package page_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/page"
)

func TestWrite(t *testing.T) {
	body, err := page.New(`{{define "body"}}<p>{{.}}</p>{{end}}`, nil)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	page.Write(w, http.StatusOK, body, `<b>Title</b>`, `<script>alert(1)</script>`, "https://as.example.test")
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>", "data is data")
	require.NotContains(t, w.Body.String(), "<b>Title")
	csp := w.Header().Get("Content-Security-Policy")
	require.Contains(t, csp, "default-src 'none'; style-src 'sha256-")
	require.Contains(t, csp, "form-action 'self' https://as.example.test; base-uri 'none'; frame-ancestors 'none'")
	require.NotContains(t, csp, "unsafe")
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
	require.Equal(t, "DENY", w.Header().Get("X-Frame-Options"))
	require.Contains(t, w.Body.String(), `<meta name="robots" content="noindex, nofollow">`)
}

// A page that cannot be rendered says nothing of why, and none of it is sent.
func TestWriteFails(t *testing.T) {
	body, err := page.New(`{{define "body"}}half{{.Missing.Deep}}{{end}}`, nil)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	page.Write(w, http.StatusOK, body, "t", struct{ Secret string }{"secret"})
	require.Equal(t, 500, w.Code)
	require.Equal(t, "the page cannot be shown\n", w.Body.String())
	_, err = page.New(`{{define "body"`, nil)
	require.Error(t, err)
}

func TestPrefetch(t *testing.T) {
	for value, want := range map[string]bool{"prefetch": true, "prefetch;prerender": true, "Prefetch": true, "preview": true, "": false, "navigate": false} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Sec-Purpose", value)
		require.Equal(t, want, page.Prefetch(r), value)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Moz", "prefetch")
	require.True(t, page.Prefetch(r))
}

// A page in a file forbids scripts itself.
func TestRender(t *testing.T) {
	body, err := page.New(`{{define "body"}}<p>{{.}}</p>{{end}}`, nil)
	require.NoError(t, err)
	text, err := page.Render(body, "t", "<script>")
	require.NoError(t, err)
	require.Contains(t, string(text), `<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;`)
	require.Contains(t, string(text), "<p>&lt;script&gt;</p>")
	w := httptest.NewRecorder()
	page.Write(w, http.StatusOK, body, "t", "")
	require.NotContains(t, w.Body.String(), "http-equiv")
}
