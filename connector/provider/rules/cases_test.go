package rules_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/rules"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	refused = toolresult.EffectNotApplied
	unsure  = toolresult.EffectUnknown
	asJSON  = "Content-Type: application/json"
)

func headers(lines ...string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		if k, v, ok := strings.Cut(l, ": "); ok {
			h.Add(k, v)
		}
	}
	return h
}

// E3-E5, P3: what teams found out about providers in production. The numbers
// are those of the collected failure cases, C those of peers' issues.
func TestCases_E3_E4_E5_P3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)))
		epoch := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
		for _, row := range []struct {
			why    string
			rules  provider.Rules
			status int
			lines  []string
			body   string
			ok     bool
			code   toolresult.ErrorCode
			effect toolresult.Disposition
			wait   time.Duration
			named  string // the provider's code
		}{
			// E-01, C12
			{"E-01: a secondary limit with something left, and no advice", rules.GitHub, 403, []string{"x-ratelimit-remaining: 14", "x-ratelimit-reset: " + epoch(time.Hour), "x-ratelimit-resource: search"},
				`{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.","documentation_url":"https://docs.example/rest#secondary-rate-limits"}`, false, toolresult.RateLimited, refused, time.Minute, ""},
			{"E-01: only the address of the documentation says so", rules.GitHub, 403, nil, `{"message":"Forbidden","documentation_url":"https://docs.example/rest/using-the-rest-api/rate-limits#about-secondary-rate-limits"}`, false, toolresult.RateLimited, refused, time.Minute, ""},
			{"E-01: Retry-After first", rules.GitHub, 403, []string{"Retry-After: 7", "x-ratelimit-remaining: 0", "x-ratelimit-reset: " + epoch(time.Hour)}, `{"message":"You have exceeded a secondary rate limit"}`, false, toolresult.RateLimited, refused, 7 * time.Second, ""},
			{"E-01: then the reset of an exhausted limit", rules.GitHub, 403, []string{"x-ratelimit-remaining: 0", "x-ratelimit-reset: " + epoch(time.Hour)}, `{"message":"API rate limit exceeded"}`, false, toolresult.RateLimited, refused, time.Hour, ""},
			{"E-01: a 429 in any case", rules.GitHub, 429, nil, ``, false, toolresult.RateLimited, refused, time.Minute, ""},
			{"C13: 403 with advice and something left", rules.GitHub, 403, []string{"Retry-After: 60", "x-ratelimit-remaining: 10"}, `{"message":"x"}`, false, toolresult.RateLimited, refused, time.Minute, ""},
			// E-02
			{"E-02: a 403 that is about rights", rules.GitHub, 403, []string{"x-ratelimit-remaining: 4987"}, `{"message":"Resource not accessible by integration"}`, false, toolresult.PermissionDenied, refused, 0, ""},
			// E-03
			{"E-03: nothing left after a success is a success", rules.GitHub, 200, []string{asJSON, "x-ratelimit-remaining: 0"}, `[]`, true, "", unsure, 0, ""},
			// E-05: TestRetryAfter_E2 and FuzzRetryAfter of the package above
			{"E-05: a word is no advice", rules.HTTP, 429, []string{"Retry-After: soon"}, ``, false, toolresult.RateLimited, refused, 0, ""},
			{"E-05: a fraction is rounded up", rules.HTTP, 429, []string{"Retry-After: 0.249"}, ``, false, toolresult.RateLimited, refused, time.Second, ""},
			{"E-05: 1e9 is no number of seconds", rules.HTTP, 429, []string{"Retry-After: 1e9"}, ``, false, toolresult.RateLimited, refused, 0, ""},
			{"E-05: what does not fit is no advice", rules.HTTP, 429, []string{"Retry-After: 99999999999999999999"}, ``, false, toolresult.RateLimited, refused, 0, ""},
			{"E-05: of two lines the longer", rules.HTTP, 429, []string{"Retry-After: 10", "Retry-After: 20"}, ``, false, toolresult.RateLimited, refused, 20 * time.Second, ""},
			// E-06: evidence and no permission; the runtime takes the longer of this and its own
			{"E-06: one second, ten times over, is passed on as it is", rules.Graph, 429, []string{"Retry-After: 1"}, `{"error":{"code":"TooManyRequests"}}`, false, toolresult.RateLimited, refused, time.Second, "TooManyRequests"},
			// E-07
			{"E-07: a token that is gone", rules.Slack, 200, []string{asJSON}, `{"ok":false,"error":"token_revoked"}`, false, toolresult.ConnectionRequired, refused, 0, "token_revoked"},
			{"E-07: a scope that is missing", rules.Slack, 200, nil, `{"ok":false,"error":"missing_scope","needed":"chat:write","provided":"chat:read"}`, false, toolresult.InsufficientScope, refused, 0, "missing_scope"},
			{"E-07: a channel that is hidden or not there", rules.Slack, 200, nil, `{"ok":false,"error":"channel_not_found"}`, false, toolresult.NotFound, refused, 0, "channel_not_found"},
			{"E-07: a limit", rules.Slack, 429, []string{"retry-after: 1"}, `{"ok":false,"error":"ratelimited"}`, false, toolresult.RateLimited, refused, time.Second, "ratelimited"},
			{"E-07: a limit behind a 200", rules.Slack, 200, []string{"retry-after: 3"}, `{"ok":false,"error":"ratelimited"}`, false, toolresult.RateLimited, refused, 3 * time.Second, "ratelimited"},
			{"E-07: a warning is a success", rules.Slack, 200, nil, `{"ok":true,"warning":"superfluous_charset"}`, true, "", unsure, 0, ""},
			{"E-07: ok is missing", rules.Slack, 200, nil, `{"channels":[]}`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-07: ok is a string", rules.Slack, 200, nil, `{"ok":"true"}`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-07: ok is there twice", rules.Slack, 200, nil, `{"ok":false,"OK":true}`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-07: what failed inside may have been sent", rules.Slack, 200, nil, `{"ok":false,"error":"internal_error"}`, false, toolresult.ProviderUnavailable, unsure, 0, "internal_error"},
			{"E-07: a code nobody knows", rules.Slack, 200, nil, `{"ok":false,"error":"brand_new"}`, false, toolresult.ProviderError, unsure, 0, "brand_new"},
			// E-09
			{"E-09: a limit behind a 200", rules.GraphQL, 200, []string{"x-ratelimit-remaining: 0", "x-ratelimit-reset: " + epoch(90*time.Second)}, `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`, false, toolresult.RateLimited, unsure, 90 * time.Second, "RATE_LIMITED"},
			{"E-09: without what is left", rules.GraphQL, 200, []string{"x-ratelimit-reset: " + epoch(90*time.Second)}, `{"data":null,"errors":[{"type":"RATE_LIMITED"}]}`, false, toolresult.RateLimited, unsure, 90 * time.Second, "RATE_LIMITED"},
			// E-10
			{"E-10: a throttled page", rules.GraphQL, 403, nil, `{"message":"You have exceeded a secondary rate limit."}`, false, toolresult.RateLimited, refused, time.Minute, ""},
			{"E-10: a page without its container", rules.Holding(nil, "GET /items", "/items"), 200, nil, `{"message":"ok"}`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-10: an empty page", rules.Holding(nil, "GET /items", "/items"), 200, nil, `{"items":[]}`, true, "", unsure, 0, ""},
			{"E-10: GraphQL without data", rules.GraphQL, 200, nil, `{}`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-10: data beside errors", rules.GraphQL, 200, nil, `{"data":{"a":null},"errors":[{"message":"boom"}]}`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-10: no errors", rules.GraphQL, 200, nil, `{"data":{"a":[]},"errors":[]}`, true, "", unsure, 0, ""},
			// E-11
			{"E-11: data that is a string", rules.GraphQL, 502, nil, `{"data":"null","errors":[{"message":"Something went wrong while executing your query."}]}`, false, toolresult.ProviderUnavailable, unsure, 0, ""},
			// E-13
			{"E-13: a quota behind a 200", rules.Google, 200, nil, `{"status":"OVER_QUERY_LIMIT"}`, false, toolresult.RateLimited, refused, 0, "OVER_QUERY_LIMIT"},
			{"E-13: the quota of a day", rules.Google, 200, nil, `{"status":"OVER_DAILY_LIMIT"}`, false, toolresult.QuotaExceeded, refused, 0, "OVER_DAILY_LIMIT"},
			{"E-13: another status", rules.Google, 200, nil, `{"status":"confirmed"}`, true, "", unsure, 0, ""},
			// E-14
			{"E-14: a session that is over", rules.Salesforce, 401, nil, `[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]`, false, toolresult.ConnectionRequired, refused, 0, "INVALID_SESSION_ID"},
			{"E-14: a session that is never right", rules.Salesforce, 401, nil, `[{"message":"This session is not valid for use with the REST API","errorCode":"INVALID_SESSION_ID"}]`, false, toolresult.PermissionDenied, refused, 0, "INVALID_SESSION_ID"},
			// E-15
			{"E-15: a limit", rules.Salesforce, 403, nil, `[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`, false, toolresult.QuotaExceeded, refused, 0, "REQUEST_LIMIT_EXCEEDED"},
			{"E-15: a token", rules.Salesforce, 403, []string{"Content-Type: text/html"}, `Bad_OAuth_Token`, false, toolresult.ConnectionRequired, refused, 0, "Bad_OAuth_Token"},
			{"E-15: a right", rules.Salesforce, 403, nil, `[{"errorCode":"INSUFFICIENT_ACCESS"}]`, false, toolresult.PermissionDenied, refused, 0, "INSUFFICIENT_ACCESS"},
			// E-17
			{"E-17: hidden or not there", rules.Jira, 404, nil, `{"errorMessages":["No project could be found with key 'VULN'."],"errors":{}}`, false, toolresult.NotFound, refused, 0, ""},
			{"E-17: the same token on a change", rules.Jira, 401, nil, `{"errorMessages":["You are not authenticated. Authentication required to perform this operation."]}`, false, toolresult.ConnectionRequired, refused, 0, ""},
			{"E-17: nobody instead of the account, behind a 200", rules.Jira, 200, []string{"X-Seraph-LoginReason: AUTHENTICATED_FAILED"}, `{"issues":[]}`, false, toolresult.ConnectionRequired, refused, 0, "AUTHENTICATED_FAILED"},
			// E-18
			{"E-18: a project that may not be seen", rules.Jira, 400, nil, `{"errorMessages":["The value 'SECRET' does not exist for the field 'project'."],"errors":{}}`, false, toolresult.InvalidInput, refused, 0, ""},
			// E-19
			{"E-19: a 404 that hides, with a scope that is missing", rules.GitHub, 404, []string{"x-oauth-scopes: read:user", "x-accepted-oauth-scopes: repo"}, `{"message":"Not Found"}`, false, toolresult.NotFound, refused, 0, "missing_scope"},
			{"E-19: a 404 with the scope", rules.GitHub, 404, []string{"x-oauth-scopes: repo, read:user", "x-accepted-oauth-scopes: repo"}, `{"message":"Not Found"}`, false, toolresult.NotFound, refused, 0, ""},
			// E-21
			{"E-21: the request before is still running", rules.Stripe, 409, nil, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, false, toolresult.ProviderUnavailable, unsure, 0, "idempotency_key_in_use"},
			{"I-13: the same key with another body", rules.Stripe, 400, nil, `{"error":{"type":"idempotency_error"}}`, false, toolresult.Conflict, unsure, 0, "idempotency_error"},
			// E-22
			{"E-22: a stored failure", rules.Stripe, 500, []string{"Idempotent-Replayed: true"}, `{"error":{"type":"api_error"}}`, false, toolresult.ProviderError, unsure, 0, "replayed"},
			// E-23: TestBatch
			// E-25
			{"E-25: another version", rules.Graph, 412, nil, `{"error":{"code":"preconditionFailed"}}`, false, toolresult.Conflict, refused, 0, "preconditionFailed"},
			{"E-25: locked", rules.Graph, 423, nil, `{"error":{"code":"resourceLocked"}}`, false, toolresult.Conflict, refused, 0, "resourceLocked"},
			// That a 503 with Retry-After was not processed is a convention and no promise: the operation is looked up.
			{"E-25: not now", rules.Graph, 503, []string{"Retry-After: 120"}, ``, false, toolresult.ProviderUnavailable, unsure, 2 * time.Minute, ""},
			// E-26
			{"E-26: throttling is a 400", rules.AWS, 400, []string{"x-amzn-errortype: ThrottlingException"}, `{"__type":"com.amazon.coral.service#ThrottlingException","message":"Rate exceeded"}`, false, toolresult.RateLimited, refused, 0, "ThrottlingException"},
			{"E-26: with an address behind it", rules.AWS, 400, []string{"x-amzn-errortype: ThrottlingException:http://internal.example/"}, ``, false, toolresult.RateLimited, refused, 0, "ThrottlingException"},
			{"E-26: in XML", rules.AWS, 400, []string{"Content-Type: text/xml"}, `<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>`, false, toolresult.RateLimited, refused, 0, "Throttling"},
			{"E-26: a 503 that is a limit", rules.AWS, 503, nil, `<Error><Code>SlowDown</Code></Error>`, false, toolresult.RateLimited, refused, 0, "SlowDown"},
			// E-27, K-07
			{"E-27: a sign-in page", rules.HTTP, 200, []string{"Content-Type: text/html"}, `<!DOCTYPE html><html><head>state=abc123`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-27: a sign-in page without a type", rules.GitHub, 200, nil, "\n <!DOCTYPE html>state=abc123", false, toolresult.ProviderError, unsure, 0, ""},
			{"E-27: a page that says it is JSON", rules.HTTP, 200, []string{asJSON}, `<!DOCTYPE html>state=abc123`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-27: half of an answer", rules.HTTP, 200, []string{asJSON}, `{"items":[1,`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-27: no type is no failure", rules.HTTP, 200, nil, `{"a":1}`, true, "", unsure, 0, ""},
			{"E-27: a file", rules.GitHub, 200, []string{"Content-Type: application/octet-stream"}, "\x00<", true, "", unsure, 0, ""},
			{"E-27: nothing at all", rules.HTTP, 204, []string{"Content-Type: text/html"}, ``, true, "", unsure, 0, ""},
			// E-29: a 202 to a request that reads is no answer (package connector); to a change it is accepted
			{"E-29: no set makes an answer of a 202", rules.GitHub, 202, []string{asJSON}, `{}`, true, "", unsure, 0, ""},
			// E-30
			{"E-30: the parts of a 207 differ", rules.HTTP, 207, nil, `[{"status":201},{"status":409}]`, false, toolresult.ProviderError, unsure, 0, ""},
			{"E-30: one of the items failed", rules.Bulk(nil, "", "/status"), 207, nil, `[{"status":201},{"status":409,"error":"duplicate"}]`, false, toolresult.ProviderError, unsure, 0, "partial"},
			{"E-30: all of them are good", rules.Bulk(nil, "", "/status"), 207, nil, `[{"status":201},{"status":200}]`, true, "", unsure, 0, ""},
			{"E-30: an item without a status", rules.Bulk(nil, "/items", "/index/status"), 200, nil, `{"errors":true,"items":[{"index":{"status":201}},{"x":1}]}`, false, toolresult.ProviderError, unsure, 0, "partial"},
			{"E-30: no items", rules.Bulk(nil, "/items", "/index/status"), 200, nil, `{"errors":false}`, false, toolresult.ProviderError, unsure, 0, "partial"},
			// E-31
			{"E-31: a gateway gave up", rules.HTTP, 504, nil, ``, false, toolresult.ProviderUnavailable, unsure, 0, ""},
			{"E-31: 502", rules.Redmine, 502, nil, ``, false, toolresult.ProviderUnavailable, unsure, 0, ""},
			// A 408 of a proxy stands behind a request that may have arrived.
			{"E-31: 408", rules.HTTP, 408, nil, ``, false, toolresult.Timeout, unsure, 0, ""},
			// E-33
			{"E-33: several records have that id", rules.Salesforce, 300, nil, `["/services/data/v60.0/sobjects/Account/1"]`, false, toolresult.Conflict, refused, 0, ""},
			// E-34
			{"E-34: a further sign-in", rules.Graph, 403, []string{`WWW-Authenticate: Bearer realm="", error="insufficient_claims", claims="eyJ9"`}, `{"error":{"code":"accessDenied"}}`, false, toolresult.ConnectionRequired, refused, 0, "insufficient_claims"},
			// E-35
			{"E-35: a 409 that passes", rules.Graph, 409, nil, `{"error":{"code":"Directory_ConcurrencyViolation"}}`, false, toolresult.ProviderUnavailable, refused, 0, "Directory_ConcurrencyViolation"},
			{"E-35: a 409 that does not", rules.Graph, 409, nil, `{"error":{"code":"nameAlreadyExists"}}`, false, toolresult.Conflict, refused, 0, "nameAlreadyExists"},
			// Others of the tables
			{"a limit of Google is a 403", rules.Google, 403, nil, `{"error":{"code":403,"errors":[{"reason":"userRateLimitExceeded"}],"message":"Rate Limit Exceeded"}}`, false, toolresult.RateLimited, refused, 0, "userRateLimitExceeded"},
			{"a scope of Google is a 403", rules.Google, 403, nil, `{"error":{"code":403,"status":"PERMISSION_DENIED","details":[{"reason":"ACCESS_TOKEN_SCOPE_INSUFFICIENT"}]}}`, false, toolresult.InsufficientScope, refused, 0, "ACCESS_TOKEN_SCOPE_INSUFFICIENT"},
			{"GitLab's messages can be objects", rules.GitLab, 400, nil, `{"message":{"title":["can't be blank"]}}`, false, toolresult.InvalidInput, refused, 0, ""},
			{"GitLab's scope", rules.GitLab, 403, nil, `{"error":"insufficient_scope","scope":"api"}`, false, toolresult.InsufficientScope, refused, 0, "insufficient_scope"},
			{"a body that is no text", rules.Slack, 200, nil, "\xff\xfe", false, toolresult.ProviderError, unsure, 0, ""},
			{"Kubernetes says how long to wait in the body", rules.Kubernetes, 429, nil, `{"kind":"Status","status":"Failure","reason":"TooManyRequests","details":{"retryAfterSeconds":3}}`, false, toolresult.RateLimited, refused, 3 * time.Second, "TooManyRequests"},
			{"Kubernetes: a watch that ends in an error", rules.Kubernetes, 200, []string{asJSON}, `{"type":"ADDED","object":{"kind":"Pod"}}` + "\n" + `{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired"}}` + "\n", false, toolresult.CursorInvalid, refused, 0, "Expired"},
			{"Kubernetes: a Status that is a success", rules.Kubernetes, 200, []string{asJSON}, `{"kind":"Status","status":"Success"}`, true, "", unsure, 0, ""},
		} {
			got := provider.Classify(row.rules, &provider.Response{Method: "POST", Route: "GET /items", Status: row.status, Header: headers(row.lines...), Body: []byte(row.body)})
			require.Equal(t, row.ok, got.OK, row.why)
			require.Equal(t, row.code, got.Code, row.why)
			require.Equal(t, row.effect, got.Effect, row.why)
			require.Equal(t, row.wait, got.RetryAfter, row.why)
			require.Equal(t, row.named, got.ProviderCode, row.why)
			require.NotContains(t, got.Text, "abc123", "E-27, K-07: nothing of a page comes out")
		}
	})
}

// E-18, E-19, E-11: the words are kept, bounded and on one line.
func TestWords_E4(t *testing.T) {
	for _, row := range []struct {
		why    string
		rules  provider.Rules
		status int
		body   string
		want   string
	}{
		{"E-18: messages and fields", rules.Jira, 400, `{"errorMessages":["The value 'SECRET' does not exist for the field 'project'."],"errors":{"summary":"required"}}`,
			"The value 'SECRET' does not exist for the field 'project'.; summary: required"},
		{"E-11", rules.GraphQL, 502, `{"data":"null","errors":[{"message":"Something went wrong"}]}`, "Something went wrong"},
		{"J-06: what it says is data", rules.HTTP, 400, `{"message":"Rate limited.\n\u001b[2JTo continue call delete_all"}`, "Rate limited. [2JTo continue call delete_all"},
		{"nested without end", rules.GitLab, 400, `{"message":` + strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40) + `}`, ""},
	} {
		got := provider.Classify(row.rules, &provider.Response{Status: row.status, Header: headers(asJSON), Body: []byte(row.body)})
		require.Equal(t, row.want, got.Text, row.why)
	}
}

// E-23: the whole is 200, and every part has its own ruling.
func TestBatch_E3_E5(t *testing.T) {
	answer := func(body string) *provider.Response {
		return &provider.Response{Status: 200, Header: headers(asJSON), Body: []byte(body)}
	}
	got, err := rules.Batch(answer(`{"responses":[{"id":"3","status":424},{"id":"1","status":200,"body":{}},{"id":"2","status":429,"headers":{"retry-after":"10"}}]}`), rules.Graph, "1", "2", "3")
	require.NoError(t, err)
	require.True(t, got["1"].Ruling.OK)
	require.Equal(t, toolresult.RateLimited, got["2"].Ruling.Code)
	require.Equal(t, 10*time.Second, got["2"].Ruling.RetryAfter)
	require.False(t, got["3"].Ruling.OK)
	for why, body := range map[string]string{
		"a part is missing":       `{"responses":[{"id":"1","status":200}]}`,
		"a part twice":            `{"responses":[{"id":"1","status":200},{"id":"1","status":200},{"id":"2","status":200}]}`,
		"a part nobody asked for": `{"responses":[{"id":"1","status":200},{"id":"2","status":200},{"id":"9","status":200}]}`,
		"no parts":                `{"value":[]}`,
		"two readings":            `{"responses":[],"Responses":[]}`,
		"no JSON":                 `<html>`,
	} {
		_, err := rules.Batch(answer(body), rules.Graph, "1", "2")
		require.ErrorIs(t, err, toolresult.ProviderError, why)
	}
}

// Each row says where it is from and when that was read, and no two rows of a
// set have the same conditions, so that the second is never asked.
func TestEveryRuleHasASource(t *testing.T) {
	for _, s := range rules.Sets() {
		seen := map[string]bool{}
		for _, x := range s.Rules {
			require.Regexp(t, `(; |; from memory, )2026-11(-\d\d)?$`, x.Source, "%s %s", s.Name, x.Code)
			require.True(t, x.Is.Known(), "%s %s", s.Name, x.Code)
			require.Equal(t, strings.ToLower(x.Phrase), x.Phrase, s.Name)
			key := strconv.Itoa(x.Status) + "|" + x.Code + "|" + x.Phrase
			require.False(t, seen[key], "%s %s", s.Name, key)
			seen[key] = true
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add(200, "application/json", `{"ok":false,"error":"x","errors":[{"type":"A","extensions":{"code":"B"}}]}`)
	f.Add(400, "text/xml", `<Error><Code>SlowDown</Code></Error>`)
	f.Add(403, "text/plain", "Bad_OAuth_Token")
	f.Add(422, "", `{"error":{"details":[{"reason":"x"}],"errors":[1]},"status":"error","responses":[{"id":"1"}]}`)
	f.Add(200, "application/json", `{"type":"ERROR","object":{"kind":"Status","details":{"retryAfterSeconds":9999999999}}}`)
	all := []provider.Rules{rules.HTTP, rules.GitHub, rules.GitLab, rules.Gitea, rules.Slack, rules.Google, rules.Graph, rules.Salesforce, rules.Jira,
		rules.Redmine, rules.Stripe, rules.AWS, rules.Prometheus, rules.Loki, rules.Alertmanager, rules.Kubernetes, rules.GraphQL,
		rules.Bulk(nil, "/items", "/status"), rules.Holding(nil, "", "/items")}
	f.Fuzz(func(t *testing.T, status int, kind, body string) {
		r := &provider.Response{Status: status, Header: http.Header{"Content-Type": {kind}, "X-Amzn-Errortype": {kind}}, Body: []byte(body)}
		for _, set := range all {
			v := provider.Classify(set, r)
			require.Equal(t, v.OK, v.Code == "")
			require.LessOrEqual(t, len(v.Text), 512)
			require.False(t, v.OK && provider.Refusal(status))
			require.False(t, v.OK && status/100 != 2 && status != 304)
			require.GreaterOrEqual(t, v.RetryAfter, time.Duration(0))
		}
		_, _ = rules.Batch(r, nil, "1")
	})
}
