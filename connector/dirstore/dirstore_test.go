package dirstore_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact/artifacttest"
	"github.com/drawbridge-sdk/drawbridge/connector/dirstore"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func keys(t testing.TB) *credential.Keyring {
	t.Helper()
	k, err := credential.NewKeyring("k1", map[string][]byte{"k1": []byte(strings.Repeat("k", 32))})
	require.NoError(t, err)
	return k
}

func open(t testing.TB, dir string, opts *dirstore.Options) *dirstore.Store {
	t.Helper()
	s, err := dirstore.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func meta(tenant string) *artifact.Meta {
	return &artifact.Meta{Ref: artifact.Ref{Run: "run", Name: "name"}, Tenant: tenant, Connection: "c", MediaType: "text/plain",
		Scope: authz.Only(authz.ResourceID{Type: "project", ID: "inc"}), Expires: time.Now().Add(time.Hour)}
}

func put(t testing.TB, s *dirstore.Store, text string) *artifact.Meta {
	t.Helper()
	m := meta("acme")
	require.NoError(t, s.Put(t.Context(), m, strings.NewReader(text), 1<<20))
	return m
}

func read(t testing.TB, s *dirstore.Store, m *artifact.Meta) (string, error) {
	t.Helper()
	_, r, err := s.Open(t.Context(), m.Tenant, m.Ref)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	require.NoError(t, r.Close())
	return string(b), err
}

func files(t testing.TB, dir, suffix string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, suffix) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

func TestContract_R8(t *testing.T) {
	for why, opts := range map[string]*dirstore.Options{"sealed": {Seal: keys(t)}, "in clear": {Plaintext: true}} {
		t.Run(why, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				artifacttest.Run(t, open(t, dir, opts), &artifacttest.Options{Pass: time.Sleep})
			})
		})
	}
}

// Nobody else on the machine reads or lists what is kept.
func TestPermissions_R8(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	put(t, open(t, dir, &dirstore.Options{Plaintext: true}), "text")
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
	require.NotEmpty(t, files(t, dir, ".data"))
}

func TestOptions(t *testing.T) {
	for why, opts := range map[string]*dirstore.Options{"nothing said": nil, "zero": {}, "both": {Seal: keys(t), Plaintext: true}} {
		_, err := dirstore.Open(t.TempDir(), opts)
		require.ErrorIs(t, err, dirstore.ErrOptions, why)
	}
	_, err := dirstore.Open("", &dirstore.Options{Plaintext: true})
	require.ErrorIs(t, err, dirstore.ErrOptions)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = dirstore.Open(file, &dirstore.Options{Plaintext: true})
	require.Error(t, err)
}

// Two stores are what two processes have: numbers are never given twice, and
// what one wrote the other reads, also after a restart.
func TestTwoProcesses_R8(t *testing.T) {
	dir := t.TempDir()
	one, two := open(t, dir, &dirstore.Options{Seal: keys(t)}), open(t, dir, &dirstore.Options{Seal: keys(t)})
	var mu sync.Mutex
	seen := map[artifact.Ref]string{}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			s, text := one, strings.Repeat("x", i*9000)
			if i%2 == 0 {
				s = two
			}
			m := meta("acme")
			if err := s.Put(t.Context(), m, strings.NewReader(text), 1<<20); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[m.Ref] = text
		})
	}
	all.Wait()
	require.Len(t, seen, 16)
	three := open(t, dir, &dirstore.Options{Seal: keys(t)})
	for ref, text := range seen {
		got, err := read(t, three, &artifact.Meta{Tenant: "acme", Ref: ref})
		require.NoError(t, err)
		require.Equal(t, text, got)
	}
	require.NoError(t, two.Purge(t.Context(), "acme", "c"))
	require.Equal(t, 17, put(t, one, "again").Ref.N, "no number comes back")
}

// Bytes that somebody changed on disk are refused, however they were changed, and
// no prefix of them passes for the whole.
func TestDamage_R8(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 10_000) // three chunks
	for _, row := range []struct {
		why    string
		change func(b []byte) []byte
	}{
		{"a byte is another", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		{"the end is gone", func(b []byte) []byte { return b[:len(b)-1] }},
		{"the last chunk is gone", func(b []byte) []byte { return b[:2*(len(b)/3)] }},
		{"nothing is left", func([]byte) []byte { return nil }},
		{"bytes are added", func(b []byte) []byte { return append(b, 0, 0, 0, 1, 'x') }},
		{"a length is cut", func(b []byte) []byte { return append(b, 0, 0) }},
		{"a length of nothing", func(b []byte) []byte { return append(make([]byte, 4), b...) }},
		{"a length of everything", func(b []byte) []byte { return append([]byte{255, 255, 255, 255}, b...) }},
	} {
		for kind, opts := range map[string]*dirstore.Options{"sealed": {Seal: keys(t)}, "in clear": {Plaintext: true}} {
			dir := t.TempDir()
			s := open(t, dir, opts)
			m := put(t, s, text)
			file := files(t, dir, ".data")[0]
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, kind == "in clear", strings.Contains(string(b), text[:64]), "sealed bytes are not in clear")
			require.NoError(t, os.WriteFile(file, row.change(b), 0o600))
			_, err = read(t, s, m)
			require.Error(t, err, "%s, %s", row.why, kind)
			if kind == "in clear" {
				require.ErrorIs(t, err, artifact.ErrDigest, row.why)
			}
		}
	}
}

// The bytes of one artifact are not those of another, even of the same size.
func TestSwapped_R8(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &dirstore.Options{Seal: keys(t)})
	one := put(t, s, "mine")
	put(t, s, "your")
	data, known := files(t, dir, ".data"), files(t, dir, ".meta")
	require.NoError(t, os.Rename(data[1], data[0]))
	_, err := read(t, s, one)
	require.Error(t, err)
	require.NoError(t, os.Rename(known[1], known[0]))
	_, err = read(t, s, one)
	var e *toolresult.Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, e.Cause(), artifact.ErrMeta)
}

// A link in the directory leads nowhere.
func TestLink_R8(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	s := open(t, dir, &dirstore.Options{Plaintext: true})
	m := put(t, s, "text")
	file := files(t, dir, ".data")[0]
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink(outside, file))
	got, err := read(t, s, m)
	require.Error(t, err)
	require.Empty(t, got)
}

type failing struct{ after int }

func (f *failing) Read(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errors.New("the source is gone")
	}
	return len(p), nil
}

// What fails leaves nothing but its number, which is not used again.
func TestFailedPut_R8(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &dirstore.Options{Seal: keys(t)})
	require.ErrorContains(t, s.Put(t.Context(), meta("acme"), &failing{200_000}, 1<<20), "could not be read")
	require.ErrorIs(t, s.Put(t.Context(), meta("acme"), strings.NewReader("12345"), 4), toolresult.ResultTooLarge)
	for _, suffix := range []string{".data", ".meta", ".temp"} {
		require.Empty(t, files(t, dir, suffix))
	}
	require.Equal(t, 3, put(t, s, "x").Ref.N)
}

func TestSweep_R8(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &dirstore.Options{Plaintext: true})
	kept, over := put(t, s, "kept"), meta("other")
	over.Expires = time.Now().Add(20 * time.Millisecond)
	require.NoError(t, s.Put(t.Context(), over, strings.NewReader("over"), 10))
	tenant := filepath.Dir(files(t, dir, ".meta")[0])
	old, young, broken := filepath.Join(tenant, "old.data"), filepath.Join(tenant, "young.data"), filepath.Join(tenant, "broken.meta")
	for _, file := range []string{old, young, broken} {
		require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	}
	past := time.Now().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(old, past, past))
	require.Eventually(t, func() bool { return !time.Now().Before(over.Expires) }, time.Minute, time.Millisecond)

	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, s.Sweep(ended), context.Canceled)
	require.FileExists(t, old, "nothing is done after the context's end")
	err := s.Sweep(t.Context())
	require.ErrorContains(t, err, "broken.meta", "what cannot be read is named")
	require.NoFileExists(t, old)
	require.FileExists(t, young, "somebody may be writing it")
	got, err := read(t, s, kept)
	require.NoError(t, err)
	require.Equal(t, "kept", got)
	require.Len(t, files(t, dir, ".data"), 2, "the kept one and the young one")
	_, err = read(t, s, over)
	require.ErrorIs(t, err, toolresult.NotFound)
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01x"))
	f.Add([]byte{})
	dir := f.TempDir()
	s := open(f, dir, &dirstore.Options{Plaintext: true})
	m := put(f, s, "x")
	file := files(f, dir, ".data")[0]
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(file, b, 0o600))
		if got, err := read(t, s, m); err == nil {
			require.Equal(t, "x", got, "what has the digest is what was put")
		}
	})
}
