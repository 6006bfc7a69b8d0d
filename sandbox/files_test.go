//go:build unix

package sandbox_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func world(t *testing.T) (ws, out string, f *sandbox.Files) {
	root := dir(t)
	ws, out = filepath.Join(root, "ws"), filepath.Join(root, "outside")
	for _, d := range []string{"ws/sub", "ws/ro", "ws-evil", "outside"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	for _, p := range []string{"ws/ok", "ws/.env", "ws/sub/.ENV", "ws/sub/my-secret", "ws-evil/f", "outside/f", "ws/.gitmodules"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, p), []byte("content"), 0o600))
	}
	require.NoError(t, os.Symlink(out+"/f", ws+"/link"))
	require.NoError(t, os.Symlink(out, ws+"/dirlink"))
	require.NoError(t, os.Symlink("gone", ws+"/dangling"))
	require.NoError(t, os.Symlink(".env", ws+"/alias"))
	require.NoError(t, os.Link(out+"/f", ws+"/hard"))
	require.NoError(t, syscall.Mkfifo(ws+"/pipe", 0o600))
	r, err := (&sandbox.Policy{Filesystem: sandbox.Filesystem{AllowWrite: []string{"./"}, DenyRead: []string{".env", "**/*secret*"}}}).Resolve(sandbox.Base{Workspace: ws})
	require.NoError(t, err)
	f, err = r.Files()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return ws, out, f
}

// S2, level path: cases 103-106, 109-110, 118-119, 122-124.
func TestFiles_S2(t *testing.T) {
	ws, out, f := world(t)
	for _, row := range []struct{ says, name string }{
		{"case 103: a way up", "../outside/f"},
		{"case 103: hidden in the middle", "sub/../../outside/f"},
		{"case 103: absolute", out + "/f"},
		{"case 103: that comes back", "sub/../ok"},
		{"case 104: a link out", "link"},
		{"case 104: a link to a directory", "dirlink/f"},
		{"case 104: with a slash", "dirlink/"},
		{"case 104: a link that leads nowhere", "dangling"},
		{"case 104: a link to what is denied", "alias"},
		{"case 105: a twin of the prefix", ws + "-evil/f"},
		{"case 106: a hard link", "hard"},
		{"case 109: a root in /proc", "/proc/self/root" + out + "/f"},
		{"case 110: a pipe, without waiting", "pipe"},
		{"case 118: other letters", "sub/.ENV"},
		{"case 119: a pattern", "sub/my-secret"},
		{"a denied name", ".env"},
		{"case 107: another file system's interface", "/dev/null"},
	} {
		_, err := f.Open(row.name)
		require.ErrorIs(t, err, toolresult.PermissionDenied, row.says)
		_, err = f.Create(row.name)
		require.ErrorIs(t, err, toolresult.PermissionDenied, row.says)
	}
	_, err := f.Create(".git/hooks/pre-commit")
	require.ErrorIs(t, err, toolresult.PermissionDenied, "case 125: hooks")
	_, err = f.Create(".gitmodules")
	require.ErrorIs(t, err, toolresult.PermissionDenied)
	_, err = f.Open("none")
	require.ErrorIs(t, err, os.ErrNotExist)

	file, err := f.Open("ok")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	list, err := f.Open(".")
	require.NoError(t, err)
	require.NoError(t, list.Close())
	file, err = f.Create("sub/new")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	for _, p := range []string{out + "/f", ws + "/.env", ws + "/hard"} {
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		require.Equal(t, "content", string(text), "a refused Create cuts nothing")
	}

	rep := f.Report()
	require.Equal(t, sandbox.LevelPath, rep.Level)
	require.Equal(t, sandbox.None, rep.Of(sandbox.NetEgress).Strength)
	for _, e := range rep.Claims {
		require.NotEmpty(t, e.Gap, e.Claim)
	}
}

// Case 123: names in an archive are names of strangers.
func TestArchive(t *testing.T) {
	ws, out, f := world(t)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, n := range []string{"../outside/evil", "/etc/evil", "a/../../evil", "sub/fine", "dirlink/evil", "..", "sub/../../outside/evil", `..\evil`} {
		_, err := z.Create(n)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if r == nil {
		t.Fatal(err)
	}
	made := 0
	for _, e := range r.File {
		if file, err := f.Create(e.Name); err == nil {
			made++
			require.NoError(t, file.Close())
		}
	}
	require.Equal(t, 2, made, "sub/fine, and a file whose odd name is one element here")
	require.NoFileExists(t, out+"/evil")
	require.NoFileExists(t, filepath.Dir(ws)+"/evil")
}

// Case 108: a directory that is exchanged with a link all the time is never
// followed.
func TestExchange(t *testing.T) {
	ws, out, f := world(t)
	require.NoError(t, os.WriteFile(out+"/race", []byte("SECRET"), 0o600))
	require.NoError(t, os.WriteFile(ws+"/sub/race", []byte("fine"), 0o600))
	require.NoError(t, os.Symlink(out, ws+"/other"))
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for !stop.Load() {
			os.Rename(ws+"/sub", ws+"/tmp")
			os.Rename(ws+"/other", ws+"/sub")
			os.Rename(ws+"/sub", ws+"/other")
			os.Rename(ws+"/tmp", ws+"/sub")
		}
	})
	for range 5000 {
		file, err := f.Open("sub/race")
		if err != nil {
			continue
		}
		text := make([]byte, 6)
		n, _ := file.Read(text)
		require.Equal(t, "fine", string(text[:n]))
		require.NoError(t, file.Close())
	}
	stop.Store(true)
	all.Wait()
}

// Case 124: a copy of a workspace that is made through Files holds what may be
// read and nothing that a link, a second name or a pipe stands for. The same
// copy by the host's own calls holds the secret: that is the limit which
// reports state.
func TestStaging_S2(t *testing.T) {
	ws, _, f := world(t)
	stage := func(open func(string) (*os.File, error)) map[string]bool {
		got := map[string]bool{}
		require.NoError(t, filepath.WalkDir(ws, func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(ws, p)
			require.NoError(t, err)
			in, err := open(name)
			if err != nil {
				return nil
			}
			defer in.Close()
			if info, err := in.Stat(); err == nil && info.Mode().IsRegular() {
				got[name] = true
			}
			return nil
		}))
		return got
	}
	require.Equal(t, map[string]bool{"ok": true, ".gitmodules": true}, stage(f.Open))
	naive := stage(func(name string) (*os.File, error) {
		return os.OpenFile(filepath.Join(ws, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	})
	for _, name := range []string{"link", "hard", "alias", ".env", filepath.Join("sub", ".ENV"), filepath.Join("sub", "my-secret")} {
		require.True(t, naive[name], "%s: otherwise this proves nothing", name)
	}
}
