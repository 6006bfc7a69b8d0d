package check

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
)

// mostDifferences bounds what a comparison says.
const mostDifferences = 50

// A probe is what one call exchanged.
type probe struct {
	name string
	sent []*Exchange
}

// Compare makes the same calls that read against two subjects of one fixture, one
// with the double and one with the real system, and says in what the answers
// differ: number and form of the requests, status, the headers that connectors go
// by, and the form of the JSON. Values are not compared.
func Compare(t *testing.T, double, real *Subject, now time.Time) *Compared {
	t.Helper()
	out := &Compared{Schema: comparedSchema, Connector: double.Manifest.ID, Date: now.UTC().Format(time.DateOnly), Differences: []string{}}
	say := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); len(out.Differences) < mostDifferences && !slices.Contains(out.Differences, text) {
			out.Differences = append(out.Differences, text)
		}
	}
	a, b := double.probes(t), real.probes(t)
	for i := range min(len(a), len(b)) {
		if len(a[i].sent) != len(b[i].sent) {
			say("%s: %d requests, and %d to the real system", a[i].name, len(a[i].sent), len(b[i].sent))
		}
		for j := range min(len(a[i].sent), len(b[i].sent)) {
			out.Exchanges++
			for _, d := range differences(a[i].sent[j], b[i].sent[j]) {
				say("%s: %s", a[i].name, d)
			}
		}
	}
	return out
}

// probes makes the calls of the samples, and walks through the listings.
func (s *Subject) probes(t *testing.T) (out []probe) {
	s.bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		one := newSession(t, newRun(s.Fixture), s)
		defer one.Close()
		do := func(name string, c Call) string {
			n := one.Requests()
			r := one.Do(ctx, c)
			out = append(out, probe{c.Capability + ", " + name, one.Since(n)})
			return r.NextCursor
		}
		for i := range s.Fixture.Samples {
			x := &s.Fixture.Samples[i]
			for _, p := range [][2]string{{"ordinary", x.Args}, {"empty", x.Empty}, {"missing", x.Missing}, {"denied", x.Denied}, {"other", x.Other}} {
				if p[1] != "" {
					do(p[0], Call{Sample: x, Capability: x.Capability, Args: p[1]})
				}
			}
			if s.Declaration(x.Capability).Kind != connector.KindList {
				continue
			}
			c := Call{Sample: x, Capability: x.Capability, Args: x.Args, Size: 2}
			for page := range 5 {
				if c.Cursor = do(fmt.Sprintf("page %d", page+1), c); c.Cursor == "" {
					break
				}
			}
		}
	})
	return out
}

func differences(a, b *Exchange) (out []string) {
	if x, y := form(a), form(b); x != y {
		out = append(out, "the request is "+x+", and to the real system "+y)
	}
	if a.Status != b.Status {
		out = append(out, fmt.Sprintf("status %d, and the real system's is %d", a.Status, b.Status))
	}
	for _, name := range []string{"Link", "Retry-After", "Etag", "Location", "Www-Authenticate", "Content-Range"} {
		if x, y := a.AnswerHeader.Get(name) != "", b.AnswerHeader.Get(name) != ""; x != y {
			out = append(out, fmt.Sprintf("the header %s: %v, and the real system's: %v", name, x, y))
		}
	}
	if x, y := media(a.AnswerHeader), media(b.AnswerHeader); x != y {
		out = append(out, fmt.Sprintf("the media type is %q, and the real system's %q", x, y))
	}
	x, y := shape(a.plain()), shape(b.plain())
	for _, path := range slices.Sorted(maps.Keys(y)) {
		switch mine, ok := x[path]; {
		case !ok:
			out = append(out, "the answer lacks "+path)
		case mine != y[path] && mine != "null" && y[path] != "null":
			out = append(out, fmt.Sprintf("%s is %s, and the real system's %s", path, mine, y[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(x)) {
		if _, ok := y[path]; !ok {
			out = append(out, "the real system's answer has no "+path)
		}
	}
	return out
}

// form is a request without the values of its parameters, which may be cursors.
func form(x *Exchange) string {
	u, err := url.ParseRequestURI(x.URL)
	if err != nil {
		return x.Method + " " + x.URL
	}
	return x.Method + " " + u.EscapedPath() + "?" + strings.Join(slices.Sorted(maps.Keys(u.Query())), "&")
}

func media(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// mostPlain bounds what a compressed answer is unpacked to.
const mostPlain = 16 << 20

// plain is the answer without its compression.
func (x *Exchange) plain() []byte {
	if x.AnswerHeader.Get("Content-Encoding") != "gzip" {
		return x.Answer
	}
	z, err := gzip.NewReader(bytes.NewReader(x.Answer))
	if err != nil {
		return x.Answer
	}
	text, err := io.ReadAll(io.LimitReader(z, mostPlain))
	if err != nil {
		return x.Answer
	}
	return text
}

// shape is the type of each member of a JSON text, by its path; members of lists
// are taken together. A text that is no JSON has one member of the type text.
func shape(body []byte) map[string]string {
	out := map[string]string{}
	var v any
	if json.Unmarshal(body, &v) != nil {
		out["the answer"] = "text"
		return out
	}
	shapeOf(out, "", v)
	return out
}

func shapeOf(out map[string]string, path string, v any) {
	set := func(kind string) {
		if old := out[path+"/"]; old == "" || old == "null" {
			out[path+"/"] = kind
		}
	}
	switch v := v.(type) {
	case map[string]any:
		set("object")
		for k, x := range v {
			shapeOf(out, path+"/"+k, x)
		}
	case []any:
		set("list")
		for _, x := range v {
			shapeOf(out, path+"/*", x)
		}
	case string:
		set("string")
	case bool:
		set("boolean")
	case nil:
		set("null")
	default:
		set("number")
	}
}
