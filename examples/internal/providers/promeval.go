package providers

import (
	"errors"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// lookback is how far (in milliseconds) an instant selector looks for a sample.
const lookback = 5 * 60 * 1000

var errDuplicates = errors.New("vector cannot contain metrics with the same labelset")

// A promSample is one element of an instant vector.
type promSample struct {
	labels []alr.Label
	v      float64
}

// A promDB holds series sorted by their labels.
type promDB struct {
	series []alr.Series
	v3     bool // windows are open on the left, as from version 3 on
}

func newPromDB(families []alr.Family, v3 bool) *promDB {
	db := &promDB{v3: v3}
	for _, f := range families {
		db.series = append(db.series, f.Series...)
	}
	slices.SortFunc(db.series, func(a, b alr.Series) int { return compareLabels(a.Labels, b.Labels) })
	return db
}

func compareLabels(a, b []alr.Label) int {
	return slices.CompareFunc(a, b, func(x, y alr.Label) int {
		if c := strings.Compare(x.Name, y.Name); c != 0 {
			return c
		}
		return strings.Compare(x.Value, y.Value)
	})
}

// find returns the series that all matchers admit.
func (db *promDB) find(ms []matcher) []alr.Series {
	var out []alr.Series
	for _, s := range db.series {
		if !slices.ContainsFunc(ms, func(m matcher) bool { return !m.matches(s.Get(m.name)) }) {
			out = append(out, s)
		}
	}
	return out
}

// between returns the samples of the window that ends at t.
func (db *promDB) between(s alr.Series, t, window int64) []alr.Sample {
	from := t - window
	if db.v3 {
		from++
	}
	lo := sort.Search(len(s.Samples), func(i int) bool { return s.Samples[i].T >= from })
	hi := sort.Search(len(s.Samples), func(i int) bool { return s.Samples[i].T > t })
	return s.Samples[lo:max(lo, hi)]
}

// eval computes the instant vector of n at t.
func (db *promDB) eval(n node, t int64) ([]promSample, error) {
	switch n := n.(type) {
	case *selector:
		return db.instant(n, t), nil
	case *rateCall:
		return db.rate(n, t)
	case *quantileCall:
		in, err := db.eval(n.of, t)
		return quantiles(n.q, in), err
	case *aggregate:
		in, err := db.eval(n.of, t)
		return n.fold(in), err
	}
	return nil, errors.New("unknown expression")
}

func (db *promDB) instant(n *selector, t int64) []promSample {
	var out []promSample
	for _, s := range db.find(n.matchers) {
		if in := db.between(s, t, lookback); len(in) > 0 {
			out = append(out, promSample{s.Labels, in[len(in)-1].V})
		}
	}
	return out
}

func (db *promDB) rate(n *rateCall, t int64) ([]promSample, error) {
	var out []promSample
	seen := map[string]bool{}
	for _, s := range db.find(n.of.matchers) {
		window := n.of.window.Milliseconds()
		increase, factor := extrapolated(db.between(s, t, window), t-window, t)
		if factor == 0 {
			continue
		}
		if n.perTime {
			factor /= n.of.window.Seconds()
		}
		labels := without(s.Labels, "__name__")
		if seen[labelKey(labels)] {
			return nil, errDuplicates
		}
		seen[labelKey(labels)] = true
		out = append(out, promSample{labels, increase * factor})
	}
	return out, nil
}

// extrapolated is the increase of a counter in [start, end] (milliseconds) as the
// samples show it, and the factor that stretches it to the ends of the window,
// by at most half of a sampling interval where they are far, and not below zero.
// Factor 0: too few samples. The two are apart because a rate divides the
// factor, which rounds differently.
func extrapolated(in []alr.Sample, start, end int64) (increase, factor float64) {
	if len(in) < 2 {
		return 0, 0
	}
	first, last := in[0], in[len(in)-1]
	increase = last.V - first.V
	for i := 1; i < len(in); i++ {
		if in[i].V < in[i-1].V { // the counter started again
			increase += in[i-1].V
		}
	}
	toStart, toEnd := float64(first.T-start)/1000, float64(end-last.T)/1000
	sampled := float64(last.T-first.T) / 1000
	average := sampled / float64(len(in)-1)
	if increase > 0 && first.V >= 0 {
		toStart = min(toStart, sampled*(first.V/increase))
	}
	span := sampled
	for _, gap := range []float64{toStart, toEnd} {
		if gap < average*1.1 {
			span += gap
		} else {
			span += average / 2
		}
	}
	return increase, span / sampled
}

func without(labels []alr.Label, names ...string) []alr.Label {
	var out []alr.Label
	for _, l := range labels {
		if !slices.Contains(names, l.Name) {
			out = append(out, l)
		}
	}
	return out
}

func labelKey(labels []alr.Label) string {
	var b strings.Builder
	for _, l := range labels {
		b.WriteString(l.Name + "\xff" + l.Value + "\xff")
	}
	return b.String()
}

// groups collects samples by what key leaves of their labels, in the order of
// their first appearance.
func groups(in []promSample, key func([]alr.Label) []alr.Label) [][]promSample {
	var out [][]promSample
	index := map[string]int{}
	for _, s := range in {
		k := labelKey(key(s.labels))
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], s)
	}
	return out
}

func (n *aggregate) fold(in []promSample) []promSample {
	keep := func(labels []alr.Label) []alr.Label {
		return slices.DeleteFunc(slices.Clone(labels), func(l alr.Label) bool { return !slices.Contains(n.by, l.Name) })
	}
	var out []promSample
	for _, g := range groups(in, keep) {
		v := g[0].v
		for _, s := range g[1:] {
			if n.op == "sum" {
				v += s.v
			} else {
				v = max(v, s.v)
			}
		}
		out = append(out, promSample{keep(g[0].labels), v})
	}
	return out
}

func quantiles(q float64, in []promSample) []promSample {
	keep := func(labels []alr.Label) []alr.Label { return without(labels, "le", "__name__") }
	var out []promSample
	for _, g := range groups(in, keep) {
		var buckets []bucket
		for _, s := range g {
			if le, err := strconv.ParseFloat((alr.Series{Labels: s.labels}).Get("le"), 64); err == nil {
				buckets = append(buckets, bucket{le, s.v})
			}
		}
		if len(buckets) > 0 {
			out = append(out, promSample{keep(g[0].labels), bucketQuantile(q, buckets)})
		}
	}
	return out
}

type bucket struct{ le, count float64 }

// bucketQuantile interpolates in the bucket that holds the rank q.
func bucketQuantile(q float64, b []bucket) float64 {
	switch {
	case q < 0:
		return math.Inf(-1)
	case q > 1:
		return math.Inf(1)
	case math.IsNaN(q):
		return q
	}
	slices.SortFunc(b, func(x, y bucket) int {
		if x.le < y.le {
			return -1
		}
		return 1
	})
	last := len(b) - 1
	if last < 1 || !math.IsInf(b[last].le, 1) || b[last].count == 0 {
		return math.NaN()
	}
	for i := 1; i <= last; i++ {
		b[i].count = max(b[i].count, b[i-1].count)
	}
	rank := q * b[last].count
	i := sort.Search(last, func(i int) bool { return b[i].count >= rank })
	switch {
	case i == last:
		return b[last-1].le
	case i == 0 && b[0].le <= 0:
		return b[0].le
	case i == 0:
		return b[0].le * (rank / b[0].count)
	}
	below := b[i-1]
	return below.le + (b[i].le-below.le)*((rank-below.count)/(b[i].count-below.count))
}
