package registry_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/registrytest"
)

func directory(t *testing.T) (registry.Store, string) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	s, err := registry.NewDirectory(root)
	require.NoError(t, err)
	return s, dir
}

// stores are the implementations that every test of behaviour runs on.
var stores = map[string]func(t *testing.T) registry.Store{
	"memory":    func(*testing.T) registry.Store { return &registry.Memory{} },
	"directory": func(t *testing.T) registry.Store { s, _ := directory(t); return s },
}

func TestStores_L3(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { registrytest.Run(t, open) })
	}
}

// What was changed in the directory by other hands is noticed.
func TestDamagedDirectory_L2(t *testing.T) {
	ctx := context.Background()
	p := registrytest.Package(t, "a", "")
	for _, row := range []struct {
		name, says string
		damage     func(t *testing.T, dir, record, pkg string)
	}{
		{"a revision is gone", "revisions are missing", func(t *testing.T, dir, _, _ string) {
			require.NoError(t, os.Remove(dir+"/records/a/1.0.0/000001.json"))
		}},
		{"a record is cut", "is not what the registry wrote", func(t *testing.T, _, record, _ string) { require.NoError(t, os.Truncate(record, 20)) }},
		{"a record has a field twice", "is not what the registry wrote", func(t *testing.T, _, record, _ string) {
			b, err := os.ReadFile(record)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(record, append([]byte(`{"record":{},`), b[1:]...), 0o644))
		}},
		{"a record is another's", "is that of another record", func(t *testing.T, dir, record, _ string) {
			require.NoError(t, os.Rename(dir+"/records/b/1.0.0/000001.json", record))
		}},
		{"a package is cut", "cannot be read", func(t *testing.T, _, _, pkg string) { require.NoError(t, os.Truncate(pkg, 100)) }},
		{"a package is another one", "which was pinned", func(t *testing.T, _, _, pkg string) {
			f, err := os.Create(pkg)
			require.NoError(t, err)
			require.NoError(t, registrytest.Package(t, "a", "swapped").WriteArchive(f))
			require.NoError(t, f.Close())
		}},
		{"a package is a link", "path escapes", func(t *testing.T, _, _, pkg string) {
			require.NoError(t, os.Remove(pkg))
			require.NoError(t, os.Symlink("/etc/passwd", pkg))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, dir := directory(t)
			rec := registrytest.Record("a", "1.0.0")
			rec, err := s.Put(ctx, rec, registry.Event{})
			require.NoError(t, err)
			_, err = s.Put(ctx, rec, registry.Event{})
			require.NoError(t, err)
			_, err = s.Put(ctx, registrytest.Record("b", "1.0.0"), registry.Event{})
			require.NoError(t, err)
			require.NoError(t, s.PutPackage(ctx, p))
			pkgs, err := filepath.Glob(dir + "/packages/*")
			require.NoError(t, err)
			row.damage(t, dir, dir+"/records/a/1.0.0/000002.json", pkgs[0])
			_, err1 := s.Get(ctx, "a", "1.0.0")
			_, err2 := s.Package(ctx, p.Digest())
			if err1 == nil {
				err1 = err2
			}
			require.ErrorContains(t, err1, row.says)
		})
	}
	_, err := registry.NewDirectory(nil)
	require.Error(t, err)
}
