package toolresult_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// R9: the record for audit keeps status, coverage and effect, and no content.
func TestRecordGolden_R9(t *testing.T) {
	for name, r := range golden() {
		got, err := json.Marshal(r.Record())
		require.NoError(t, err)
		file := filepath.Join("testdata", "record", name+".json")
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSuffix(string(want), "\n"), string(got), name)
	}
}

// The three projections say the same of status, coverage and effect.
func TestThreeProjections_R3_R9(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _ := valid(t)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		record, err := json.Marshal(r.Record())
		require.NoError(t, err)
		var whole, audit struct {
			Status   string `json:"status"`
			Coverage struct {
				Complete bool     `json:"complete"`
				Missing  []string `json:"missing"`
			} `json:"coverage"`
			Effect struct {
				Disposition string  `json:"disposition"`
				OperationID *string `json:"operation_id"`
			} `json:"effect"`
		}
		require.NoError(t, json.Unmarshal(text, &whole))
		require.NoError(t, json.Unmarshal(record, &audit))
		require.Equal(t, whole, audit)

		own, _ := split(t, r.Text(&toolresult.TextOptions{MaxBytes: 1}))
		said := strings.Join(own, "\n") + "\n"
		require.Contains(t, said, "status: "+whole.Status+"\n")
		require.Equal(t, whole.Coverage.Complete, strings.Contains(said, "coverage: complete\n"))
		for _, g := range whole.Coverage.Missing {
			require.Contains(t, said, "missing: "+g)
		}
		require.Contains(t, said, "effect: "+whole.Effect.Disposition)
		if whole.Effect.OperationID != nil {
			require.Contains(t, said, *whole.Effect.OperationID)
		}
	})
}

func TestRecordDigest_R9(t *testing.T) {
	r := toolresult.Complete("c", json.RawMessage("{ \"a\" : \"<\" }"))
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back toolresult.Result
	require.NoError(t, json.Unmarshal(text, &back))
	sum := sha256.Sum256([]byte(`{"a":"\u003c"}`))
	require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), r.Record().DataDigest, "of the bytes in the JSON form")
	require.Equal(t, r.Record(), back.Record(), "the same before and after the wire")
	require.Equal(t, 14, r.Record().DataBytes)
}

// A secret that is where secrets come to be is in no projection, no log and no
// error; content is in no record, no log and no error.
func TestCanaries_R10(t *testing.T) {
	secret := errors.New("Get https://user:CANARY-CAUSE@provider/?token=CANARY-CAUSE")
	lost := toolresult.NotApplied("c", "op", toolresult.WrapError(toolresult.OutcomeUnknown, "lost", secret))
	refused := toolresult.Failure("c", toolresult.WrapError(toolresult.ProviderError, "the provider failed", fmt.Errorf("x: %w", secret)))
	plain := toolresult.Failure("c", secret)
	for _, r := range []*toolresult.Result{lost, refused, plain} {
		for i, p := range projections(t, r) {
			require.NotContains(t, p, "CANARY", "projection %d of %v", i, r)
		}
		require.ErrorIs(t, r.Error.Cause(), secret, "operators can ask for it")
	}

	full := page()
	full.Summary, full.Data = "CANARY-SUMMARY", json.RawMessage(`[{"a":"CANARY-DATA"}]`)
	told := failed()
	told.Error = told.Error.With("/a", "CANARY-ARGUMENT").WithDiagnostics(toolresult.Diagnostics{ProviderText: "CANARY-TEXT", ProviderCode: "code-7"})
	bad := *full // invalid: every word of it may be anything
	bad.Status, bad.Coverage.Missing, bad.Error = "CANARY status", []toolresult.Gap{"CANARY gap"}, &toolresult.Error{Code: "not a code"}
	for _, r := range []*toolresult.Result{full, told, &bad} {
		all := projections(t, r)
		require.Contains(t, all[0], "CANARY", "control: the structured form has it")
		for i, p := range append(all[1:2], all[3:]...) {
			require.NotContains(t, p, "CANARY", "projection %d of %v", i, r)
		}
	}
	require.NotContains(t, bad.Text(nil), "CANARY", "the content of an invalid result is not shown")
}

func TestRecordHoldsReferences_R9(t *testing.T) {
	r := page()
	require.NoError(t, json.Unmarshal([]byte(`{"call_id":"c","status":"success","data":[1],"coverage":{"complete":true},"effect":{"disposition":"none"},"later":"CANARY",
		"provenance":{"service":"logs","object":"order-service","source_version":"5","provider_request_id":"req-1","window":"02:35Z/02:50Z","later":"CANARY","sources":[{"service":"a","later":"CANARY"}]}}`), r))
	rec := r.Record()
	require.Equal(t, "order-service", rec.Provenance.Object)
	require.Equal(t, "02:35Z/02:50Z", rec.Provenance.Window.String())
	require.Len(t, rec.Provenance.Sources, 1)
	text, err := json.Marshal(rec)
	require.NoError(t, err)
	require.NotContains(t, string(text), "CANARY")

	rec.Diagnostics.ProviderText = "CANARY" // by hand
	text, err = json.Marshal(rec)
	require.NoError(t, err)
	require.NotContains(t, string(text), "CANARY")

	loop := toolresult.Provenance{Service: "s", FetchedAt: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), Sources: make([]toolresult.Provenance, 1)}
	loop.Sources[0] = loop
	r.Provenance = loop
	_, err = json.Marshal(r.Record())
	require.NoError(t, err, "a record can always be written")
	var none *toolresult.Result
	require.Equal(t, toolresult.MeaningInvalid, none.Record().Meaning)
}
