package artifact_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact/artifacttest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMemory_R8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		artifacttest.Run(t, artifact.NewMemory(1<<20), &artifacttest.Options{Pass: time.Sleep})
	})
}

func TestMemoryRoom_R8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := artifact.NewMemory(10)
		put := func(text string, life time.Duration) error {
			meta := &artifact.Meta{Ref: artifact.Ref{Run: "r", Name: "n"}, Tenant: "t", Connection: "c", Expires: time.Now().Add(life)}
			return m.Put(t.Context(), meta, strings.NewReader(text), math.MaxInt64)
		}
		require.NoError(t, put("1234567", time.Minute))
		require.ErrorIs(t, put("1234", time.Minute), toolresult.QuotaExceeded)
		require.ErrorIs(t, put(strings.Repeat("x", 11), time.Minute), toolresult.QuotaExceeded)
		require.NoError(t, put("123", time.Hour))
		time.Sleep(time.Minute)
		require.NoError(t, put("1234567", time.Minute), "what is over makes room")
		require.NoError(t, m.Purge(t.Context(), "t", "c"))
		require.NoError(t, put("1234567890", time.Minute), "and so does what was purged")
	})
	var zero artifact.Memory
	meta := &artifact.Meta{Ref: artifact.Ref{Run: "r", Name: "n"}, Tenant: "t", Expires: time.Now().Add(time.Hour)}
	require.ErrorIs(t, zero.Put(t.Context(), meta, strings.NewReader("x"), 1), toolresult.QuotaExceeded)
	unbounded := artifact.NewMemory(math.MaxInt64)
	require.NoError(t, unbounded.Put(t.Context(), meta, strings.NewReader("x"), math.MaxInt64))
	require.EqualValues(t, 1, meta.Size)
}

func TestParseRef_R8(t *testing.T) {
	for _, row := range []struct {
		why, text string
		ok        bool
	}{
		{"the text form", "artifact://run-1/issues.list/3", true},
		{"another scheme", "http://run/name/3", false},
		{"capitals in the scheme", "Artifact://run/name/3", false},
		{"no number", "artifact://run/name", false},
		{"a number of nothing", "artifact://run/name/0", false},
		{"a negative number", "artifact://run/name/-1", false},
		{"a number with a zero before it", "artifact://run/name/03", false},
		{"a plus", "artifact://run/name/+3", false},
		{"more behind it", "artifact://run/name/3/4", false},
		{"a query", "artifact://run/name?x/3", false},
		{"an escape", "artifact://run/na%2fme/3", false},
		{"a dot segment", "artifact://../name/3", false},
		{"no run", "artifact:///name/3", false},
		{"a space", "artifact://run/na me/3", false},
		{"a long name", "artifact://run/" + strings.Repeat("x", 129) + "/3", false},
		{"nothing", "", false},
	} {
		r, err := artifact.ParseRef(row.text)
		require.Equal(t, row.ok, err == nil, row.why)
		if !row.ok {
			require.ErrorIs(t, err, artifact.ErrRef, row.why)
			require.Zero(t, r, row.why)
			require.Empty(t, r.String(), row.why)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("artifact://run-1/issues.list/3")
	f.Add("artifact://../x/0")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := artifact.ParseRef(text); err == nil {
			require.Equal(t, text, r.String())
			require.NotContains(t, text, "..//")
			require.Positive(t, r.N)
		}
	})
}

func ExampleMemory() {
	store := artifact.NewMemory(1 << 20)
	ctx := context.Background()
	meta := &artifact.Meta{Ref: artifact.Ref{Run: "run-1", Name: "issues"}, Tenant: "acme", Connection: "c1", Expires: time.Now().Add(time.Hour)}
	if err := store.Put(ctx, meta, strings.NewReader("a long answer"), 1<<16); err != nil {
		fmt.Println(err)
		return
	}
	_, body, err := store.Open(ctx, "acme", meta.Ref)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	fmt.Println(meta.Ref, string(text), err)
	_, _, err = store.Open(ctx, "globex", meta.Ref)
	fmt.Println(err)
	// Output:
	// artifact://run-1/issues/1 a long answer <nil>
	// NOT_FOUND: no such artifact
}
