package remote_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// hostile is a server that does what a test says. What it is not told to do it
// does as revision 2026-07-28 wants.
type hostile struct {
	tools    string                                  // the list, as JSON
	result   string                                  // of a call
	discover func(rw http.ResponseWriter, id string) // instead of the answer
	list     func(rw http.ResponseWriter, id, cursor string, n int64)
	call     func(rw http.ResponseWriter, id string)

	lists, calls atomic.Int64
}

func (h *hostile) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Cursor *string }
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &m) != nil {
		return
	}
	id := string(m.ID)
	switch m.Method {
	case "server/discover":
		if h.discover != nil {
			h.discover(rw, id)
			return
		}
		say(rw, id, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hostile","version":"1"}}}`)
	case "tools/list":
		n := h.lists.Add(1)
		cursor := ""
		if m.Params.Cursor != nil {
			cursor = *m.Params.Cursor
		}
		if h.list != nil {
			h.list(rw, id, cursor, n)
			return
		}
		say(rw, id, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":`+h.tools+`}`)
	case "tools/call":
		h.calls.Add(1)
		if h.call != nil {
			h.call(rw, id)
			return
		}
		say(rw, id, h.result)
	default:
		rw.WriteHeader(http.StatusNotFound)
	}
}

// say answers with a result.
func say(rw http.ResponseWriter, id, result string) {
	rw.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
func (d discard) Flush()                      {}

// copyBody reads a request's body and puts it back.
func copyBody(w io.Writer, r *http.Request) (int64, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return io.Copy(w, bytes.NewReader(body))
}
