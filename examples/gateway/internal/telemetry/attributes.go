package telemetry

import (
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Attribute is one that a span or a metric may bear.
type Attribute struct {
	Key    string
	On     string // what bears it: "request" and "connector" are a span and a metric, "call" is drawbridge.calls and the request's span
	Values string // what it can be
}

// Attributes are all that there are. Each has one of a closed set of values, or
// one that the operator or an author wrote down: none comes from a caller, a
// model or a provider. So none holds an argument, a token, a person or an account.
func Attributes() []Attribute {
	return []Attribute{
		{"service.name", "resource", "`gateway`"},
		{"service.version", "resource", "the release"},
		{"service.instance.id", "resource", "the replica, as the operator calls it"},
		{"http.request.method", "request", "`GET`, `POST`, `DELETE`, `_OTHER`"},
		{"http.route", "request", "`/mcp`, `/.well-known/oauth-protected-resource/mcp`, `_OTHER`"},
		{"http.response.status_code", "request", "100 to 599"},
		{"mcp.method.name", "request", "a method of MCP that the gateway knows, `_OTHER`"},
		{"drawbridge.connector", "call, connector", "a registered connector's id, `_OTHER`"},
		{"drawbridge.connector.version", "call, connector", "its version, `_OTHER`"},
		{"drawbridge.capability", "call, connector", "a registered capability's name, `_OTHER`"},
		{"drawbridge.verdict", "call", "`deny`, `allow`, `allow_with_approval`, `prohibit`, `_OTHER`"},
		{"drawbridge.status", "call", "`success`, `partial`, `error`"},
		{"drawbridge.effect", "call", "`none`, `applied`, `not_applied`, `pending`, `unknown`"},
		{"error.type", "call, connector", "a code of toolresult, `_OTHER`; `panic` of a connector; absent when there is no error"},
	}
}

const other = "_OTHER"

func known(value string, values ...string) string {
	if slices.Contains(values, value) {
		return value
	}
	return other
}

func ofRequest(r *http.Request, status int) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("http.request.method", known(r.Method, http.MethodGet, http.MethodPost, http.MethodDelete)),
		attribute.String("http.route", known(r.URL.Path, "/mcp", "/.well-known/oauth-protected-resource/mcp")),
		attribute.Int("http.response.status_code", status),
	}
	if name := r.Header.Get("Mcp-Method"); name != "" {
		out = append(out, attribute.String("mcp.method.name", known(name, "tools/list", "tools/call", "server/discover", "resources/list", "resources/read", "resources/templates/list",
			"prompts/list", "prompts/get", "completion/complete", "subscriptions/listen")))
	}
	return out
}

var verdicts = [...]string{"deny", "allow", "allow_with_approval", "prohibit"}

// ofCall describes what an audit event is about.
func (t *Telemetry) ofCall(e *connector.AuditEvent) []attribute.KeyValue {
	out := t.named(e.Action.Capability)
	verdict := other
	if int(e.Verdict) < len(verdicts) {
		verdict = verdicts[e.Verdict]
	}
	out = append(out, attribute.String("drawbridge.verdict", verdict),
		attribute.String("drawbridge.status", string(e.Result.Status)), attribute.String("drawbridge.effect", e.Result.Effect.Disposition.String()))
	if e.Result.Code != "" {
		out = append(out, attribute.String("error.type", code(e.Result.Code)))
	}
	return out
}

// named describes a capability. One that nobody registered has the name that the
// caller wrote, which stays out.
func (t *Telemetry) named(capability string) []attribute.KeyValue {
	m, ok := t.where[capability]
	if !ok {
		m, capability = connector.Info{ID: other, Version: other}, other
	}
	return []attribute.KeyValue{attribute.String("drawbridge.connector", m.ID), attribute.String("drawbridge.connector.version", m.Version), attribute.String("drawbridge.capability", capability)}
}

func code(c toolresult.ErrorCode) string {
	if c.Known() {
		return string(c)
	}
	return other
}
