package registry

import (
	"cmp"
	"strings"
)

// version is a semantic version (semver.org 2.0.0) that can be compared. Build
// metadata is refused: two versions would be equal and not the same.
type version struct {
	core [3]string
	pre  []string // nil: a release, which is after all of its pre-releases
}

func parseVersion(s string) (version, bool) {
	if len(s) > 64 {
		return version{}, false
	}
	var v version
	core, pre, hasPre := strings.Cut(s, "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return version{}, false
	}
	for i, p := range parts {
		if !numeric(p) || len(p) > 1 && p[0] == '0' {
			return version{}, false
		}
		v.core[i] = p
	}
	if hasPre {
		v.pre = strings.Split(pre, ".")
		for _, p := range v.pre {
			if p == "" || strings.Trim(strings.ToLower(p), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || numeric(p) && len(p) > 1 && p[0] == '0' {
				return version{}, false
			}
		}
	}
	return v, true
}

func numeric(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (v version) compare(w version) int {
	for i := range v.core {
		if c := number(v.core[i], w.core[i]); c != 0 {
			return c
		}
	}
	if v.pre == nil || w.pre == nil {
		return cmp.Compare(len(w.pre), len(v.pre))
	}
	for i := range min(len(v.pre), len(w.pre)) {
		a, b := v.pre[i], w.pre[i]
		switch {
		case a == b:
		case numeric(a) && numeric(b):
			return number(a, b)
		case numeric(a):
			return -1
		case numeric(b):
			return 1
		default:
			return cmp.Compare(a, b)
		}
	}
	return cmp.Compare(len(v.pre), len(w.pre))
}

// number compares decimal numbers of any size, without zeros in front.
func number(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

func compareVersions(a, b string) int {
	v, okA := parseVersion(a)
	w, okB := parseVersion(b)
	if !okA || !okB {
		return cmp.Compare(a, b)
	}
	return v.compare(w)
}
