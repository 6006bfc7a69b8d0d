package providers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// Kubernetes answers GET /api/v1/namespaces/NS/pods and .../pods/NAME as a
// kube-apiserver 1.37 does: labelSelector (name=value, name==value, name!=value,
// name, !name), fieldSelector (metadata.name, spec.nodeName, status.phase), limit
// and continue. Every error is a Status object; a namespace that the caller may
// not read is 403, never an empty list.
//
// The pod specs hold an environment variable with a token, as careless ones do.
// A continue token is not bound to the selector it came with, and the number of
// remaining items is missing where a selector is given, as with the real one.
//
// It knows no other resource, no watch, no tables and no YAML, and writes
// nothing: a write is 403.
type Kubernetes struct {
	Wire
	opts KubernetesOptions

	mu      sync.Mutex
	expired bool
}

// KubernetesOptions configures [NewKubernetes]; nil is the incident.
type KubernetesOptions struct {
	// Tokens lists the namespaces that each bearer token may read. Nil:
	// "readertoken" may read prod.
	Tokens map[string][]string
}

// NewKubernetes returns the cluster of the incident.
func NewKubernetes(opts *KubernetesOptions) *Kubernetes {
	k := &Kubernetes{}
	if opts != nil {
		k.opts = *opts
	}
	if k.opts.Tokens == nil {
		k.opts.Tokens = map[string][]string{"readertoken": {alr.Namespace}}
	}
	return k
}

// Expire makes the continue tokens given so far too old, as a compaction of the
// store does: a request with one is answered with 410 and a token for the rest.
func (k *Kubernetes) Expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expired = true
}

// TooManyRequests is what an overloaded API server answers, for
// [Wire.AnswerNext].
func (k *Kubernetes) TooManyRequests() Answer {
	return Answer{http.StatusTooManyRequests, http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Retry-After": {"1"}, "X-Content-Type-Options": {"nosniff"}},
		"Too many requests, please try again later.\n"}
}

// ServeHTTP answers one request.
func (k *Kubernetes) ServeHTTP(w http.ResponseWriter, r *http.Request) { k.serve(w, r, k.answer) }

func (k *Kubernetes) answer(w http.ResponseWriter, r *http.Request) {
	c := &kubeCall{w: w, r: r, user: "connector-reader"}
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	namespaces, known := k.opts.Tokens[token]
	switch {
	case given && !known:
		w.Header().Set("Cache-Control", "no-cache, private")
		c.status(http.StatusUnauthorized, "Unauthorized", "Unauthorized", "")
		return
	case !given:
		c.user = "system:anonymous"
	}
	w.Header().Set("Cache-Control", "no-cache, private")
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	switch {
	case r.URL.Path == "/api/v1/pods":
		c.forbidden("", " at the cluster scope")
	case !strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") || len(parts) < 3 || len(parts) > 4 || parts[2] != "pods":
		plain(w, http.StatusNotFound, "404 page not found")
	default:
		name := strings.Join(parts[3:], "")
		if r.Method != http.MethodGet || !slices.Contains(namespaces, parts[1]) {
			c.forbidden(name, fmt.Sprintf(" in the namespace %q", parts[1]))
			return
		}
		k.pods(c, parts[1], name)
	}
}

type kubeCall struct {
	w    http.ResponseWriter
	r    *http.Request
	user string
}

// say writes JSON: indented for people (curl, or pretty=true), else in one line.
func (c *kubeCall) say(status int, compact string) {
	agent := c.r.Header.Get("User-Agent")
	if strings.HasPrefix(agent, "curl/") || strings.HasPrefix(agent, "Wget/") || c.r.URL.Query().Get("pretty") == "true" {
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(compact), "", "  "); err != nil {
			panic("providers: " + err.Error()) // our own text only
		}
		send(c.w, status, "application/json", b.String())
		return
	}
	send(c.w, status, "application/json", compact+"\n")
}

// status writes a Status object; details is JSON with a comma in front, or empty.
func (c *kubeCall) status(code int, reason, message, details string) {
	c.fail("{}", code, reason, message, details)
}

func (c *kubeCall) fail(metadata string, code int, reason, message, details string) {
	c.say(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":%s,"status":"Failure","message":%s,"reason":%q%s,"code":%d}`, metadata, encode(message, false), reason, details, code))
}

func (c *kubeCall) forbidden(name, where string) {
	verb := map[string]string{"GET": "list", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[c.r.Method]
	subject, details := "pods", `,"details":{"kind":"pods"}`
	if name != "" {
		subject, details = fmt.Sprintf("pods %q", name), fmt.Sprintf(`,"details":{"name":%q,"kind":"pods"}`, name)
		if verb == "list" {
			verb = "get"
		}
	}
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	c.status(http.StatusForbidden, "Forbidden", fmt.Sprintf(`%s is forbidden: User %q cannot %s resource "pods" in API group ""%s`, subject, c.user, verb, where), details)
}

// A kubePod is what a selector may look at, and the whole object.
type kubePod struct {
	name, node, phase string
	labels            map[string]string
	object            string
}

func kubePods(namespace string) []kubePod {
	var out []kubePod
	services := map[string][]string{alr.Namespace: {alr.Service, alr.Dependency}, alr.OtherNamespace: {alr.OtherService}}
	for _, service := range services[namespace] {
		for i, name := range alr.Pods(service) {
			out = append(out, newKubePod(namespace, service, name, i))
		}
	}
	return out
}

func newKubePod(namespace, service, name string, i int) kubePod {
	hash := strings.Split(strings.TrimPrefix(name, service+"-"), "-")[0]
	image, restarts := "registry.example.test/"+service+":1.42.0", 0
	if service != alr.Service {
		image = "registry.example.test/" + service + ":3.7.1"
	} else if i == 0 {
		restarts = 1
	}
	p := kubePod{name: name, node: fmt.Sprintf("node-%d", i+1), phase: "Running", labels: map[string]string{"app": service, "pod-template-hash": hash}}
	p.object = fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"uid":"00000000-0000-4000-8000-%012x","resourceVersion":"%d","generation":1,"creationTimestamp":"2026-04-29T02:33:15Z","labels":{"app":%q,"pod-template-hash":%q}},`,
		name, namespace, i+1, 223+2*i, service, hash) +
		fmt.Sprintf(`"spec":{"containers":[{"name":"app","image":%q,"env":[{"name":"PAYMENT_API_TOKEN","value":"tok_should_be_redacted"}],"resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],`, image) +
		fmt.Sprintf(`"restartPolicy":"Always","terminationGracePeriodSeconds":0,"dnsPolicy":"ClusterFirst","nodeName":%q,"securityContext":{},"schedulerName":"default-scheduler",`, p.node) +
		`"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},` +
		fmt.Sprintf(`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-04-29T02:34:%02dZ"}],"startTime":"2026-04-29T02:33:%02dZ",`, 30+i, 20+i) +
		fmt.Sprintf(`"containerStatuses":[{"name":"app","state":{"running":{"startedAt":"2026-04-29T02:33:%02dZ"}},"lastState":{},"ready":true,"restartCount":%d,"image":%q,"imageID":""}],"qosClass":"BestEffort"}}`, 25+i, restarts, image)
	return p
}

func (k *Kubernetes) pods(c *kubeCall, namespace, name string) {
	all := kubePods(namespace)
	if name == "" {
		k.list(c, all)
		return
	}
	for _, p := range all {
		if p.name == name {
			c.say(http.StatusOK, `{"kind":"Pod","apiVersion":"v1",`+p.object[1:])
			return
		}
	}
	c.status(http.StatusNotFound, "NotFound", fmt.Sprintf("pods %q not found", name), fmt.Sprintf(`,"details":{"name":%q,"kind":"pods"}`, name))
}

// resourceVersion is that of every list: nothing changes in this cluster.
const resourceVersion = 230

func (k *Kubernetes) list(c *kubeCall, all []kubePod) {
	q := c.r.URL.Query()
	limit, err := strconv.ParseInt(q.Get("limit"), 10, 64)
	if err != nil && q.Get("limit") != "" {
		c.status(http.StatusBadRequest, "BadRequest", fmt.Sprintf("strconv.ParseInt: parsing %q: invalid syntax", q.Get("limit")), "")
		return
	}
	selected, err := selectPods(all, q.Get("labelSelector"), q.Get("fieldSelector"))
	if err != nil {
		c.status(http.StatusBadRequest, "BadRequest", err.Error(), "")
		return
	}
	selected = visible(&k.Wire, selected)
	if text := q.Get("continue"); text != "" {
		after, version, err := readContinue(text)
		if err != nil {
			c.status(http.StatusBadRequest, "BadRequest", "invalid continue token: "+err.Error(), "")
			return
		}
		if k.tooOld(version) {
			c.fail(`{"continue":"`+continueToken(-1, after)+`"}`, http.StatusGone, "Expired", expiredMessage, "")
			return
		}
		selected = slices.DeleteFunc(selected, func(p kubePod) bool { return p.name <= after })
	}
	metadata := fmt.Sprintf(`{"resourceVersion":"%d"`, resourceVersion)
	if limit > 0 && int64(len(selected)) > limit {
		metadata += `,"continue":"` + continueToken(resourceVersion, selected[limit-1].name) + `"`
		if q.Get("labelSelector")+q.Get("fieldSelector") == "" {
			metadata += fmt.Sprintf(`,"remainingItemCount":%d`, int64(len(selected))-limit)
		}
		selected = selected[:limit]
	}
	var items []string
	for _, p := range selected {
		items = append(items, p.object)
	}
	c.say(http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":`+metadata+`},"items":[`+strings.Join(items, ",")+`]}`)
}

const expiredMessage = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. " +
	"Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."

// tooOld says whether a token must be refused, once per call of Expire.
func (k *Kubernetes) tooOld(version int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.expired && version > 0
	if old {
		k.expired = false
	}
	return old
}

// A continuation is the content of a continue token.
type continuation struct {
	V     string `json:"v"`
	RV    int64  `json:"rv"`
	Start string `json:"start"`
}

func continueToken(version int64, after string) string {
	start := after + "\x00"
	if version > 0 {
		start = "/" + start
	}
	return base64.RawURLEncoding.EncodeToString([]byte(encode(continuation{"meta.k8s.io/v1", version, start}, false)))
}

func readContinue(text string) (after string, version int64, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	var t continuation
	if err := json.Unmarshal(raw, &t); err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	if t.V != "meta.k8s.io/v1" || t.Start == "" {
		return "", 0, fmt.Errorf("continue key is not valid: server does not recognize this encoded version %q", t.V)
	}
	return strings.Trim(t.Start, "/\x00"), t.RV, nil
}

// selectPods applies both selectors. The text of a label selector that cannot be
// read is that of one real case.
func selectPods(all []kubePod, labels, fields string) ([]kubePod, error) {
	out := slices.Clone(all)
	for _, term := range strings.Split(labels, ",") {
		name, op, value := cutTerm(term)
		if strings.ContainsAny(name+value, " ()") {
			return nil, fmt.Errorf("unable to parse requirement: found '', expected: ',', ')' or identifier")
		}
		out = slices.DeleteFunc(out, func(p kubePod) bool {
			has, ok := p.labels[name]
			return term != "" && !termHolds(op, has, value, ok)
		})
	}
	for _, term := range strings.Split(fields, ",") {
		name, op, value := cutTerm(term)
		if term != "" && !slices.Contains([]string{"metadata.name", "spec.nodeName", "status.phase"}, name) {
			return nil, fmt.Errorf("field label not supported: %s", name)
		}
		out = slices.DeleteFunc(out, func(p kubePod) bool {
			has := map[string]string{"metadata.name": p.name, "spec.nodeName": p.node, "status.phase": p.phase}[name]
			return term != "" && !termHolds(op, has, value, true)
		})
	}
	return out, nil
}

func cutTerm(term string) (name, op, value string) {
	for _, op := range []string{"!=", "==", "="} {
		if name, value, ok := strings.Cut(term, op); ok {
			return strings.TrimSpace(name), op, strings.TrimSpace(value)
		}
	}
	if name, ok := strings.CutPrefix(term, "!"); ok {
		return name, "!", ""
	}
	return term, "", ""
}

func termHolds(op, has, value string, present bool) bool {
	switch op {
	case "":
		return present
	case "!":
		return !present
	case "!=":
		return !present || has != value
	}
	return present && has == value
}
