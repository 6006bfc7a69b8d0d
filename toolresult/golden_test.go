package toolresult_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var update = flag.Bool("update", false, "write the golden files anew: a change of the wire form")

// golden holds one result for each shape of the wire form, by file name.
func golden() map[string]*toolresult.Result {
	at := time.Date(2026, 4, 29, 2, 35, 0, 0, time.UTC)

	page := toolresult.Partial("call_1", json.RawMessage(` [ {"text" : "<b> & \u2028 \"q\" \\ é", "n": 12345678901234567890 , "e":{ } ,"l":[ ]} ] `), toolresult.GapRemainingPages, "deployment_mapping")
	page.Summary = "one page: <b>tab\t\x01 & \u2028 \"q\" \\ é 😀\x7f"
	page.NextCursor = "sealed"
	page.DataRef = "artifact://run/name/1"
	page.Truncated = true
	page.Verification = toolresult.Corroborated
	page.Provenance = toolresult.Provenance{
		Service: "logs", Object: "order-service", Version: `W/"5"`, URL: "https://logs.example.com/?q=a&b", RequestID: "req-1",
		Window:    toolresult.Interval{Start: at, End: at.Add(15*time.Minute + time.Nanosecond)},
		FetchedAt: time.Date(2026, 4, 29, 10, 50, 0, 500, time.FixedZone("", 8*3600)),
		Sources:   []toolresult.Provenance{{Service: "a", Trust: toolresult.FirstParty}, {Service: "b", Sources: []toolresult.Provenance{{}}}},
	}

	limited := toolresult.Failure("call_2", toolresult.WrapError(toolresult.RateLimited, "slow down", errors.New("SECRET")).With("/query", "ask for <less>"))
	limited.Error.RetryAfter = 1500 * time.Millisecond
	limited.Error.Diagnostics = toolresult.Diagnostics{Provider: "logs", ProviderCode: "429-7", RequestID: "req-2", HTTPStatus: 429, ProviderText: "try <later>"}

	connect := toolresult.Failure("call_3", toolresult.NewError(toolresult.InsufficientScope, "a scope is missing"))
	connect.Error.Connect = &toolresult.ConnectStep{Provider: "tickets", URL: "https://host.example.com/connect/1?a&b", Missing: []string{"read:issue", "write:issue"}, Expires: at}
	approve := toolresult.Failure("call_4", toolresult.NewError(toolresult.ApprovalRequired, "a person must approve this change"))
	approve.Error.Approval = &toolresult.ApprovalStep{ID: "ap-1", Digest: "sha256:00", Expires: at.Add(time.Microsecond)}
	bare := toolresult.Failure("call_5", toolresult.NewError(toolresult.ApprovalRequired, ""))
	bare.Error.Approval, bare.Error.Connect = &toolresult.ApprovalStep{URL: "https://host.example.com"}, &toolresult.ConnectStep{}

	applied := toolresult.Complete("call_6", json.RawMessage(`{"id":"INC-4821"}`))
	applied.Effect = toolresult.Effect{Disposition: toolresult.EffectApplied, OperationID: "op-1"}
	pending := toolresult.Complete("call_7", nil)
	pending.Effect = toolresult.Effect{Disposition: toolresult.EffectPending, OperationID: "op-1"}
	pending.Verification = toolresult.Contradicted
	pending.Provenance.Sources = []toolresult.Provenance{{Service: "a"}, {Service: "b"}}
	refused := toolresult.Failure("call_8", toolresult.NewError(toolresult.Conflict, "changed meanwhile"))
	refused.Effect = toolresult.Effect{Disposition: toolresult.EffectNotApplied, OperationID: "op-1"}

	var foreign toolresult.Result
	if err := json.Unmarshal([]byte(`{"zeta":{ "a":[1, "<"]},"call_id":"call_9","status":"error","alpha":null,"coverage":{"complete":false,"missing":[]},"effect":{"disposition":"none"},
		"error":{"code":"FROM_THE_FUTURE","message":"m","later":true},"provenance":{"window":"02:35Z/02:50Z","later":1}}`), &foreign); err != nil {
		panic(err)
	}
	return map[string]*toolresult.Result{
		"page": page, "limited": limited, "connect": connect, "approve": approve, "bare": bare, "applied": applied, "pending": pending, "refused": refused,
		"foreign": &foreign, "no_match": toolresult.NoMatch("call_10"), "unknown": toolresult.UnknownEffect("call_11", "op-1"), "zero": {},
	}
}

// The wire form is a promise: these bytes were written once and do not change.
func TestGolden_R1_R11(t *testing.T) {
	for name, r := range golden() {
		got, err := json.Marshal(r)
		require.NoError(t, err, name)
		file := filepath.Join("testdata", "wire", name+".json")
		if *update {
			require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(bytes.TrimSuffix(want, []byte("\n"))), string(got), name)
	}
}
