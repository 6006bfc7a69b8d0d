package fault

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// maxBody is the most of a request that is kept to be delivered again.
const maxBody = 16 << 20

// Handler returns a provider whose exchanges the plan disturbs. It is for a
// server of net/http: a lost connection is one that the server closes. It is
// safe for concurrent use if h is.
func Handler(h http.Handler, plan Plan) http.Handler {
	c := &counter{plan: plan}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Serve(w, r, h, c.next(r)) })
}

// Serve serves one request with one fault. It panics with http.ErrAbortHandler
// to lose a connection, as a handler of net/http does.
func Serve(w http.ResponseWriter, r *http.Request, h http.Handler, f Fault) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	answer := exchange(r, body, h, f)
	if answer == nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.header)
	w.Header().Set("Content-Length", strconv.FormatInt(answer.length, 10))
	if answer.length < 0 {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(answer.status)
	answer.write(w, r)
}

// answer is what goes back.
type answer struct {
	status int
	header http.Header
	length int64 // -1: not said
	body   io.Reader
	cut    bool
	pace   time.Duration
}

// exchange is nil if the connection is lost before an answer.
func exchange(r *http.Request, body []byte, h http.Handler, f Fault) *answer {
	if f.Hang || f.Delay > 0 {
		if !wait(r, f) {
			return nil
		}
	}
	switch {
	case f.DropBefore:
		return nil
	case f.Redirect != "":
		header := f.Header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Location", f.Redirect)
		return f.disturb(http.StatusTemporaryRedirect, header, nil)
	case f.Status != 0:
		header := f.Header.Clone()
		if header == nil {
			header = http.Header{}
		}
		return f.disturb(f.Status, header, []byte(f.Body))
	}
	var rec *recorder
	for range f.Duplicate + 1 {
		rec = &recorder{header: http.Header{}, status: http.StatusOK}
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(rec, again)
	}
	if f.DropAfter {
		return nil
	}
	if rec.status >= 400 {
		f.Huge = 0
	}
	maps.Copy(rec.header, f.Header)
	return f.disturb(rec.status, rec.header, rec.body.Bytes())
}

// recorder keeps an answer of the provider.
type recorder struct {
	header http.Header
	status int
	begun  bool
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	if !r.begun && status >= 200 {
		r.begun, r.status = true, status
	}
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(p []byte) (int, error) {
	r.begun = true
	if r.header.Get("Content-Type") == "" {
		r.header.Set("Content-Type", http.DetectContentType(p))
	}
	return r.body.Write(p)
}

// wait reports whether the exchange goes on.
func wait(r *http.Request, f Fault) bool {
	if f.Delay == 0 {
		<-r.Context().Done()
		return false
	}
	t := time.NewTimer(f.Delay)
	defer t.Stop()
	select {
	case <-t.C:
		return !f.Hang
	case <-r.Context().Done():
		return false
	}
}

func (f Fault) disturb(status int, header http.Header, body []byte) *answer {
	if f.Rewrite != nil {
		body = f.Rewrite(body)
	}
	a := &answer{status: status, header: header, length: int64(len(body)), body: bytes.NewReader(body), pace: f.Pace}
	header.Del("Content-Length")
	if f.Huge != 0 {
		n := f.Huge
		if n < 0 {
			n = 1 << 62
		}
		a.body, a.length = io.MultiReader(io.LimitReader(spaces{}, n), a.body), -1
	}
	if f.Gzip {
		a.body, a.length = compressed(a.body), -1
		header.Set("Content-Encoding", "gzip")
	}
	switch {
	case f.CutHeaders:
		a.body, a.cut = http.NoBody, true
		a.length = max(a.length, 1)
	case f.Cut > 0:
		if a.length >= 0 && int64(f.Cut) >= a.length {
			a.length = int64(f.Cut) + 1 // cut all the same: the length promises more
		}
		a.body, a.cut = io.LimitReader(a.body, int64(f.Cut)), true
	}
	return a
}

func compressed(r io.Reader) io.Reader {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.Copy(w, io.LimitReader(r, 64<<20))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return http.NoBody
	}
	return &b
}

// write ends when the body does, or the client.
func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if a.pace == 0 {
		_, err := io.Copy(w, a.body)
		if a.cut || err != nil {
			_ = rc.Flush()
			panic(http.ErrAbortHandler)
		}
		return
	}
	t := time.NewTicker(a.pace)
	defer t.Stop()
	for one := make([]byte, 1); ; {
		select {
		case <-t.C:
		case <-r.Context().Done():
			return
		}
		n, err := a.body.Read(one)
		if n > 0 {
			if _, err := w.Write(one); err != nil {
				return
			}
			_ = rc.Flush()
		}
		if err != nil {
			break
		}
	}
	if a.cut {
		panic(http.ErrAbortHandler)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
