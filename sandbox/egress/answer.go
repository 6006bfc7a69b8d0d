package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	encoding := strings.Join(r.Header.Values("Content-Encoding"), ",")
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
	var b bytes.Buffer
	if hint > 0 {
		b.Grow(int(min(hint, 1<<20)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, errTooLarge
	}
	if b.Len() == 0 {
		return []byte{}, nil
	}
	return b.Bytes(), nil
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

// rebuild makes the handler's answer: nothing in it leads to the request that
// bore the credential.
// announced is the length that the answer to a HEAD gave.
func rebuild(req *http.Request, r *Response, announced int64) *http.Response {
	h := r.Header.Clone()
	if l := h.Get("Location"); l != "" {
		if _, err := req.URL.Parse(l); err != nil {
			h.Del("Location") // http.Client would print it in an error
		}
	}
	var body io.ReadCloser = http.NoBody
	length := int64(len(r.Body))
	if length > 0 {
		body = io.NopCloser(bytes.NewReader(r.Body))
	} else if req.Method == http.MethodHead {
		length = announced
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)),
		StatusCode: r.Status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        h,
		Body:          body,
		ContentLength: length,
		Request:       req,
	}
}

// since is a duration that is never negative.
func since(start time.Time) time.Duration { return max(0, time.Since(start)) }
