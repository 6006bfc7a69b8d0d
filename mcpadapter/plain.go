package mcpadapter

import (
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A rpcWriter turns what the SDK refuses in plain text into a JSON-RPC error
// with the id of the request: a client that cannot match an answer to its
// request gives up all of them, and the text may be that of a Go error, with a
// part of the request in it.
type rpcWriter struct {
	http.ResponseWriter
	request []byte
	status  int // of a refusal in plain text; 0: there is none
	text    []byte
}

// WriteHeader implements [http.ResponseWriter].
func (w *rpcWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *rpcWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		return w.ResponseWriter.Write(p)
	}
	w.text = append(w.text, p[:min(len(p), 512-len(w.text))]...)
	return len(p), nil
}

// Unwrap is for [http.ResponseController].
func (w *rpcWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// constants are how texts of the SDK begin that say nothing but themselves.
var constants = []string{
	"Accept must contain both", "Bad Request: Unsupported protocol version (supported versions: ", "Content-Type must be",
	"POST requires a non-empty body", "can't send Last-Event-ID",
}

// end writes the refusal, if there is one.
func (w *rpcWriter) end() {
	if w.status == 0 {
		return
	}
	text := strings.TrimSpace(string(w.text))
	if !slices.ContainsFunc(constants, func(c string) bool { return strings.HasPrefix(text, c) }) {
		text = "the request is not one JSON-RPC message of this protocol"
	}
	if w.status >= http.StatusInternalServerError {
		text = "internal error"
	}
	w.Header().Del("X-Content-Type-Options")
	refuse(w.ResponseWriter, w.request, refusal{status: w.status, code: toolresult.InvalidInput, message: text})
}
