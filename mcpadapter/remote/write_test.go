package remote_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// approved invokes a change, approves it, and invokes it again.
func (w *world) approved(capability, key, args string) *toolresult.Result {
	w.t.Helper()
	req := &connector.InvokeRequest{Principal: w.alice, Capability: capability, Key: key, Arguments: json.RawMessage(args)}
	r := w.invoke(req)
	require.Equal(w.t, toolresult.ApprovalRequired, r.Error.Code, "%s", r.Text(nil))
	_, err := w.inv.Approve(w.t.Context(), &connector.ApproveRequest{Principal: w.alice, ID: r.Error.Approval.ID, Digest: r.Error.Approval.Digest})
	require.NoError(w.t, err)
	return w.invoke(req)
}

// lossy serves a server and loses the answers to calls of a tool after they were
// performed.
func lossy(h http.Handler, tool string, lose *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		if _, err := copyBody(body, r); err != nil {
			return
		}
		if lose.Load() && strings.Contains(body.String(), `"name":"`+tool+`"`) {
			rec := discard{http.Header{}}
			h.ServeHTTP(rec, r)
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(rw, r)
	})
}

// M5, W1, W2, W3: a change is approved as it will be sent, sent once, and a lost
// answer is an unknown effect that the same key never sends again.
func TestWrites_M5_W1_W3(t *testing.T) {
	for name, era := range map[string]func(testing.TB, func()) http.Handler{
		"2026-07-28": func(_ testing.TB, applied func()) http.Handler { return modern(sdk(applied)) },
		"2025-11-25": func(t testing.TB, applied func()) http.Handler { return legacy(t, sdk(applied)) },
	} {
		t.Run(name, func(t *testing.T) {
			var applied atomic.Int64
			var lose atomic.Bool
			w := newWorld(t, setup{handler: lossy(era(t, func() { applied.Add(1) }), "create", &lose), tools: []remote.Tool{{Name: "create", Class: writes}}})
			r := w.approved("far.create", "key-of-the-first-intent", `{"text":"a"}`)
			require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition, "%s", r.Text(nil))
			require.Contains(t, string(r.Data), "9007199254740993", "T-10: numbers are not rounded")
			require.EqualValues(t, 1, applied.Load())

			lose.Store(true)
			r = w.approved("far.create", "key-of-the-second-intent", `{"text":"b"}`)
			require.Equal(t, toolresult.MeaningUnknownEffect, r.Meaning(), "%s", r.Text(nil))
			require.EqualValues(t, 2, applied.Load())
			lose.Store(false)
			r = w.invoke(&connector.InvokeRequest{Principal: w.alice, Capability: "far.create", Key: "key-of-the-second-intent", Arguments: json.RawMessage(`{"text":"b"}`)})
			require.Equal(t, toolresult.MeaningUnknownEffect, r.Meaning(), "%s", r.Text(nil))
			require.EqualValues(t, 2, applied.Load(), "it is not sent again")
		})
	}
}

// What a person approves is the request itself, without what belongs to the
// session.
func TestApprovalShowsTheRequest_W1(t *testing.T) {
	w := newWorld(t, setup{handler: legacy(t, sdk(func() {})), tools: []remote.Tool{{Name: "create", Class: writes}}})
	r := w.invoke(&connector.InvokeRequest{Principal: w.alice, Capability: "far.create", Key: "key-of-the-first-intent", Arguments: json.RawMessage(`{"text":"a\u200bb"}`)})
	require.Equal(t, toolresult.ApprovalRequired, r.Error.Code)
	list, err := w.inv.Approvals(t.Context(), w.alice, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	text := list[0].Rendering
	require.Contains(t, text, "POST http://provider.test:80/mcp")
	require.Contains(t, text, `"name":"create"`)
	require.Contains(t, text, `a\u{200b}b`, "J-03: what cannot be seen is written out")
	require.Contains(t, text, "Mcp-Session-Id: (whatever it is then")
}

// W3: what a server says instead of a receipt.
func TestWriteAnswers_W3_W5(t *testing.T) {
	for why, row := range map[string]struct {
		answer string
		status int
		effect toolresult.Disposition
	}{
		"a result":                      {`"result":{"resultType":"complete","content":[]}`, 200, toolresult.EffectApplied},
		"a result that says it failed":  {`"result":{"resultType":"complete","content":[],"isError":true}`, 200, toolresult.EffectUnknown},
		"an error that means not begun": {`"error":{"code":-32602,"message":"no"}`, 400, toolresult.EffectNotApplied},
		"an error of its own":           {`"error":{"code":7,"message":"no"}`, 200, toolresult.EffectUnknown},
		"an internal error":             {`"error":{"code":-32603,"message":"no"}`, 500, toolresult.EffectUnknown},
		"neither":                       {`"x":1`, 200, toolresult.EffectUnknown},
		"a question":                    {`"result":{"resultType":"input_required","requestState":"s"}`, 200, toolresult.EffectUnknown},
		"a task":                        {`"result":{"resultType":"task"}`, 200, toolresult.EffectUnknown},
		"too fast":                      {``, 429, toolresult.EffectNotApplied},
		"not known any more":            {``, 401, toolresult.EffectNotApplied},
		"broken":                        {``, 502, toolresult.EffectUnknown},
	} {
		t.Run(why, func(t *testing.T) {
			h := &hostile{tools: `[{"name":"create","inputSchema":{"type":"object"}}]`}
			h.call = func(rw http.ResponseWriter, id string) {
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(row.status)
				if row.answer != "" {
					_, _ = rw.Write([]byte(`{"jsonrpc":"2.0","id":` + id + `,` + row.answer + `}`))
				}
			}
			w := newWorld(t, setup{handler: h, tools: []remote.Tool{{Name: "create", Class: writes}}})
			r := w.approved("far.create", "key-of-the-first-intent", `{}`)
			require.Equal(t, row.effect, r.Effect.Disposition, "%s", r.Text(nil))
		})
	}
}
