package world

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// answer is what a double said, before anybody hears it.
type answer struct {
	status int
	header http.Header
	body   string
}

func record(h http.Handler, r *http.Request) *answer {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return &answer{rec.Code, rec.Header(), rec.Body.String()}
}

func (a *answer) send(w http.ResponseWriter) {
	for name, v := range a.header {
		w.Header()[name] = v
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// ticket is the account's own ticket system.
func (w *World) ticket(rw http.ResponseWriter, r *http.Request, account string) {
	system := w.system(account)
	r.Header.Set("X-Redmine-API-Key", alr.TicketKey)
	if r.Method != http.MethodPost {
		record(system, r).send(rw)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, 1<<20))
	if err != nil {
		http.Error(rw, "", http.StatusBadRequest)
		return
	}
	change := Change{account, keyOf(body)}
	do := func() *answer {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		a := record(system, again)
		if a.status == http.StatusCreated {
			w.mu.Lock()
			w.applied[change]++
			w.mu.Unlock()
		}
		return a
	}
	w.trouble(rw, do)
}

func keyOf(body []byte) string {
	var in struct {
		Issue struct {
			Fields []struct{ Value string } `json:"custom_fields"`
		}
	}
	if json.Unmarshal(body, &in) != nil || len(in.Issue.Fields) == 0 {
		return ""
	}
	return in.Issue.Fields[0].Value
}

// invented is a receipt for what was not done.
const invented = `{"issue":{"id":1,"subject":"x","status":{"name":"New"},"priority":{"name":"High"},"created_on":"2026-04-29T02:40:00Z","updated_on":"2026-04-29T02:40:00Z"}}`

func (w *World) trouble(rw http.ResponseWriter, do func() *answer) {
	t := None
	if w.opts.Trouble != nil {
		t = w.opts.Trouble()
	}
	switch t {
	case DropBefore:
		hangUp(rw)
	case DropAfter:
		do()
		hangUp(rw)
	case BusyBefore:
		http.Error(rw, "", http.StatusServiceUnavailable)
	case BusyAfter:
		do()
		http.Error(rw, "", http.StatusServiceUnavailable)
	case Slow:
		a := do()
		time.Sleep(300 * time.Millisecond) // a part of the double, not a wait for anything
		a.send(rw)
	case Twice:
		do()
		do().send(rw)
	case Never:
		(&answer{http.StatusCreated, http.Header{"Content-Type": {"application/json"}}, invented}).send(rw)
	default:
		do().send(rw)
	}
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		conn.Close()
	}
}
