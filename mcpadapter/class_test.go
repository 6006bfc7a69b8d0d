package mcpadapter

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// Classes are shared, bounded, and the ones that are used stay.
func TestClassesAreBounded(t *testing.T) {
	var cs classes
	made := 0
	get := func(i int) *class {
		var seed [8]byte
		binary.BigEndian.PutUint64(seed[:], uint64(i))
		return cs.get(sha256.Sum256(seed[:]), func() *class { made++; return newClass(nil) })
	}
	first := get(0)
	require.Same(t, first, get(0))
	for i := 1; i < 3*maxClasses; i++ {
		get(i)
		require.Same(t, first, get(0), "it is in use")
	}
	require.Equal(t, 3*maxClasses, made)
	require.Equal(t, maxClasses, cs.order.Len())
	require.Len(t, cs.by, maxClasses)
	get(1)
	require.Equal(t, 3*maxClasses+1, made, "what was not used is made again")
}

func TestClassesMadeOnce(t *testing.T) {
	var cs classes
	var wg sync.WaitGroup
	got := make([]*class, 32)
	for i := range got {
		wg.Go(func() { got[i] = cs.get(sha256.Sum256(nil), func() *class { return newClass(nil) }) })
	}
	wg.Wait()
	for _, c := range got {
		require.Same(t, got[0], c)
	}
}

func TestNote(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"two\nlines\u2028x":            "two lines x",
		"\x1b[31mred\u202e":            " [31mred ",
		strings.Repeat("x", 300):       strings.Repeat("x", 256),
		strings.Repeat("é", 200):       strings.Repeat("é", 128),
		strings.Repeat("x", 255) + "é": strings.Repeat("x", 255),
	} {
		require.Equal(t, want, note(in))
	}
}

// Whatever comes in, what is handed on is one message of JSON-RPC to a line, and
// nothing panics.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"))
	f.Add([]byte("not json\r\n\n[1]\n{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":{"a":[[[[]]]]},"method":"` + "\xff" + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		calls := &pending{zero: make(chan struct{}, 1), closed: make(chan struct{})}
		calls.close() // nobody answers here
		out := &lineWriter{w: io.Discard, calls: calls}
		r := &lineReader{r: newLines(strings.NewReader(string(text))), out: out, calls: calls, limit: 64}
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		for line := range strings.Lines(string(got)) {
			_, bad := judge([]byte(strings.TrimSuffix(line, "\n")), false)
			require.Empty(t, bad)
			require.LessOrEqual(t, len(line), 65)
		}
	})
}

// FuzzID: whatever a body is, the id of the answer is one that JSON-RPC knows.
func FuzzID(f *testing.F) {
	for _, s := range []string{`{"id":1}`, `{"id":"a\u0000"}`, `{"id":{}}`, `{"ID":1,"id":null}`, `{"id":true}`, `[`, `{"id":1e400}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		id := idOf(body)
		require.NotEmpty(t, id)
		require.Contains(t, `"-0123456789n`, string(id[0]))
		isBatch(body)
		isCall(body)
		deep(body)
	})
}

// Views are bounded, end when they say, and those that are used stay.
func TestViewsAreBounded(t *testing.T) {
	var vs views
	vs.keep(&viewed{key: "first"})
	for i := range 3 * maxViews {
		vs.keep(&viewed{key: string(rune(i)) + "x"})
		_, ok := vs.find("first")
		require.True(t, ok, "it is in use")
	}
	require.Equal(t, maxViews, vs.order.Len())
	require.Len(t, vs.by, maxViews)

	vs.keep(&viewed{key: "over", until: time.Now().Add(-time.Nanosecond)})
	_, ok := vs.find("over")
	require.False(t, ok)
	vs.keep(&viewed{key: "over", class: classKey{1}, until: time.Now().Add(time.Hour)})
	key, ok := vs.find("over")
	require.True(t, ok)
	require.Equal(t, classKey{1}, key)
	_, ok = vs.find("")
	require.False(t, ok, "no key is nobody's")
}

// Encoded lists have a limit in bytes, too.
func TestClassesAreBoundedInBytes(t *testing.T) {
	var cs classes
	big := &tool{tool: &mcp.Tool{Name: "x"}, encoded: make([]byte, maxClassBytes/4)}
	for i := range byte(16) {
		cs.get(classKey{i}, func() *class { return newClass([]*tool{big}) })
		require.LessOrEqual(t, cs.bytes, maxClassBytes)
	}
	require.Equal(t, 4, cs.order.Len())
	huge := &tool{tool: &mcp.Tool{Name: "y"}, encoded: make([]byte, 2*maxClassBytes)}
	c := cs.get(classKey{99}, func() *class { return newClass([]*tool{huge}) })
	require.Same(t, c, cs.find(classKey{99}), "one that is over it alone is kept while it is the last")
	require.Equal(t, 1, cs.order.Len())
}

// What clients say about themselves is remembered, and forgotten when there is
// too much of it.
func TestMetasAreBounded(t *testing.T) {
	var m metas
	const about = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"n":%d}}`
	for i := range 3 * maxMetas {
		_, ok := m.read(fmt.Appendf(nil, about, i))
		require.True(t, ok)
		require.LessOrEqual(t, len(m.by), maxMetas)
	}
	_, ok := m.read(fmt.Appendf(nil, strings.Replace(about, `"n"`, `"`+strings.Repeat("n", maxMetaText)+`"`, 1), 1))
	require.False(t, ok, "a long one is the SDK's")
}
