package skill

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// specimen is one real SKILL.md with the verdict of the reference validator.
type specimen struct {
	path, dir string
	text      []byte
	ok        bool
	reason    string
}

// corpus reads other people's skills, which are no part of this repository:
// DRAWBRIDGE_DATA names the directory with skill-corpus.tar.gz.
func corpus(t testing.TB) []specimen {
	t.Helper()
	data := os.Getenv("DRAWBRIDGE_DATA")
	if data == "" {
		t.Skip("DRAWBRIDGE_DATA is not set: the corpus of real skills is not here")
	}
	f, err := os.Open(filepath.Join(data, "skill-corpus.tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	texts, verdicts := map[string][]byte{}, ""
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		if name := path.Clean(h.Name); path.Base(name) == "verdicts.tsv" {
			verdicts = string(b)
		} else {
			texts[name] = b
		}
	}
	var out []specimen
	lines := bufio.NewScanner(strings.NewReader(verdicts))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		cols := strings.SplitN(lines.Text(), "\t", 3)
		if cols[0] == "path" {
			continue
		}
		text, found := texts[cols[0]]
		require.True(t, found, cols[0])
		out = append(out, specimen{cols[0], path.Base(path.Dir(cols[0])), text, cols[1] == "ok", cols[2]})
	}
	require.Len(t, out, 1024)
	return out
}

// differs lists the files of the corpus where Reference does not give the
// recorded verdict, with the reason.
var differs = map[string]string{}

// Over the corpus, Reference agrees with the recorded verdicts but for the
// listed files, a text that Portable accepts is accepted by all, and the log
// shows what each profile makes of it:
//
//	DRAWBRIDGE_DATA=... go test ./skill -run TestCorpus -v
func TestCorpus_L1(t *testing.T) {
	files := corpus(t)
	profiles := []Profile{Lenient(), Spec(), Reference(), Portable()}
	accepted, broken, unread := map[string]int{}, map[string]map[Rule]int{}, map[Rule]int{}
	for _, f := range files {
		doc, err := Parse(f.text)
		verdicts := map[string]bool{}
		for _, p := range profiles {
			if broken[p.Name()] == nil {
				broken[p.Name()] = map[Rule]int{}
			}
			var vs Violations
			if err == nil {
				vs = doc.Check(p, f.dir)
			}
			ok := err == nil && vs.Err() == nil
			verdicts[p.Name()] = ok
			if ok {
				accepted[p.Name()]++
			}
			for r := range rulesOf(vs) {
				broken[p.Name()][r]++
			}
			for _, v := range vs {
				require.NotEmpty(t, v.Mend, "%s: %s", f.path, v)
				require.Positive(t, v.Line)
				require.LessOrEqual(t, v.Line, 1+strings.Count(string(f.text), "\n"), "%s: %s", f.path, v)
			}
		}
		if err != nil {
			unread[(*err.(*Invalid))[0].Rule]++
		}
		if verdicts["portable"] {
			require.True(t, verdicts["reference"] && verdicts["spec"] && verdicts["lenient"], f.path)
		}
		if verdicts["spec"] {
			require.True(t, verdicts["lenient"], f.path)
		}
		if err == nil && !strings.Contains(f.reason, "Invalid YAML") {
			broken := rulesOf(doc.Check(Reference(), f.dir))
			for phrase, rule := range phrases {
				require.Equal(t, strings.Contains(f.reason, phrase), broken[rule], "%s: %s: %s", f.path, rule, f.reason)
			}
		}
		reason, known := differs[f.path]
		if verdicts["reference"] != f.ok && !known {
			t.Errorf("%s: we say %v, the reference %v (%s): %v", f.path, verdicts["reference"], f.ok, f.reason, err)
		}
		require.False(t, known && verdicts["reference"] == f.ok, "%s agrees now: %s", f.path, reason)
	}
	t.Logf("unread: %v", unread)
	for _, p := range profiles {
		t.Logf("%-9s accepts %4d of %d; files that break a rule: %s", p.Name(), accepted[p.Name()], len(files), counts(broken[p.Name()]))
	}
}

// phrases are how the reference validator says that a rule is broken. It stops
// at unknown fields and at YAML, and at a missing field it checks no other.
var phrases = map[string]Rule{
	"Unexpected fields":           RuleUnknown,
	"must be lowercase":           RuleNameCase,
	"contains invalid characters": RuleNameCharset,
	"must match skill name":       RuleNameDirectory,
}

func rulesOf(vs Violations) map[Rule]bool {
	out := map[Rule]bool{}
	for _, v := range vs {
		out[v.Rule] = true
	}
	return out
}

func counts(m map[Rule]int) string {
	var out []string
	for r, n := range m {
		out = append(out, fmt.Sprintf("%s %d", r, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
