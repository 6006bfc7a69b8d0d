package mcpadapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A dialogue is a txtar file: lines that a client sends ("in"), and what each
// answer must hold ("out", one line of fragments for each, separated by " & ").
func TestStdioDialogues_M1(t *testing.T) {
	files, err := filepath.Glob("testdata/stdio/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			parts := map[string]string{}
			for _, f := range txtar.Parse(text).Files {
				parts[f.Name] = strings.TrimRight(string(f.Data), "\n")
			}
			w := newWorld(t)
			for name := range parts {
				if subject, ok := strings.CutPrefix(name, "hide "); ok {
					w.hide("alice", subject, true)
				}
			}
			a := w.adapter(t, as(w.alice), &mcpadapter.Options{MaxRequestBytes: 4096})
			converse(t, a, expand(parts["in"]), parts["out"])
		})
	}
}

// expand writes out «N×text».
func expand(s string) string {
	return regexp.MustCompile(`«(\d+)×([^»]*)»`).ReplaceAllStringFunc(s, func(m string) string {
		n, text, _ := strings.Cut(strings.Trim(m, "«»"), "×")
		var count int
		_ = json.Unmarshal([]byte(n), &count)
		return strings.Repeat(text, count)
	})
}

// converse sends one line at a time and reads its answer, if there is one.
func converse(t *testing.T, a *mcpadapter.Adapter, in, out string) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- a.Stdio(context.Background(), inR, outW)
		_ = outW.Close()
	}()
	answers := json.NewDecoder(outR)
	wants := strings.Split(out, "\n")
	for i, line := range strings.Split(in, "\n") {
		_, err := io.WriteString(inW, line+"\n")
		require.NoError(t, err)
		if wants[i] == "-" {
			continue
		}
		var got json.RawMessage
		require.NoError(t, answers.Decode(&got), "line %d", i+1)
		for _, want := range strings.Split(wants[i], " & ") {
			if no, ok := strings.CutPrefix(want, "not "); ok {
				require.NotContains(t, string(got), no, "line %d", i+1)
				continue
			}
			require.Contains(t, string(got), want, "line %d", i+1)
		}
		require.NotContains(t, string(got), "canary")
	}
	require.NoError(t, inW.Close())
	require.NoError(t, <-ended)
	rest, err := io.ReadAll(io.MultiReader(answers.Buffered(), outR))
	require.NoError(t, err)
	require.Empty(t, string(bytes.TrimSpace(rest)), "nothing is said that was not asked for")
}

// The answer of a call is written although the input has ended: a client may
// close its end at once.
func TestStdioAnswersBeforeItEnds(t *testing.T) {
	w := newWorld(t)
	var out bytes.Buffer
	in := strings.NewReader(modern("tools/call", 1, `"name":"tickets.get","arguments":{"id":"1"}`))
	require.NoError(t, w.adapter(t, as(w.alice), nil).Stdio(t.Context(), in, &out))
	require.Contains(t, out.String(), `"status":"success"`)
}

func TestStdioWithoutCallerServesNothing_A1(t *testing.T) {
	w := newWorld(t)
	a := w.adapter(t, func(context.Context, *http.Request) (authz.Principal, error) {
		return authz.Principal{}, errors.New(canaryText)
	}, nil)
	err := a.Stdio(t.Context(), strings.NewReader(modern("tools/list", 1, "")), io.Discard)
	require.ErrorIs(t, err, toolresult.AuthenticationRequired)
	require.NotContains(t, err.Error(), "canary")

	_, err = mcpadapter.New(w.inv, nil, nil)
	require.ErrorContains(t, err, "PrincipalFunc")
}

func TestStdioEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	defer inW.Close()
	ended := make(chan error, 1)
	go func() { ended <- w.adapter(t, as(w.alice), nil).Stdio(ctx, inR, io.Discard) }()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// modern is a request of revision 2026-07-28. params may be empty.
func modern(method string, id int, params string) string {
	if params != "" {
		params += ","
	}
	return compact(`{"jsonrpc":"2.0","id":` + itoa(id) + `,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
}

func compact(s string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(s)) != nil {
		return s
	}
	return b.String()
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}
