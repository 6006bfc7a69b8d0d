package mcpadapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// means are calls that between them have every meaning a result can have.
var means = []struct {
	tool, args, key string
	meaning         toolresult.Meaning
	code            toolresult.ErrorCode
}{
	{"tickets.get", `{"id":"1"}`, "", toolresult.MeaningComplete, ""},
	{"tickets.get", `{"id":"empty"}`, "", toolresult.MeaningNoMatch, ""},
	{"tickets.get", `{"id":"gap"}`, "", toolresult.MeaningGaps, ""},
	{"tickets.get", `{"id":"none"}`, "", toolresult.MeaningFailed, toolresult.NotFound},
	{"tickets.get", `{"id":"broken"}`, "", toolresult.MeaningFailed, toolresult.ProviderError},
	{"tickets.get", `{"id":"unauthorized"}`, "", toolresult.MeaningFailed, ""},
	{"tickets.get", `{"id":"error"}`, "", toolresult.MeaningFailed, ""},
	{"tickets.get", `{"id":"panic"}`, "", toolresult.MeaningFailed, ""},
	{"tickets.get", `{"id":7}`, "", toolresult.MeaningFailed, toolresult.InvalidInput},
	{"tickets.search", `{"query":"a"}`, "", toolresult.MeaningGaps, ""},
	{"tickets.search", `{"query":"nothing"}`, "", toolresult.MeaningNoMatch, ""},
	{"tickets.search", `{"query":"a","cursor":"forged"}`, "", toolresult.MeaningFailed, toolresult.CursorInvalid},
	{"tickets.create", `{"subject":"x"}`, "op-applied", toolresult.MeaningComplete, ""},
	{"tickets.create", `{"subject":"queued"}`, "op-queued", toolresult.MeaningPending, ""},
	{"tickets.create", `{"subject":"refused"}`, "op-refused", toolresult.MeaningFailed, ""},
	{"tickets.create", `{"subject":"lost"}`, "op-lost", toolresult.MeaningUnknownEffect, toolresult.OutcomeUnknown},
	{"tickets.create", `{"subject":"x"}`, "", toolresult.MeaningFailed, toolresult.InvalidInput},
}

func meta(key string) mcp.Meta {
	if key == "" {
		return nil
	}
	return mcp.Meta{mcpadapter.OperationMeta: key}
}

// Whatever a call means, its structured content fits the schema that the list
// gave, isError is the status, and the text says the same.
func TestStructuredContentFits_M1_R11(t *testing.T) {
	w := newWorld(t)
	cs := inMemory(t, w.adapter(t, as(w.alice), nil), nil)
	l, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	accept := map[string]func(any) error{}
	for _, tool := range l.Tools {
		accept[tool.Name] = compile(t, tool.OutputSchema)
	}
	seen := map[toolresult.Meaning]bool{}
	for _, row := range means {
		t.Run(row.tool+row.args+row.key, func(t *testing.T) {
			r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta(row.key), Name: row.tool, Arguments: json.RawMessage(row.args)})
			require.NoError(t, err)
			got := decoded(t, r)
			require.Equal(t, row.meaning, got.Meaning(), "%v", got.Error)
			if row.code != "" {
				require.Equal(t, row.code, got.Error.Code)
			}
			seen[got.Meaning()] = true
			require.NoError(t, accept[row.tool](r.StructuredContent))
			require.Len(t, r.Content, 1)
			text := r.Content[0].(*mcp.TextContent).Text
			require.Contains(t, text, "meaning: "+got.Meaning().String())
			whole, err := json.Marshal(r)
			require.NoError(t, err)
			require.NotContains(t, string(whole), "canary")
			if got.Effect.OperationID == "" {
				return
			}
			r, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: mcpadapter.StatusTool, Arguments: map[string]any{"operation_id": got.Effect.OperationID}})
			require.NoError(t, err)
			require.NoError(t, accept[mcpadapter.StatusTool](r.StructuredContent))
			require.Equal(t, got.Effect.OperationID, decoded(t, r).Effect.OperationID, "and it can be looked up")
		})
	}
	require.Len(t, seen, 6, "every meaning occurs")
	require.NotContains(t, strings.ReplaceAll(w.log.String(), canaryText, ""), "canary")
}

// compile reads a schema as a second implementation does.
func compile(t testing.TB, schema any) func(any) error {
	t.Helper()
	text, err := json.Marshal(schema)
	require.NoError(t, err)
	doc, err := oracle.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := oracle.NewCompiler()
	c.DefaultDraft(oracle.Draft2020)
	require.NoError(t, c.AddResource("mem:schema", doc))
	s, err := c.Compile("mem:schema")
	require.NoError(t, err)
	return func(v any) error {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		again, err := oracle.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		return s.Validate(again)
	}
}

// The schemas are ones that every client reads: an object at the root, no
// references, no dialect to look up, and data held to what is declared.
func TestToolsAsClientsSeeThem_M1_K2_K5(t *testing.T) {
	w := newWorld(t)
	cs := inMemory(t, w.adapter(t, as(w.alice), nil), nil)
	l, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	for _, tool := range l.Tools {
		for _, schema := range []any{tool.InputSchema, tool.OutputSchema} {
			text, err := json.Marshal(schema)
			require.NoError(t, err)
			require.Equal(t, "object", schema.(map[string]any)["type"])
			for _, no := range []string{"$ref", "$defs", "$id", "$schema", "x-drawbridge"} {
				require.NotContains(t, string(text), no)
			}
			require.Less(t, len(text), 12<<10)
			compile(t, schema)
		}
		require.NotEmpty(t, tool.Description)
		require.NotNil(t, tool.Annotations)
	}
	accept := compile(t, l.Tools[2].OutputSchema)
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "1"}})
	require.NoError(t, err)
	m := r.StructuredContent.(map[string]any)
	require.NoError(t, accept(m))
	m["data"] = map[string]any{"id": 7, "subject": "x"}
	require.Error(t, accept(m), "data of another form is refused")
	m["data"], m["status"] = nil, "error"
	require.Error(t, accept(m), "and so is an envelope that contradicts itself")

	hints := map[string][4]bool{} // read only, destructive, idempotent, open world
	for _, tool := range l.Tools {
		a := tool.Annotations
		hints[tool.Name] = [4]bool{a.ReadOnlyHint, *a.DestructiveHint, a.IdempotentHint, a.OpenWorldHint == nil || *a.OpenWorldHint}
	}
	require.Equal(t, map[string][4]bool{
		"tickets.get":         {true, false, true, true},
		"tickets.search":      {true, false, true, true},
		"tickets.create":      {false, true, false, true},
		mcpadapter.StatusTool: {true, false, true, true},
	}, hints)
}

// Progress reaches a client that asked for it, in order, and nobody else.
func TestProgress_M4(t *testing.T) {
	w := newWorld(t)
	got := make(chan *mcp.ProgressNotificationParams, 8)
	cs := inMemory(t, w.adapter(t, as(w.alice), nil), &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { got <- r.Params },
	})
	call := func(token any) {
		p := &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "1"}}
		if token != nil {
			p.SetProgressToken(token)
		}
		_, err := cs.CallTool(t.Context(), p)
		require.NoError(t, err)
	}
	call(nil)
	require.Empty(t, got)
	call("t-1")
	last := 0.0
	for last < 2 {
		p := <-got
		require.Equal(t, "t-1", p.ProgressToken)
		require.Equal(t, 2.0, p.Total)
		require.Greater(t, p.Progress, last)
		require.NotContains(t, p.Message, "\n")
		last = p.Progress
	}
	require.Empty(t, got, "nothing after the last")
}

// Arguments that are too long, too deep, or no text are the caller's mistake, and
// nothing is sent.
func TestArgumentsOverLimits_K5(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, nil).HTTP()
	for name, args := range map[string]string{
		"over 256 KiB":        `{"id":"` + strings.Repeat("x", 300<<10) + `"}`,
		"over the schema":     `{"id":"` + strings.Repeat("x", 5000) + `"}`,
		"nested too deep":     `{"id":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + `}`,
		"a number beyond":     `{"id":9007199254740993}`,
		"not UTF-8":           "{\"id\":\"\xff\"}",
		"NUL":                 `{"id":"\u0000"}`,
		"a tenant":            `{"id":"1","tenant":"other"}`,
		"an operation key":    `{"id":"1","_meta":{"drawbridge.dev/operation":"x"}}`,
		"a name in two cases": `{"id":"1","ID":"2"}`,
		"null":                `null`,
	} {
		t.Run(name, func(t *testing.T) {
			got := post(t, h, "alice", modern("tools/call", 1, `"name":"tickets.get","arguments":`+args))
			require.Contains(t, got.Text, `"INVALID_INPUT"`)
			require.Contains(t, got.Text, `"isError":true`)
		})
	}
	require.Zero(t, w.count(""))
}
