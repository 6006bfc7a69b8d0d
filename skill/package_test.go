package skill

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// The digest is that of these bytes, on every machine: they are written down
// here, and the digest was computed by another program (sha256sum).
func TestDigest_L2(t *testing.T) {
	p, err := open(t, plant(t, map[string]string{"SKILL.md": "---\nname: a\n---\n", "b/run!": "x\n", "b-c": "", "é": "1"}), nil)
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{
		"drawbridge skill package 1",
		"e8ddff65e8708ace6187010f8ab7df0568b1f09c25088bd92b36e921655388e5 16 - SKILL.md",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 - b-c",
		"73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac 2 x b/run",
		"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b 1 - é",
	}, "\n")+"\n", string(p.Manifest().Text()))
	require.Equal(t, Digest("sha256:58f41428e2072aca6fe7b82ff6b4c4735c021a90b46f615e1f7701ed22ea90c8"), p.Digest())
	require.True(t, p.Digest().Valid())
	require.False(t, Digest("sha256:"+strings.Repeat("A", 64)).Valid())
	require.False(t, Digest(strings.Repeat("a", 64)).Valid())
}

// A directory, its archive, what is extracted from it and their archive are the
// same package.
func TestRoundTrip_L2(t *testing.T) {
	p, err := open(t, plant(t, tree("assets/a.bin", "\x00\r\n", strings.Repeat("long", 40)+"/é.md", "x")), nil)
	require.NoError(t, err)
	var one, two bytes.Buffer
	require.NoError(t, p.WriteArchive(&one))
	q, err := ReadArchive(bytes.NewReader(one.Bytes()), nil)
	require.NoError(t, err)
	require.Equal(t, p.Manifest(), q.Manifest())
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, q.Extract(root))
	r, err := Open(root, nil)
	require.NoError(t, err)
	require.Equal(t, p.Digest(), r.Digest())
	require.NoError(t, r.WriteArchive(&two))
	require.Equal(t, one.Bytes(), two.Bytes())
	require.ErrorContains(t, q.Extract(root), "not empty")
}

// Archives of other programs are read: with directories, owners, times and "./".
func TestForeignArchive_L2(t *testing.T) {
	h := func(name string) tar.Header {
		return tar.Header{Name: name, Mode: 0o664, Uid: 1000, Uname: "alice", PAXRecords: map[string]string{"mtime": "1.5"}}
	}
	dir, text := h("./references/"), h("./references/x.md")
	dir.Typeflag, text.Typeflag = tar.TypeDir, tar.TypeReg
	raw := packed(t, entryOf(tar.Header{Typeflag: tar.TypeDir, Name: "./"}, ""), entryOf(dir, ""), entryOf(text, "x"))
	p, err := ReadArchive(bytes.NewReader(append(raw, make([]byte, 10240)...)), nil)
	require.NoError(t, err)
	require.Len(t, p.Manifest(), 2)
	b, err := p.ReadFile("references/x.md")
	require.NoError(t, err)
	require.Equal(t, "x", string(b))
}

// No path leaves the package: what is not in the manifest does not exist.
func TestReadFile_L4(t *testing.T) {
	p, err := open(t, plant(t, tree()), nil)
	require.NoError(t, err)
	for _, name := range []string{"", ".", "..", "../SKILL.md", "/etc/passwd", "references", "references/../SKILL.md", "./SKILL.md", "skill.md", `references\metrics.md`, "SKILL.md\x00", "references//metrics.md"} {
		_, err := p.ReadFile(name)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
	b, err := p.ReadFile("SKILL.md")
	require.NoError(t, err)
	b[0] = 'x'
	again, _ := p.ReadFile("SKILL.md")
	require.Equal(t, good, string(again), "callers get copies")
	require.Equal(t, "incident-diagnosis", p.Name())
	require.Equal(t, p.Name(), p.Document().Name)
}

func TestPackageRules_L1(t *testing.T) {
	p, err := open(t, plant(t, tree(
		"SKILL.md", good+"See [a](assets), [b](scripts/check.sh#x) and [c](references/gone.md).\n",
		"assets/x.md", "a\nb\r\n", "assets/image.png", "\x00\r\n", "assets-x", "", "inner/SKILL.md", good)), nil)
	require.NoError(t, err)
	var got []string
	for _, v := range p.Check(Portable(), "incident-diagnosis") {
		got = append(got, fmt.Sprintf("%s:%d:%d %s %s", v.File, v.Line, v.Column, v.Level, v.Rule))
	}
	require.Equal(t, []string{
		"SKILL.md:8:50 error link/missing",
		"assets/x.md:2:1 error file/line-ends",
		"inner/SKILL.md:1:1 warning package/nested-skill",
	}, got)
	require.Empty(t, p.Check(Reference(), "incident-diagnosis"))

	files := tree()
	for i := range 600 {
		files[fmt.Sprintf("f%d", i)] = ""
	}
	p, err = open(t, plant(t, files), &Limits{Files: 1000})
	require.NoError(t, err)
	require.True(t, rulesOf(p.Check(Portable(), ""))[RuleOverMCP])
}

func TestSignatures_L2(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	other, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	s, err := NewSigner("release-2026", private)
	require.NoError(t, err)
	keys, err := NewKeys(map[string]ed25519.PublicKey{"release-2026": public, "other": other})
	require.NoError(t, err)
	st := Statement{"incident-diagnosis", "1.4.0", DigestOf([]byte("x"))}
	sig, err := s.Sign(st)
	require.NoError(t, err)
	require.NoError(t, keys.Verify(st, sig))
	for _, row := range []struct {
		name string
		keys Keys
		st   Statement
		sig  Signature
	}{
		{"another digest", keys, Statement{st.Name, st.Version, DigestOf([]byte("y"))}, sig},
		{"an old package as a new version", keys, Statement{st.Name, "1.5.0", st.Digest}, sig},
		{"another skill", keys, Statement{"other", st.Version, st.Digest}, sig},
		{"another key", keys, st, Signature{"other", sig.Bytes}},
		{"no such key", keys, st, Signature{"gone", sig.Bytes}},
		{"a bit turned", keys, st, Signature{sig.Key, append([]byte{sig.Bytes[0] ^ 1}, sig.Bytes[1:]...)}},
		{"no signature", keys, st, Signature{Key: sig.Key}},
		{"no keys", nil, st, sig},
		{"a key that is none", Keys{"release-2026": public[:3]}, st, sig},
		{"a line end in the name", keys, Statement{st.Name + "\n" + st.Version, "x", st.Digest}, sig},
	} {
		require.ErrorIs(t, row.keys.Verify(row.st, row.sig), ErrSignature, row.name)
		require.ErrorIs(t, row.keys.Verify(row.st, row.sig), toolresult.PermissionDenied, row.name)
	}
	_, err = s.Sign(Statement{})
	require.Error(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, s), fmt.Sprint(private[0])+" ", verb)
		require.Contains(t, fmt.Sprintf(verb, s), "release-2026")
	}
	_, err = NewSigner("", private)
	require.Error(t, err)
	_, err = NewKeys(map[string]ed25519.PublicKey{"a": nil})
	require.Error(t, err)
}

// Whatever text comes: no panic, violations have a place in the text, a text
// that Portable accepts is accepted by all and has a form in JSON that is read
// again as the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("\ufeff---  \r\nname: &a 'ｂ'\ndescription: [x, {y: 017}]\nallowed-tools: A(b c), D\n--- \n[x](<../y>)\n```\n"))
	f.Add([]byte("---\nname: a\ndescription: >-\n  x\n\n  y\nmetadata:\n  ? k\n  : |+\n    v\n\n---\n[a]: b/c/d.md"))
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		doc, err := Parse(text)
		require.Equal(t, before, text)
		if err != nil {
			require.Nil(t, doc)
			for _, v := range *err.(*Invalid) {
				inside(t, v, text)
			}
			return
		}
		_ = doc.links()
		ok := map[string]bool{}
		for _, p := range []Profile{Lenient(), Spec(), Reference(), Portable()} {
			vs := doc.Check(p, "")
			for _, v := range vs {
				inside(t, v, text)
			}
			ok[p.Name()] = vs.Err() == nil
		}
		if ok["portable"] {
			require.True(t, ok["reference"] && ok["spec"] && ok["lenient"])
			_, err := doc.JSON()
			require.NoError(t, err)
		}
	})
}

func inside(t *testing.T, v Violation, text []byte) {
	if v.Mend == "" || v.Problem == "" || v.Line < 1 || v.Column < 1 || v.Line > 2+bytes.Count(text, []byte("\n")) || strings.ContainsAny(v.String(), "\n\r") {
		t.Fatalf("%q", v.String())
	}
}

// Whatever archive comes: no panic, and what is read survives a round trip.
func FuzzArchive(f *testing.F) {
	f.Add(packed(f, file("scripts/x", "y"), entryDir("z")))
	f.Add(zipped(packed(f, paxPath(strings.Repeat("d/", 60)+"é"))))
	f.Add(packed(f, entryOf(tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "b"}, "")))
	limits := &Limits{Files: 8, Bytes: 4096}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ReadArchive(bytes.NewReader(raw), limits)
		if err != nil {
			require.Nil(t, p)
			require.ErrorIs(t, err, toolresult.InvalidInput)
			return
		}
		var b bytes.Buffer
		require.NoError(t, p.WriteArchive(&b))
		q, err := ReadArchive(&b, limits)
		require.NoError(t, err)
		require.Equal(t, p.Digest(), q.Digest())
		for _, file := range p.Manifest() {
			require.Empty(t, checkPath(file.Path, 8))
			require.True(t, fs.ValidPath(file.Path) && norm.NFC.IsNormalString(file.Path))
		}
	})
}

// Whatever the names, kinds and modes of the members: what is read has proper
// paths, extracts into an empty directory, and is the same package there.
func FuzzMembers(f *testing.F) {
	f.Add("scripts/x", "scripts/X", byte(tar.TypeReg), int64(0o755), "a")
	f.Add("../x", "a/b/../c", byte(tar.TypeSymlink), int64(0o4755), "b")
	f.Add("caf\u00e9", "cafe\u0301", byte(tar.TypeDir), int64(0), "")
	f.Add("00", "/a", byte(tar.TypeDir), int64(0), "d")
	f.Add("com1.txt", "a\\b", byte(tar.TypeReg), int64(0), "c")
	f.Fuzz(func(t *testing.T, a, b string, typ byte, mode int64, text string) {
		var raw bytes.Buffer
		w := tar.NewWriter(&raw)
		require.NoError(t, file("SKILL.md", good)(w))
		h := tar.Header{Typeflag: typ, Name: b, Mode: mode}
		if file(a, text)(w) != nil || entryOf(h, "")(w) != nil || w.Close() != nil {
			return
		}
		p, err := ReadArchive(&raw, nil)
		if err != nil {
			require.ErrorIs(t, err, toolresult.InvalidInput)
			return
		}
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		require.NoError(t, p.Extract(root))
		q, err := Open(root, nil)
		require.NoError(t, err)
		require.Equal(t, p.Manifest(), q.Manifest())
	})
}
