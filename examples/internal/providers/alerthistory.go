package providers

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// AlertHistory is a small read-only store of alerts that have ended, because an
// Alertmanager forgets them. The interface is of our own making:
//
//	GET /alerts?namespace=N&service=S&from=T&to=T&limit=L&cursor=C
//	    {"alerts":[{...}],"next":"C"}   newest first; next is missing on the last page
//	GET /alerts/ID
//	    {...}
//
// All parameters are optional; from and to are RFC 3339 instants and admit every
// alert that was active in between (from inclusive, to exclusive); limit is 1 to
// 50, 20 if missing. A cursor belongs to the filters that it came with.
//
// Errors are {"error":{"code":"bad_request","message":"..."}} with 400, 401
// ("unauthorized") or 404 ("not_found").
type AlertHistory struct {
	Wire
	opts AlertHistoryOptions
}

// AlertHistoryOptions configures [NewAlertHistory]; nil is the incident.
type AlertHistoryOptions struct {
	// Authorization is the header's value that every request needs; empty: none.
	Authorization string
	// Unfinished leaves the incident's alert out: it still fires.
	Unfinished bool
}

// NewAlertHistory returns the alerts that have ended by the time of the report.
func NewAlertHistory(opts *AlertHistoryOptions) *AlertHistory {
	h := &AlertHistory{}
	if opts != nil {
		h.opts = *opts
	}
	return h
}

type historyAlert struct {
	ID           string    `json:"alert_id"`
	Name         string    `json:"alertname"`
	Namespace    string    `json:"namespace"`
	Service      string    `json:"service"`
	Severity     string    `json:"severity"`
	State        string    `json:"state"`
	Start        time.Time `json:"starts_at"`
	End          time.Time `json:"ends_at"`
	Summary      string    `json:"summary"`
	Evidence     string    `json:"evidence,omitempty"`
	Verification string    `json:"verification_state,omitempty"`
}

// alerts returns the records, newest first.
func (h *AlertHistory) alerts() []historyAlert {
	var out []historyAlert
	for _, a := range alr.Alerts() {
		if !h.opts.Unfinished || a.ID != alr.AlertID {
			out = append(out, historyAlert{a.ID, a.Name, a.Namespace, a.Service, a.Severity, "resolved", a.Start, a.End, a.Summary, a.Evidence, a.Verification})
		}
	}
	slices.Reverse(out)
	return out
}

// ServeHTTP answers one request.
func (h *AlertHistory) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r, h.answer) }

func (h *AlertHistory) answer(w http.ResponseWriter, r *http.Request) {
	id, isOne := strings.CutPrefix(r.URL.Path, "/alerts/")
	switch {
	case h.opts.Authorization != "" && r.Header.Get("Authorization") != h.opts.Authorization:
		ownError(w, http.StatusUnauthorized, "unauthorized", "the header Authorization is missing or wrong")
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET")
		ownError(w, http.StatusMethodNotAllowed, "method_not_allowed", "this store can only be read")
	case isOne:
		h.one(w, id)
	case r.URL.Path == "/alerts":
		h.list(w, r)
	default:
		ownError(w, http.StatusNotFound, "not_found", "no such path")
	}
}

// ownError is the error of the interfaces that we made ourselves.
func ownError(w http.ResponseWriter, status int, code, message string) {
	send(w, status, "application/json", encode(map[string]any{"error": map[string]string{"code": code, "message": message}}, false))
}

func (h *AlertHistory) one(w http.ResponseWriter, id string) {
	for _, a := range h.alerts() {
		if a.ID == id {
			send(w, http.StatusOK, "application/json", encode(a, false))
			return
		}
	}
	ownError(w, http.StatusNotFound, "not_found", "no such alert")
}

func (h *AlertHistory) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, after, err := ownPage(q.Get("limit"), q.Get("cursor"), q.Get("namespace")+"|"+q.Get("service")+"|"+q.Get("from")+"|"+q.Get("to"))
	if err != "" {
		ownError(w, http.StatusBadRequest, "bad_request", err)
		return
	}
	bounds := map[string]time.Time{}
	for _, name := range []string{"from", "to"} {
		if text := q.Get(name); text != "" {
			t, err := time.Parse(time.RFC3339, text)
			if err != nil {
				ownError(w, http.StatusBadRequest, "bad_request", name+" must be an RFC 3339 instant")
				return
			}
			bounds[name] = t
		}
	}
	found := slices.DeleteFunc(h.alerts(), func(a historyAlert) bool {
		from, to := bounds["from"], bounds["to"]
		return q.Get("namespace") != "" && q.Get("namespace") != a.Namespace || q.Get("service") != "" && q.Get("service") != a.Service ||
			!from.IsZero() && a.End.Before(from) || !to.IsZero() && !a.Start.Before(to)
	})
	found = visible(&h.Wire, found)
	page := struct {
		Alerts []historyAlert `json:"alerts"`
		Next   string         `json:"next,omitempty"`
	}{Alerts: []historyAlert{}}
	page.Alerts = append(page.Alerts, found[min(after, len(found)):min(after+limit, len(found))]...)
	if after+limit < len(found) {
		page.Next = ownCursor(after+limit, q.Get("namespace")+"|"+q.Get("service")+"|"+q.Get("from")+"|"+q.Get("to"))
	}
	send(w, http.StatusOK, "application/json", encode(page, false))
}

// ownCursor seals nothing: it is a double's cursor, opaque by agreement.
func ownCursor(offset int, filters string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(offset) + "|" + filters))
}

// ownPage reads a limit and a cursor; problem says what is wrong with them.
func ownPage(limitText, cursor, filters string) (limit, offset int, problem string) {
	limit = 20
	if limitText != "" {
		n, err := strconv.Atoi(limitText)
		if err != nil || n < 1 || n > 50 {
			return 0, 0, "limit must be a number from 1 to 50"
		}
		limit = n
	}
	if cursor == "" {
		return limit, 0, ""
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	number, bound, _ := strings.Cut(string(text), "|")
	offset, numberErr := strconv.Atoi(number)
	if err != nil || numberErr != nil || offset < 0 || offset > 1<<20 || bound != filters {
		return 0, 0, "cursor does not belong to this query"
	}
	return limit, offset, ""
}
