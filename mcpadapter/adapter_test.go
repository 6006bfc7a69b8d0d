package mcpadapter_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestListAndCallInMemory_M1(t *testing.T) {
	w := newWorld(t)
	cs := inMemory(t, w.adapter(t, as(w.alice), nil), nil)
	l, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"operation_status", "tickets.create", "tickets.get", "tickets.search"}, names(l.Tools))
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "1"}})
	require.NoError(t, err)
	require.Equal(t, toolresult.MeaningComplete, decoded(t, r).Meaning())
	require.NotContains(t, r.Content[0].(*mcp.TextContent).Text, canaryKey)
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t)
	who := as(w.alice)
	_, err := mcpadapter.New(nil, who, nil)
	require.ErrorContains(t, err, "Invoker")
	_, err = mcpadapter.New(w.inv, who, &mcpadapter.Options{MaxRequestBytes: -1})
	require.ErrorContains(t, err, "negative")
	_, err = mcpadapter.New(w.inv, who, &mcpadapter.Options{Origins: []string{"app.example.com"}})
	require.ErrorContains(t, err, "a scheme and a host")
}
