// Package column writes Go values into the columns of a SQL database and reads
// them back as they were. It is a package of its own so that its fuzz targets
// build without a database driver.
package column

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// Text returns s as a database holds it: PostgreSQL refuses zero bytes and what
// is not UTF-8, and an answer's request id may have either. Losing a receipt over
// that would be worse than one ugly column. No two texts have the same form.
func Text(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") && !strings.HasPrefix(s, `\`) {
		return s
	}
	return `\` + base64.RawStdEncoding.EncodeToString([]byte(s))
}

// ErrText says that somebody else wrote into the column.
var ErrText = errors.New("column: it holds a text that was not written by this package")

// Untext undoes Text. It refuses what Text would write differently.
func Untext(s string) (string, error) {
	out := s
	if body, escaped := strings.CutPrefix(s, `\`); escaped {
		b, err := base64.RawStdEncoding.Strict().DecodeString(body)
		if err != nil {
			return "", ErrText
		}
		out = string(b)
	}
	if Text(out) != s {
		return "", ErrText
	}
	return out, nil
}

// NoTime is the zero time. It is before every other.
const NoTime = math.MinInt64

// ErrTime says that a time does not fit into 64 bits of nanoseconds.
var ErrTime = errors.New("column: a time is not between 1678 and 2262")

// Instant returns a time as nanoseconds since 1970, or ErrTime.
func Instant(t time.Time) (int64, error) {
	if t.IsZero() {
		return NoTime, nil
	}
	n := t.UnixNano()
	if n == NoTime || !time.Unix(0, n).Equal(t) {
		return 0, ErrTime
	}
	return n, nil
}

// Uninstant undoes Instant, in UTC.
func Uninstant(n int64) time.Time {
	if n == NoTime {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// Targets returns ids as a JSON list of pairs, so that operators can read them.
func Targets(ids []authz.ResourceID) string {
	if ids == nil {
		return ""
	}
	pairs := make([][2]string, len(ids))
	for i, id := range ids {
		pairs[i] = [2]string{Text(id.Type), Text(id.ID)}
	}
	b, _ := json.Marshal(pairs) // texts that are UTF-8
	return string(b)
}

// Untargets undoes Targets.
func Untargets(list string) ([]authz.ResourceID, error) {
	if list == "" {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal([]byte(list), &pairs); err != nil {
		return nil, ErrText
	}
	ids := make([]authz.ResourceID, len(pairs))
	for i, p := range pairs {
		var err1, err2 error
		ids[i].Type, err1 = Untext(p[0])
		ids[i].ID, err2 = Untext(p[1])
		if err1 != nil || err2 != nil {
			return nil, ErrText
		}
	}
	return ids, nil
}
