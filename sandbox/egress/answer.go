package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	errTooLarge = errors.New("the body is over the limit")
	errRatio    = errors.New("the body grows more in decompression than the limit allows")
)

// ratioFloor is how much may be decompressed before the ratio counts: a short
// repetitive answer is no bomb.
const ratioFloor = 64 << 10

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// readAnswer reads the body of r whole, within the limits, and decodes gzip. It
// returns how much of it arrived as well.
func readAnswer(r *http.Response, l Limits) (body []byte, received int64, err error) {
	encoding := strings.Join(r.Header["Content-Encoding"], ",")
	raw := &counter{r: r.Body}
	switch {
	case r.StatusCode == http.StatusSwitchingProtocols:
		err = errors.New("the provider switched protocols")
	case r.Request.Method == http.MethodHead || r.StatusCode == http.StatusNoContent || r.StatusCode == http.StatusNotModified:
		body, err = readAll(raw, -1, l.ResponseBytes)
	case r.ContentLength > l.ResponseBytes:
		err = errTooLarge
	case strings.EqualFold(encoding, "gzip") || strings.EqualFold(encoding, "x-gzip"):
		body, err = gunzip(raw, l)
		for _, name := range []string{"Content-Encoding", "Content-Length"} {
			r.Header.Del(name)
		}
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		body, err = readAll(raw, r.ContentLength, l.ResponseBytes)
	default:
		err = errors.New("the answer has a Content-Encoding that was not asked for")
	}
	if err != nil {
		return nil, raw.n, err
	}
	return body, raw.n, nil
}

// readAll reads at most limit bytes. hint is the length that was announced.
func readAll(r io.Reader, hint, limit int64) ([]byte, error) {
	b := make([]byte, 0, min(max(hint, 0), limit, 1<<20)+1) // and one, to see the end
	for {
		n, err := r.Read(b[len(b):min(int64(cap(b)), limit+1)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, err
		case int64(len(b)) > limit:
			return nil, errTooLarge
		case len(b) == cap(b):
			b = slices.Grow(b, bytes.MinRead)
		}
	}
}

// gunzip decodes raw. What the decoder reads ahead makes the compressed side
// look larger than it is by a few KiB at most.
func gunzip(raw *counter, l Limits) ([]byte, error) {
	compressed := &counter{r: io.LimitReader(raw, l.ResponseBytes+1)}
	z, err := gzip.NewReader(compressed)
	if errors.Is(err, io.EOF) && compressed.n == 0 {
		return []byte{}, nil
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for {
		_, err := io.CopyN(&out, z, 32<<10)
		switch n := int64(out.Len()); {
		case n > l.ResponseBytes || compressed.n > l.ResponseBytes:
			return nil, errTooLarge
		case n > ratioFloor && n > compressed.n*int64(l.Ratio):
			return nil, errRatio
		case errors.Is(err, io.EOF):
			return out.Bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}

// answerReason says why a body did not arrive.
func answerReason(life context.Context, err error) Reason {
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, errRatio):
		return ReasonTooLarge
	case life.Err() != nil:
		return endReason(life)
	}
	return ReasonBroken
}

// held is a handler's answer with its body.
type held struct {
	http.Response
	body
}

// body is a body in memory. Reads after Close go on: there is nothing to free.
type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

// rebuild makes the handler's answer: nothing in it leads to the request that
// bore the credential. h is the handler's to keep; status is the provider's
// line, announced the length that the answer to a HEAD gave.
func rebuild(req *http.Request, r *Response, h http.Header, status string, announced int64) *http.Response {
	if l := h.Get("Location"); l != "" {
		if _, err := req.URL.Parse(l); err != nil {
			h.Del("Location") // http.Client would print it in an error
		}
	}
	out := &held{Response: http.Response{
		Status:     statusLine(r.Status, status),
		StatusCode: r.Status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        h,
		Body:          http.NoBody,
		ContentLength: int64(len(r.Body)),
		Request:       req,
	}}
	if len(r.Body) > 0 {
		out.body.Reset(r.Body)
		out.Response.Body = &out.body
	} else if req.Method == http.MethodHead {
		out.ContentLength = announced
	}
	return &out.Response
}

// statusLine is the code with its own words: those of the provider are dropped.
// line is returned if it is that anyway.
func statusLine(code int, line string) string {
	words := http.StatusText(code)
	if len(line) == 4+len(words) && line[3] == ' ' && line[4:] == words {
		return line
	}
	return strconv.Itoa(code) + " " + words
}

// since is a duration that is never negative.
func since(start time.Time) time.Duration { return max(0, time.Since(start)) }
