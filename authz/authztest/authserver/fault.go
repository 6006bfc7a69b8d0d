package authserver

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// Fault makes the server fail. Without Before, it has acted by then, and only its
// answer is another.
type Fault struct {
	Endpoint string // "token", "revoke", "introspect" or "userinfo"
	Grant    string // of token: this grant only; "": all
	Times    int    // 0: once; negative: until the server is told otherwise

	Before bool          // it fails before it acts
	Delay  time.Duration // it answers late; the request's end ends it

	Drop   bool                 // it closes the connection in place of an answer
	Status int                  // it answers with this status
	Header map[string]string    // and these headers
	Body   string               // and this; "%s" stands for all that was sent, secrets included
	Edit   func(map[string]any) // it changes the answer that it would give
}

// Fail adds a fault. The oldest one that fits a request is used.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &f)
}

// Recover removes all faults.
func (s *Server) Recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault takes the one for a request, and counts the request.
func (s *Server) fault(endpoint, grant string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[endpoint]++
	if grant != "" {
		s.counts[endpoint+" "+grant]++
	}
	for _, f := range s.faults {
		if f.Endpoint == endpoint && f.Times != 0 && (f.Grant == "" || f.Grant == grant) {
			f.Times--
			return f
		}
	}
	return nil
}

// serve runs an endpoint, with what goes wrong.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, endpoint string, h func(*http.Request) (int, map[string]any)) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil {
		r.Body = io.NopCloser(strings.NewReader(string(raw)))
		err = r.ParseForm()
	}
	if err != nil || endpoint != "userinfo" && r.Method != http.MethodPost {
		http.Error(w, "want a form", http.StatusBadRequest)
		return
	}
	for name, v := range r.PostForm {
		if len(v) > 1 && name != "resource" { // RFC 6749 section 3.2
			status, body := s.fail("invalid_request")
			s.write(w, status, body)
			return
		}
	}
	f := s.fault(endpoint, r.PostForm.Get("grant_type"))
	if f == nil {
		f = &Fault{}
	}
	if f.Delay > 0 && f.Before && !wait(r, f.Delay) {
		return
	}
	status, body := http.StatusOK, map[string]any(nil)
	if !f.Before || !f.answers() {
		status, body = h(r)
	}
	if f.Delay > 0 && !f.Before && !wait(r, f.Delay) {
		return
	}
	if f.Edit != nil && body != nil {
		f.Edit(body)
	}
	f.answer(s, w, r, string(raw), status, body)
}

// answers reports whether the fault has an answer of its own.
func (f *Fault) answers() bool { return f.Drop || f.Status != 0 }

func (f *Fault) answer(s *Server, w http.ResponseWriter, r *http.Request, raw string, status int, body map[string]any) {
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	if f.Status == 0 {
		s.write(w, status, body)
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(f.Status)
	answer, _ := json.Marshal(body)
	echo, _ := json.Marshal(raw + " " + r.Header.Get("Authorization") + " " + string(answer))
	_, _ = io.WriteString(w, strings.ReplaceAll(f.Body, "%s", strings.Trim(string(echo), `"`)))
}

func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
