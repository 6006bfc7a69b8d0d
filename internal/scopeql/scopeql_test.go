package scopeql

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// block is one case of a corpus.
type block struct {
	why, query string
	labels     []string
	rows       string // "prod,orders stage,pay"; empty: refused
	look       time.Duration
	says       string
}

func corpus(t testing.TB, file string) (blocks []block) {
	text, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "\n\n# ")
	for part := range strings.SplitSeq(strings.TrimSuffix(rest, "\n"), "\n\n# ") {
		lines := strings.SplitN(part, "\n", 3)
		require.Len(t, lines, 3, part)
		b := block{why: file + ": " + lines[0], query: lines[2], labels: []string{"namespace"}}
		verdict, said, _ := strings.Cut(lines[1], " ")
		if names, says, ok := strings.Cut(said, ": "); verdict == "refuse" && ok {
			b.labels, said = strings.Split(names, ","), says
		}
		switch verdict {
		case "refuse":
			b.says = said
		case "accept":
			names, rows, _ := strings.Cut(said, " = ")
			rows, look, found := strings.Cut(rows, " look ")
			if found {
				b.look, err = time.ParseDuration(look)
				require.NoError(t, err)
			}
			b.labels, b.rows = strings.Split(names, ","), rows
		default:
			require.Fail(t, "no verdict", part)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func shown(rows [][]string) string {
	var parts []string
	for _, r := range rows {
		parts = append(parts, strings.Join(r, ","))
	}
	return strings.Join(parts, " ")
}

func TestCorpus_A6(t *testing.T) {
	for file, dialect := range map[string]Dialect{"promql.txt": PromQL, "logql.txt": LogQL} {
		blocks := corpus(t, file)
		require.Greater(t, len(blocks), 25)
		for _, b := range blocks {
			p, err := Prove(dialect, b.query, b.labels)
			if b.rows == "" {
				require.ErrorContains(t, err, b.says, b.why)
				require.Empty(t, p, b.why)
				continue
			}
			require.NoError(t, err, b.why)
			require.Equal(t, b.rows, shown(p.Selectors), b.why)
			require.Equal(t, b.look, p.Lookback, b.why)
		}
	}
}

func TestBounds(t *testing.T) {
	const sel = `up{namespace="prod"}`
	for _, row := range []struct {
		why, query, says string
		dialect          Dialect
	}{
		{"no language", sel, "no query language", Undeclared},
		{"a language nobody knows", sel, "no query language", 7},
		{"just short enough", sel + strings.Repeat(" ", MaxText-len(sel)), "", PromQL},
		{"too long", sel + strings.Repeat(" ", MaxText-len(sel)+1), "is too long", PromQL},
		{"not UTF-8, in a string", "up{a=\"\xff\",namespace=\"prod\"}", "is not UTF-8", PromQL},
		{"just flat enough", strings.Repeat("(", MaxDepth) + sel + strings.Repeat(")", MaxDepth), "", PromQL},
		{"too deep", strings.Repeat("(", MaxDepth+1) + sel + strings.Repeat(")", MaxDepth+1), "nested too deeply", PromQL},
		{"too deep, never closed", strings.Repeat("sum(", MaxText/4), "nested too deeply", PromQL},
		{"too deep a pipeline", `{namespace="prod"} | ` + strings.Repeat("(", MaxDepth+1), "nested too deeply", LogQL},
		{"signs do not nest", strings.Repeat("-", 9000) + sel, "", PromQL},
		{"the longest value", `{namespace="` + strings.Repeat("p", 253) + `"}`, "", LogQL},
		{"a value too long", `{namespace="` + strings.Repeat("p", 254) + `"}`, "one equality", LogQL},
		{"a NUL", sel + "\x00", "not looked at", PromQL},
	} {
		_, err := Prove(row.dialect, row.query, []string{"namespace"})
		if row.says == "" {
			require.NoError(t, err, row.why)
			continue
		}
		require.ErrorContains(t, err, row.says, row.why)
		var r *Refusal
		require.ErrorAs(t, err, &r, row.why)
		require.NotContains(t, err.Error(), "prod", row.why)
	}
}

func TestLongestChainCannotOverflow(t *testing.T) {
	q := `up{namespace="prod"}`
	for range MaxDepth {
		q = "(" + q + "[4y:])"
	}
	p, err := Prove(PromQL, q, []string{"namespace"})
	require.NoError(t, err)
	require.Equal(t, MaxDepth*MaxRange, p.Lookback)
}

func TestWithoutLabels(t *testing.T) {
	p, err := Prove(PromQL, `rate(up{}[5m]) + rate(down{a="b"}[1h])`, nil)
	require.NoError(t, err)
	require.Equal(t, Proof{Selectors: [][]string{{}}, Lookback: time.Hour}, p)
}

// TestBuiltQueriesAreProven puts queries together and knows what they select.
func TestBuiltQueriesAreProven_A6(t *testing.T) {
	value := rapid.StringMatching(`[a-z0-9][a-z0-9.-]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]bool{}
		var build func(depth int) string
		build = func(depth int) string {
			if depth == 0 {
				v := value.Draw(t, "value")
				want[v] = true
				return `m{x=` + quote(rapid.String().Draw(t, "other")) + `,namespace="` + v + `"}`
			}
			switch rapid.IntRange(0, 4).Draw(t, "shape") {
			case 0:
				return "(" + build(depth-1) + ")"
			case 1:
				return "sum by (a,b) (" + build(depth-1) + ")"
			case 2:
				return build(depth-1) + " and on (a) " + build(depth-1)
			case 3:
				return "max_over_time(" + build(depth-1) + "[1h:1m])"
			}
			return build(depth-1) + " / 2"
		}
		q := build(rapid.IntRange(0, 4).Draw(t, "depth"))
		p, err := Prove(PromQL, q, []string{"namespace"})
		require.NoError(t, err, q)
		require.Len(t, p.Selectors, len(want), q)
		for _, r := range p.Selectors {
			require.True(t, want[r[0]], q)
		}
	})
}

// quote writes a string without line breaks in the way both languages read.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "")) + `"`
}

// FuzzProve checks that a proof holds what can be read off the text in a much
// simpler way.
func FuzzProve(f *testing.F) {
	for _, b := range append(corpus(f, "promql.txt"), corpus(f, "logql.txt")...) {
		f.Add(true, b.query)
		f.Add(false, b.query)
	}
	f.Fuzz(func(t *testing.T, prom bool, query string) {
		dialect := LogQL
		if prom {
			dialect = PromQL
		}
		p, err := Prove(dialect, query, []string{"namespace"})
		if err != nil {
			var r *Refusal
			require.True(t, errors.As(err, &r))
			require.Empty(t, p)
			return
		}
		require.NotEmpty(t, p.Selectors)
		require.GreaterOrEqual(t, p.Lookback, time.Duration(0))
		for _, r := range p.Selectors {
			require.Regexp(t, `^[A-Za-z0-9._:/-]{1,253}$`, r[0])
			require.Contains(t, query, r[0])
		}
		require.GreaterOrEqual(t, strings.Count(query, "{"), len(p.Selectors))

		if len(query)+2 <= MaxText {
			again, err := Prove(dialect, " "+query+"\n", []string{"namespace"})
			require.NoError(t, err)
			require.Equal(t, p, again, "spaces around change nothing")
		}

		other, err := Prove(dialect, query, nil)
		require.NoError(t, err, "asking for less is not refused")
		require.Equal(t, p.Lookback, other.Lookback)

		_, err = Prove(dialect, query, []string{"namespace", "namespace_that_is_not_there"})
		require.Error(t, err)
	})
}

func BenchmarkProve(b *testing.B) {
	const q = `histogram_quantile(0.95, sum by (le) (rate(http_seconds_bucket{namespace="prod",service="orders"}[5m])))`
	labels := []string{"namespace", "service"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Prove(PromQL, q, labels); err != nil {
			b.Fatal(err)
		}
	}
}
