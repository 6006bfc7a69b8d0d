// Package artifacttest checks that an artifact.Store keeps its contract.
package artifacttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Options are options of Run.
type Options struct {
	// Pass lets time pass, for a store whose clock the test can move, as in a
	// testing/synctest bubble. Nil: what is over is not checked.
	Pass func(time.Duration)
}

// Run checks a store that is empty and has room for a megabyte. It starts no
// subtests, so that it can run in a testing/synctest bubble.
func Run(t *testing.T, s artifact.Store, opts *Options) {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	roundTrip(t, s)
	numbers(t, s)
	limits(t, s)
	refuses(t, s)
	tenants(t, s)
	purge(t, s)
	concurrent(t, s)
	if opts.Pass != nil {
		expiry(t, s, opts.Pass)
	}
}

func meta(tenant, name string) *artifact.Meta {
	return &artifact.Meta{
		Ref: artifact.Ref{Run: "run-1", Name: name}, Tenant: tenant, Connection: "c1", MediaType: "text/plain",
		Owner: authz.PrincipalKey{Tenant: tenant, Issuer: "https://id.example", Subject: "alice"},
		Scope: authz.Only(authz.ResourceID{Type: "project", ID: "inc"}), Expires: time.Now().Add(time.Hour),
	}
}

func put(t *testing.T, s artifact.Store, tenant, name, text string) *artifact.Meta {
	t.Helper()
	m := meta(tenant, name)
	require.NoError(t, s.Put(t.Context(), m, strings.NewReader(text), 1<<20))
	return m
}

// missing checks that an artifact is NOT_FOUND in the one text there is.
func missing(t *testing.T, s artifact.Store, tenant string, ref artifact.Ref, why string) {
	t.Helper()
	_, _, none := s.Open(t.Context(), tenant, artifact.Ref{Run: "never", Name: "was", N: 1})
	m, body, err := s.Open(t.Context(), tenant, ref)
	require.ErrorIs(t, err, toolresult.NotFound, why)
	require.Equal(t, none.Error(), err.Error(), why)
	require.Nil(t, m, why)
	require.Nil(t, body, why)
}

func roundTrip(t *testing.T, s artifact.Store) {
	t.Helper()
	for _, text := range []string{"", "hello", strings.Repeat("x", 100_000)} {
		m := put(t, s, "acme", "round-trip", text)
		require.Equal(t, int64(len(text)), m.Size)
		require.True(t, strings.HasPrefix(m.Digest, "sha256:") && len(m.Digest) == len("sha256:")+64)
		again, err := artifact.ParseRef(m.Ref.String())
		require.NoError(t, err)
		got, body, err := s.Open(t.Context(), "acme", again)
		require.NoError(t, err)
		require.Equal(t, m.Scope.Digest(), got.Scope.Digest(), "the scope decides who may read it")
		require.True(t, m.Expires.Equal(got.Expires))
		require.Equal(t, []any{m.Ref, m.Tenant, m.Owner, m.Connection, m.MediaType, m.Digest, m.Size}, []any{got.Ref, got.Tenant, got.Owner, got.Connection, got.MediaType, got.Digest, got.Size})
		data, err := io.ReadAll(iotest.OneByteReader(body))
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		require.NoError(t, body.Close())
		got.Tenant = "other"
		got, body, err = s.Open(t.Context(), "acme", again)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Equal(t, "acme", got.Tenant, "a Meta is a copy")
	}
}

func numbers(t *testing.T, s artifact.Store) {
	t.Helper()
	a, b, c := put(t, s, "acme", "a", "1"), put(t, s, "acme", "a", "2"), put(t, s, "acme", "b", "3")
	require.Equal(t, []int{1, 2, 1}, []int{a.Ref.N, b.Ref.N, c.Ref.N})
	require.Equal(t, 1, put(t, s, "globex", "a", "x").Ref.N, "what others store does not show")
}

func limits(t *testing.T, s artifact.Store) {
	t.Helper()
	m := meta("acme", "limits")
	err := s.Put(t.Context(), m, strings.NewReader("12345"), 4)
	require.ErrorIs(t, err, toolresult.ResultTooLarge)
	missing(t, s, "acme", artifact.Ref{Run: "run-1", Name: "limits", N: 1}, "nothing is left of what was too large")
	err = s.Put(t.Context(), m, io.MultiReader(strings.NewReader("12"), iotest.ErrReader(errors.New("cut"))), 4)
	require.Error(t, err)
	missing(t, s, "acme", artifact.Ref{Run: "run-1", Name: "limits", N: 1}, "nothing is left of what could not be read")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = s.Put(ctx, m, strings.NewReader("12"), 4)
	require.ErrorIs(t, err, toolresult.Cancelled)
	require.NoError(t, s.Put(t.Context(), m, strings.NewReader("1234"), 4), "the limit itself fits")
}

func refuses(t *testing.T, s artifact.Store) {
	t.Helper()
	for why, change := range map[string]func(*artifact.Meta){
		"no tenant":        func(m *artifact.Meta) { m.Tenant = "" },
		"no end":           func(m *artifact.Meta) { m.Expires = time.Time{} },
		"over already":     func(m *artifact.Meta) { m.Expires = time.Now().Add(-time.Second) },
		"no run":           func(m *artifact.Meta) { m.Ref.Run = "" },
		"a run with slash": func(m *artifact.Meta) { m.Ref.Run = "a/b" },
		"a dot segment":    func(m *artifact.Meta) { m.Ref.Name = ".." },
	} {
		m := meta("acme", "refused")
		change(m)
		require.ErrorIs(t, s.Put(t.Context(), m, strings.NewReader("x"), 10), artifact.ErrMeta, why)
	}
}

func tenants(t *testing.T, s artifact.Store) {
	t.Helper()
	m := put(t, s, "acme", "private", "x")
	missing(t, s, "globex", m.Ref, "another tenant's")
	missing(t, s, "", m.Ref, "nobody's")
	other := m.Ref
	other.N++
	missing(t, s, "acme", other, "the next number")
	require.NoError(t, s.Purge(t.Context(), "globex", "c1"))
	_, body, err := s.Open(t.Context(), "acme", m.Ref)
	require.NoError(t, err, "another tenant's purge changes nothing")
	require.NoError(t, body.Close())
}

func purge(t *testing.T, s artifact.Store) {
	t.Helper()
	gone, stays := put(t, s, "acme", "purged", "secret"), meta("acme", "stays")
	stays.Connection = "c2"
	require.NoError(t, s.Put(t.Context(), stays, strings.NewReader("x"), 10))
	_, open, err := s.Open(t.Context(), "acme", gone.Ref)
	require.NoError(t, err)
	for range 2 { // removing what is gone is not an error
		require.NoError(t, s.Purge(t.Context(), "acme", "c1"))
	}
	missing(t, s, "acme", gone.Ref, "purged")
	data, err := io.ReadAll(open)
	require.ErrorIs(t, err, toolresult.NotFound, "a reader that was open")
	require.Empty(t, data)
	require.NoError(t, open.Close())
	_, body, err := s.Open(t.Context(), "acme", stays.Ref)
	require.NoError(t, err, "another connection's")
	require.NoError(t, body.Close())
	require.NotEqual(t, gone.Ref, put(t, s, "acme", "purged", "new").Ref, "a reference is never used again")
}

func concurrent(t *testing.T, s artifact.Store) {
	t.Helper()
	refs := make([]artifact.Ref, 8)
	errs := make([]error, len(refs))
	var wg sync.WaitGroup
	for i := range refs {
		wg.Go(func() {
			m := meta("acme", "concurrent")
			errs[i] = s.Put(t.Context(), m, bytes.NewReader([]byte{byte(i)}), 10)
			refs[i] = m.Ref
		})
	}
	wg.Wait()
	seen := map[artifact.Ref]bool{}
	for i, ref := range refs {
		require.NoError(t, errs[i])
		require.False(t, seen[ref], "two artifacts under one reference")
		seen[ref] = true
		_, body, err := s.Open(t.Context(), "acme", ref)
		require.NoError(t, err)
		data, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, data)
		require.NoError(t, body.Close())
	}
}

func expiry(t *testing.T, s artifact.Store, pass func(time.Duration)) {
	t.Helper()
	m := put(t, s, "acme", "expiry", "x")
	_, open, err := s.Open(t.Context(), "acme", m.Ref)
	require.NoError(t, err)
	pass(time.Hour)
	missing(t, s, "acme", m.Ref, "over")
	_, err = open.Read(make([]byte, 1))
	require.ErrorIs(t, err, toolresult.NotFound, "a reader that was open")
	require.NoError(t, open.Close())
}
