package route_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/route"
)

func rpc(pattern string, effect route.Effect) route.Route {
	return route.Route{Pattern: pattern, Effect: effect, WholeConnection: true}
}

// A6: behind one address each method is a route of its own, and what is not
// declared does not leave.
func TestConditions_A6(t *testing.T) {
	table, err := route.Compile([]route.Route{
		rpc("POST /mcp #/method=initialize", route.Reads),
		rpc("POST /mcp #/method=tools/call #/params/name=get%20issue", route.Reads),
		rpc("POST /mcp #/method=tools/call #/params/name=close", route.Changes),
	})
	require.NoError(t, err)
	for _, row := range []struct {
		why, body, kind string
		want            route.Effect
	}{
		{"one method", `{"method":"initialize"}`, "application/json", route.Reads},
		{"one tool", `{"method":"tools/call","params":{"name":"get issue"}}`, "application/json", route.Reads},
		{"another tool", `{"method":"tools/call","params":{"name":"close"}}`, "application/json", route.Changes},
		{"a tool that is not declared", `{"method":"tools/call","params":{"name":"drop"}}`, "application/json", 0},
		{"a method that is not declared", `{"method":"tools/list"}`, "application/json", 0},
		{"a name that is no string", `{"method":"tools/call","params":{"name":["close"]}}`, "application/json", 0},
		{"a name twice", `{"method":"tools/call","method":"initialize","params":{"name":"close"}}`, "application/json", 0},
		{"a name in another case", `{"method":"initialize","Method":"tools/call"}`, "application/json", 0},
		{"a batch", `[{"method":"initialize"}]`, "application/json", 0},
		{"no JSON", `method=initialize`, "application/json", 0},
		{"JSON that says it is a form", `{"method":"initialize"}`, "application/x-www-form-urlencoded", 0},
		{"JSON without a type", `{"method":"initialize"}`, "", 0},
		{"no body", ``, "application/json", 0},
	} {
		h := http.Header{}
		if row.kind != "" {
			h.Set("Content-Type", row.kind)
		}
		m, err := table.Match(&route.Request{Method: "POST", Path: "/mcp", Header: h, Body: []byte(row.body)}, nil)
		if row.want == 0 {
			require.ErrorIs(t, err, route.ErrRoute, row.why)
			continue
		}
		require.NoError(t, err, row.why)
		require.Equal(t, row.want, m.Route.Effect, row.why)
	}
	path, _, err := table.Build("POST /mcp #/method=initialize", nil)
	require.NoError(t, err)
	require.Equal(t, "/mcp", path)
}

func TestBadConditions_A6(t *testing.T) {
	for why, routes := range map[string][]route.Route{
		"no value":                    {rpc("POST /mcp #/method", route.Reads)},
		"an empty value":              {rpc("POST /mcp #/method=", route.Reads)},
		"no pointer":                  {rpc("POST /mcp #method=x", route.Reads)},
		"a bad escape":                {rpc("POST /mcp #/a~2=x", route.Reads)},
		"two on one place":            {rpc("POST /mcp #/a=x #/a=y", route.Reads)},
		"none excludes the other":     {rpc("POST /mcp #/a=x", route.Reads), rpc("POST /mcp #/b=x", route.Changes)},
		"one with and one without":    {rpc("POST /mcp #/a=x", route.Reads), rpc("POST /mcp", route.Changes)},
		"the same condition and more": {rpc("POST /mcp #/a=x", route.Reads), rpc("POST /mcp #/a=x #/b=y", route.Changes)},
	} {
		_, err := route.Compile(routes)
		require.Error(t, err, why)
	}
}
