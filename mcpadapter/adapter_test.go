package mcpadapter_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

func TestListAndCallInMemory_M1(t *testing.T) {
	w := newWorld(t)
	cs := inMemory(t, w.adapter(t, as(w.alice), nil), nil)
	l, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"operation_status", "tickets.create", "tickets.get", "tickets.search"}, names(l.Tools))
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "1"}})
	require.NoError(t, err)
	got := decoded(t, r)
	t.Log(r.Content[0].(*mcp.TextContent).Text)
	t.Log(got.Meaning())
}
