package mcpadapter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

// A8: a caller who opens sessions without an end keeps nobody else out, and has
// room again when one ends.
func TestOneCallersSessions_A8(t *testing.T) {
	w := newWorld(t)
	a := w.adapter(t, w.byToken, &mcpadapter.Options{SessionTimeout: time.Hour})
	t.Cleanup(func() { _ = a.Shutdown(t.Context()) })
	h := a.HTTP()
	open := func(who string) answer {
		return post(t, h, who, legacy("initialize", 1, `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`), older)
	}
	last := ""
	refused := 0
	for range 300 {
		got := open("alice")
		if got.Status == http.StatusServiceUnavailable {
			refused++
			continue
		}
		require.Equal(t, 200, got.Status)
		last = got.Header.Get("Mcp-Session-Id")
	}
	require.Equal(t, 300-256, refused)
	require.Equal(t, 200, open("bob").Status, "somebody else")
	end := func(r *http.Request) { r.Method = http.MethodDelete; r.Header.Set("Mcp-Session-Id", last) }
	require.Equal(t, 404, post(t, h, "bob", "", older, end).Status, "not bob's to end")
	require.Less(t, post(t, h, "alice", "", older, end).Status, 300)
	require.Equal(t, 200, open("alice").Status)
}
