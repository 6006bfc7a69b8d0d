package providers

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// Alertmanager answers as Alertmanager 0.25 does: GET /api/v2/alerts (filter,
// active, receiver), GET /api/v2/alerts/groups, GET /api/v2/status and
// GET /-/ready. Two alerts fire: the incident's and one of the other tenant.
//
// It knows what fires now and nothing else, as the real one: for an alert that
// has ended it answers [], just as for one that never was. See [AlertHistory].
// A boolean that it cannot read counts as false, which hides every alert.
//
// It takes no alerts (POST is 405), and knows no silences and no inhibitions.
type Alertmanager struct {
	Wire
	opts    AlertmanagerOptions
	started string
}

// AlertmanagerOptions configures [NewAlertmanager]; nil is the incident while
// its alert fires.
type AlertmanagerOptions struct {
	// Ended leaves the incident's alert out: it has ended.
	Ended bool
	// Authorization is the header's value that every request needs; empty: none.
	// The real server leaves that to a proxy, so the 401 is of our own making.
	Authorization string
}

// NewAlertmanager returns an Alertmanager with the alerts of the incident.
func NewAlertmanager(opts *AlertmanagerOptions) *Alertmanager {
	a := &Alertmanager{started: amTime(time.Now())}
	if opts != nil {
		a.opts = *opts
	}
	return a
}

type amReceiver struct {
	Name string `json:"name"`
}

type amAlert struct {
	Annotations map[string]string `json:"annotations"`
	End         string            `json:"endsAt"`
	Fingerprint string            `json:"fingerprint"`
	Receivers   []amReceiver      `json:"receivers"`
	Start       string            `json:"startsAt"`
	Status      map[string]any    `json:"status"`
	Updated     string            `json:"updatedAt"`
	Generator   string            `json:"generatorURL"`
	Labels      map[string]string `json:"labels"`
}

func amTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// firing returns the alerts that fire, by fingerprint.
func (a *Alertmanager) firing() []amAlert {
	var out []amAlert
	for _, x := range alr.Alerts() {
		if x.Severity != "critical" || a.opts.Ended && x.ID == alr.AlertID {
			continue
		}
		labels := map[string]string{"alertname": x.Name, "alert_id": x.ID, "service": x.Service, "namespace": x.Namespace, "env": "prod", "severity": x.Severity}
		notes := map[string]string{"summary": x.Summary}
		if x.Evidence != "" {
			notes["evidence"], notes["verification_state"] = x.Evidence, x.Verification
		}
		out = append(out, amAlert{notes, "2099-01-01T00:00:00.000Z", fingerprint(labels), []amReceiver{{"none"}}, amTime(x.Start),
			map[string]any{"inhibitedBy": []string{}, "silencedBy": []string{}, "state": "active"}, a.started, "http://127.0.0.1:19090/graph", labels})
	}
	slices.SortFunc(out, func(x, y amAlert) int { return cmp.Compare(x.Fingerprint, y.Fingerprint) })
	return out
}

// fingerprint is FNV-1a over the labels in the order of their names, each name
// and value followed by a byte that no label holds.
func fingerprint(labels map[string]string) string {
	var names []string
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	h := fnv.New64a()
	for _, name := range names {
		fmt.Fprintf(h, "%s\xff%s\xff", name, labels[name])
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// ServeHTTP answers one request.
func (a *Alertmanager) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.serve(w, r, a.answer) }

func (a *Alertmanager) answer(w http.ResponseWriter, r *http.Request) {
	if a.opts.Authorization != "" && r.Header.Get("Authorization") != a.opts.Authorization {
		plain(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	if r.URL.Path == "/-/ready" {
		send(w, http.StatusOK, "text/plain; charset=utf-8", "OK")
		return
	}
	w.Header().Set("Vary", "Origin")
	var h http.HandlerFunc
	switch r.URL.Path {
	case "/api/v2/alerts":
		h = a.alerts
	case "/api/v2/alerts/groups":
		h = a.groups
	case "/api/v2/status":
		h = a.status
	default:
		amError(w, http.StatusNotFound, "path "+r.URL.Path+" was not found")
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		amError(w, http.StatusMethodNotAllowed, "method "+r.Method+" is not allowed, but [GET] are")
		return
	}
	h(w, r)
}

// amError is the object form of an error, made before a handler is reached.
func amError(w http.ResponseWriter, status int, message string) {
	send(w, status, "application/json", fmt.Sprintf(`{"code":%d,"message":%s}`, status, encode(message, true)))
}

// amSay is everything that a handler itself answers: with a line feed. An error
// is a JSON string.
func amSay(w http.ResponseWriter, status int, v any) {
	send(w, status, "application/json", encode(v, true)+"\n")
}

func (a *Alertmanager) alerts(w http.ResponseWriter, r *http.Request) {
	found, err := a.matching(r)
	if err != nil {
		amSay(w, http.StatusBadRequest, err.Error())
		return
	}
	amSay(w, http.StatusOK, found)
}

func (a *Alertmanager) matching(r *http.Request) ([]amAlert, error) {
	q := r.URL.Query()
	var filters []matcher
	for _, text := range q["filter"] {
		m, err := amMatcher(text)
		if err != nil {
			return nil, err
		}
		filters = append(filters, m)
	}
	receiver := regexp.MustCompile("")
	if text := q.Get("receiver"); text != "" {
		re, err := regexp.Compile("^(?:" + text + ")$")
		if err != nil {
			return nil, fmt.Errorf("failed to parse receiver param: %w", err)
		}
		receiver = re
	}
	found := []amAlert{}
	for _, x := range a.firing() {
		misses := func(m matcher) bool { return !m.matches(x.Labels[m.name]) }
		if amTrue(q["active"]) && receiver.MatchString("none") && !slices.ContainsFunc(filters, misses) {
			found = append(found, x)
		}
	}
	return found, nil
}

// amTrue reads a boolean as the real server does: absent is true, and whatever
// is not one of its words for true is false.
func amTrue(values []string) bool {
	words := []string{"true", "1", "yes", "ok", "y", "on", "selected", "checked", "t", "enabled"}
	return len(values) == 0 || slices.Contains(words, strings.ToLower(values[len(values)-1]))
}

// amMatcher reads name="value", name=value and the operators !=, =~ and !~.
func amMatcher(text string) (matcher, error) {
	form := regexp.MustCompile(`^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(=~|=|!=|!~)\s*((?s).*?)\s*$`)
	parts := form.FindStringSubmatch(text)
	if parts == nil {
		return matcher{}, fmt.Errorf("bad matcher format: %s", text)
	}
	value := parts[3]
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		if value, ok = strings.CutSuffix(quoted, `"`); !ok {
			return matcher{}, fmt.Errorf("matcher value contains unescaped double quote: %s", parts[3])
		}
		value = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n").Replace(value)
	}
	m := matcher{name: parts[1], op: parts[2], value: value}
	if strings.HasSuffix(m.op, "~") {
		re, err := regexp.Compile("^(?:" + value + ")$")
		if err != nil {
			return matcher{}, err
		}
		m.re = re
	}
	return m, nil
}

func (a *Alertmanager) groups(w http.ResponseWriter, r *http.Request) {
	found, err := a.matching(r)
	if err != nil {
		amSay(w, http.StatusBadRequest, err.Error())
		return
	}
	type group struct {
		Alerts   []amAlert         `json:"alerts"`
		Labels   map[string]string `json:"labels"`
		Receiver amReceiver        `json:"receiver"`
	}
	out := []group{}
	for _, x := range found { // no two share name and service
		out = append(out, group{[]amAlert{x}, map[string]string{"alertname": x.Labels["alertname"], "service": x.Labels["service"]}, amReceiver{"none"}})
	}
	slices.SortFunc(out, func(x, y group) int { return strings.Compare(x.Labels["alertname"], y.Labels["alertname"]) })
	amSay(w, http.StatusOK, out)
}

func (a *Alertmanager) status(w http.ResponseWriter, _ *http.Request) {
	amSay(w, http.StatusOK, map[string]any{
		"cluster":     map[string]any{"peers": []string{}, "status": "disabled"},
		"config":      map[string]string{"original": "route:\n  receiver: none\nreceivers:\n- name: none\n"},
		"uptime":      a.started,
		"versionInfo": map[string]string{"branch": "", "buildDate": "", "buildUser": "", "goVersion": "", "revision": "embedded", "version": "0.25.0"},
	})
}
