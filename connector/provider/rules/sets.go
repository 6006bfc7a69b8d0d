package rules

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Sets returns all sets, for a page that shows what is known. The caller must
// not change their rules.
func Sets() []Set { return slices.Clone(sets) }

var sets = []Set{http1, gitHub, gitLab, gitea, slack, google, graph, salesforce, jira, redmine, stripe, aws, prometheus, loki,
	alertmanager, kubernetes, graphQL}

// HTTP is for an API about which nothing more is known: the status decides, a
// message is looked for where most put it, and a 2xx answer has to be the API's.
func HTTP(r *provider.Response) (provider.Ruling, bool) { return http1.judge(r) }

// GitHub is for the REST API of GitHub. Its limits are 403 or 429, and a
// secondary limit shows only in the message or in the address of its
// documentation.
func GitHub(r *provider.Response) (provider.Ruling, bool) { return gitHub.judge(r) }

// GitLab is for the REST API of GitLab.
func GitLab(r *provider.Response) (provider.Ruling, bool) { return gitLab.judge(r) }

// Gitea is for the REST API of Gitea and Forgejo.
func Gitea(r *provider.Response) (provider.Ruling, bool) { return gitea.judge(r) }

// Slack is for Slack's Web API, whose failures are 200. Only "ok":true is a
// success.
func Slack(r *provider.Response) (provider.Ruling, bool) { return slack.judge(r) }

// Google is for APIs of Google, Maps among them.
func Google(r *provider.Response) (provider.Ruling, bool) { return google.judge(r) }

// Graph is for Microsoft Graph. See [Batch] for $batch.
func Graph(r *provider.Response) (provider.Ruling, bool) { return graph.judge(r) }

// Salesforce is for the REST API of Salesforce, whose errors are an array.
func Salesforce(r *provider.Response) (provider.Ruling, bool) { return salesforce.judge(r) }

// Jira is for Jira and Confluence.
func Jira(r *provider.Response) (provider.Ruling, bool) { return jira.judge(r) }

// Redmine is for Redmine, which tells an object that may not be seen (403) from
// one that does not exist (404). The set says the same of both.
func Redmine(r *provider.Response) (provider.Ruling, bool) { return redmine.judge(r) }

// Stripe is for Stripe, and providers that took over its errors.
func Stripe(r *provider.Response) (provider.Ruling, bool) { return stripe.judge(r) }

// AWS is for AWS and what speaks like it, in JSON and in XML. Throttling is a 400.
func AWS(r *provider.Response) (provider.Ruling, bool) { return aws.judge(r) }

// Prometheus is for the query API of Prometheus, and goes by errorType: the texts
// differ between versions.
func Prometheus(r *provider.Response) (provider.Ruling, bool) { return prometheus.judge(r) }

// Loki is for the query API of Loki, whose errors are bare text.
func Loki(r *provider.Response) (provider.Ruling, bool) { return loki.judge(r) }

// Alertmanager is for the API of Alertmanager, whose errors have three forms.
func Alertmanager(r *provider.Response) (provider.Ruling, bool) { return alertmanager.judge(r) }

// Kubernetes is for the API of Kubernetes, and goes by the reason of a Status
// object, wherever it stands: the first event of a watch can be one, after 200.
func Kubernetes(r *provider.Response) (provider.Ruling, bool) { return kubernetes.judge(r) }

// GraphQL is for any GraphQL API over HTTP. An answer with errors is a failure
// even when it has data as well: a connector that can tell what is missing
// judges those itself, before it asks this set.
func GraphQL(r *provider.Response) (provider.Ruling, bool) { return graphQL.judge(r) }

var http1 = Set{Name: "HTTP", read: func(a *answer) {
	a.plain()
	for _, p := range []string{"/error/message", "/message", "/error_description", "/detail", "/title", "/error"} {
		if a.text == "" {
			a.text = a.at(p)
		}
	}
	a.code(a.at("/error/code"), a.at("/code"), a.at("/error"), a.at("/type"))
}}

const (
	gitHubLimits = "docs.github.com: rate limits for the REST API, best practices; hub4j/github-api#1805, hivecommons/hive#4674; 2026-11"
	gitHubDocs   = "docs.github.com: troubleshooting the REST API; 2026-11"
)

var gitHub = Set{Name: "GitHub", read: readGitHub, Rules: []Rule{
	{403, "", "secondary rate limit", toolresult.RateLimited, ByStatus, time.Minute, gitHubLimits},
	{403, "", "secondary-rate-limit", toolresult.RateLimited, ByStatus, time.Minute, gitHubLimits},
	{403, "", "abuse detection", toolresult.RateLimited, ByStatus, time.Minute, gitHubLimits},
	{403, "", "api rate limit exceeded", toolresult.RateLimited, ByStatus, time.Minute, gitHubLimits},
	{403, "", "#rate-limit", toolresult.RateLimited, ByStatus, time.Minute, gitHubLimits},
	{429, "", "", toolresult.RateLimited, ByStatus, time.Minute, gitHubLimits},
	{403, "", "saml", toolresult.ConnectionRequired, ByStatus, 0, "docs.github.com: SAML single sign-on authorization of tokens; from memory, 2026-11"},
	{404, "missing_scope", "", toolresult.NotFound, ByStatus, 0, gitHubDocs},
}}

func readGitHub(a *answer) {
	a.text, a.more = a.at("/message"), a.at("/documentation_url")
	for _, e := range a.list("/errors") {
		if m, ok := e.(map[string]any); ok {
			a.code(scalar(m["code"]))
		}
	}
	// A 404 hides what the token may not see. Scopes are a hint.
	if accepted := a.Header.Get("X-Accepted-Oauth-Scopes"); a.Status == http.StatusNotFound && accepted != "" && !overlap(accepted, a.Header.Get("X-Oauth-Scopes")) {
		a.codes = append([]string{"missing_scope"}, a.codes...)
		a.text += " (accepted scopes: " + accepted + ")"
	}
}

func overlap(a, b string) bool {
	words := func(r rune) bool { return r == ',' || r == ' ' }
	have := strings.FieldsFunc(b, words)
	return slices.ContainsFunc(strings.FieldsFunc(a, words), func(s string) bool { return slices.Contains(have, s) })
}

const gitLabDocs = "docs.gitlab.com: REST API status codes and scopes; from memory, 2026-11"

var gitLab = Set{Name: "GitLab", Rules: []Rule{
	{403, "insufficient_scope", "", toolresult.InsufficientScope, ByStatus, 0, gitLabDocs},
	{403, "", "rate limit", toolresult.RateLimited, ByStatus, 0, gitLabDocs},
	{401, "insufficient_scope", "", toolresult.InsufficientScope, ByStatus, 0, gitLabDocs},
}, read: func(a *answer) {
	a.plain()
	a.code(a.at("/error"))
	if m, ok := a.body.(map[string]any); ok && a.text == "" {
		if a.text = texts(m["message"]); a.text == "" {
			a.text = scalar(m["error_description"])
		}
	}
}}

const giteaSeen = "seen in Gitea 1.26.0; 2026-11-30"

var gitea = Set{Name: "Gitea", Rules: []Rule{
	{403, "", "required scope", toolresult.InsufficientScope, ByStatus, 0, giteaSeen},
	{403, "", "only signed in user", toolresult.ConnectionRequired, ByStatus, 0, giteaSeen},
}, read: func(a *answer) { a.text = a.at("/message") }}

const (
	slackDocs   = "docs.slack.dev: error codes of Web API methods; slackapi/python-slack-sdk#488; 2026-11"
	slackUnsure = "beginner-corp/slack#105, GregHilston/Simple-Slack-Bot#43; 2026-11"
)

var slack = Set{Name: "Slack", read: readSlack, Rules: []Rule{
	{0, "token_revoked", "", toolresult.ConnectionRequired, Refused, 0, slackDocs},
	{0, "invalid_auth", "", toolresult.ConnectionRequired, Refused, 0, slackDocs},
	{0, "not_authed", "", toolresult.ConnectionRequired, Refused, 0, slackDocs},
	{0, "account_inactive", "", toolresult.ConnectionRequired, Refused, 0, slackDocs},
	{0, "token_expired", "", toolresult.ConnectionRequired, Refused, 0, slackDocs},
	{0, "missing_scope", "", toolresult.InsufficientScope, Refused, 0, slackDocs},
	{0, "no_permission", "", toolresult.PermissionDenied, Refused, 0, slackDocs},
	{0, "not_in_channel", "", toolresult.PermissionDenied, Refused, 0, slackDocs},
	{0, "restricted_action", "", toolresult.PermissionDenied, Refused, 0, slackDocs},
	{0, "access_denied", "", toolresult.PermissionDenied, Refused, 0, slackDocs},
	{0, "org_login_required", "", toolresult.PermissionDenied, Refused, 0, slackDocs},
	{0, "ekm_access_denied", "", toolresult.PermissionDenied, Refused, 0, slackDocs},
	{0, "is_archived", "", toolresult.Conflict, Refused, 0, slackDocs},
	{0, "channel_not_found", "", toolresult.NotFound, Refused, 0, slackDocs},
	{0, "user_not_found", "", toolresult.NotFound, Refused, 0, slackDocs},
	{0, "users_not_found", "", toolresult.NotFound, Refused, 0, slackDocs},
	{0, "message_not_found", "", toolresult.NotFound, Refused, 0, slackDocs},
	{0, "thread_not_found", "", toolresult.NotFound, Refused, 0, slackDocs},
	{0, "file_not_found", "", toolresult.NotFound, Refused, 0, slackDocs},
	{0, "invalid_cursor", "", toolresult.CursorInvalid, Refused, 0, "slackapi/node-slack-sdk#1051; 2026-11"},
	{0, "invalid_arguments", "", toolresult.InvalidInput, Refused, 0, slackDocs},
	{0, "invalid_arg_name", "", toolresult.InvalidInput, Refused, 0, slackDocs},
	{0, "invalid_blocks", "", toolresult.InvalidInput, Refused, 0, slackDocs},
	{0, "no_text", "", toolresult.InvalidInput, Refused, 0, slackDocs},
	{0, "msg_too_long", "", toolresult.InvalidInput, Refused, 0, slackDocs},
	{0, "ratelimited", "", toolresult.RateLimited, Refused, 0, slackUnsure},
	{0, "rate_limited", "", toolresult.RateLimited, Refused, 0, slackUnsure},
	{0, "service_unavailable", "", toolresult.ProviderUnavailable, Unsure, 0, slackDocs},
	{0, "internal_error", "", toolresult.ProviderUnavailable, Unsure, 0, slackDocs},
	{0, "fatal_error", "", toolresult.ProviderError, Unsure, 0, slackDocs},
	{0, "request_timeout", "", toolresult.Timeout, Unsure, 0, slackDocs},
}}

func readSlack(a *answer) {
	m, _ := a.body.(map[string]any)
	a.failed = m["ok"] != true
	a.code(scalar(m["error"]))
	if needed := scalar(m["needed"]); needed != "" {
		a.text = "needed: " + needed + ", provided: " + scalar(m["provided"])
	}
}

const (
	googleDocs = "cloud.google.com/apis/design/errors, and the error pages of Workspace APIs; from memory, 2026-11"
	mapsDocs   = "googlemaps/google-maps-services-java#123; 2026-11"
)

var google = Set{Name: "Google", read: readGoogle, Rules: []Rule{
	{0, "rateLimitExceeded", "", toolresult.RateLimited, Refused, 0, googleDocs},
	{0, "userRateLimitExceeded", "", toolresult.RateLimited, Refused, 0, googleDocs},
	{0, "RATE_LIMIT_EXCEEDED", "", toolresult.RateLimited, Refused, 0, googleDocs},
	{0, "dailyLimitExceeded", "", toolresult.QuotaExceeded, Refused, 0, googleDocs},
	{0, "quotaExceeded", "", toolresult.QuotaExceeded, Refused, 0, googleDocs},
	{0, "storageQuotaExceeded", "", toolresult.QuotaExceeded, Refused, 0, googleDocs},
	{0, "ACCESS_TOKEN_SCOPE_INSUFFICIENT", "", toolresult.InsufficientScope, Refused, 0, googleDocs},
	{403, "insufficientPermissions", "insufficient authentication scopes", toolresult.InsufficientScope, Refused, 0, googleDocs},
	{403, "", "insufficient authentication scopes", toolresult.InsufficientScope, Refused, 0, googleDocs},
	{0, "authError", "", toolresult.ConnectionRequired, Refused, 0, googleDocs},
	{0, "UNAUTHENTICATED", "", toolresult.ConnectionRequired, Refused, 0, googleDocs},
	{0, "SERVICE_DISABLED", "", toolresult.Unsupported, Refused, 0, googleDocs},
	{0, "RESOURCE_EXHAUSTED", "", toolresult.RateLimited, Refused, 0, googleDocs},
	{0, "PERMISSION_DENIED", "", toolresult.PermissionDenied, Refused, 0, googleDocs},
	{0, "FAILED_PRECONDITION", "", toolresult.Conflict, Refused, 0, googleDocs},
	{0, "ABORTED", "", toolresult.Conflict, Unsure, 0, googleDocs},
	{0, "ALREADY_EXISTS", "", toolresult.Conflict, Refused, 0, googleDocs},
	{0, "DEADLINE_EXCEEDED", "", toolresult.Timeout, Unsure, 0, googleDocs},
	{0, "updatedMinTooLongAgo", "", toolresult.CursorInvalid, Refused, 0, googleDocs},
	{0, "fullSyncRequired", "", toolresult.CursorInvalid, Refused, 0, googleDocs},
	{200, "OVER_QUERY_LIMIT", "", toolresult.RateLimited, Refused, 0, mapsDocs},
	{200, "OVER_DAILY_LIMIT", "", toolresult.QuotaExceeded, Refused, 0, mapsDocs},
	{200, "REQUEST_DENIED", "", toolresult.PermissionDenied, Refused, 0, mapsDocs},
	{200, "INVALID_REQUEST", "", toolresult.InvalidInput, Refused, 0, mapsDocs},
	{200, "UNKNOWN_ERROR", "", toolresult.ProviderUnavailable, Unsure, 0, mapsDocs},
}}

func readGoogle(a *answer) {
	for _, d := range a.list("/error/details") {
		if m, ok := d.(map[string]any); ok {
			a.code(scalar(m["reason"]))
		}
	}
	for _, e := range a.list("/error/errors") {
		if m, ok := e.(map[string]any); ok {
			a.code(scalar(m["reason"]))
		}
	}
	a.code(a.at("/error/status"), a.at("/error/code"), a.at("/error"))
	if a.text = a.at("/error/message"); a.text == "" {
		a.text = a.at("/error_description")
	}
	if a.Status == http.StatusOK && len(a.codes) == 0 { // Maps
		switch s := a.at("/status"); s {
		case "OVER_QUERY_LIMIT", "OVER_DAILY_LIMIT", "REQUEST_DENIED", "INVALID_REQUEST", "UNKNOWN_ERROR":
			a.failed, a.text = true, a.at("/error_message")
			a.code(s)
		}
	}
}

const graphDocs = "learn.microsoft.com/graph/errors; 2026-11"

var graph = Set{Name: "Microsoft Graph", read: readGraph, Rules: []Rule{
	{0, "insufficient_claims", "", toolresult.ConnectionRequired, Refused, 0, graphDocs}, // a further sign-in, with what the challenge claims
	{401, "", "", toolresult.ConnectionRequired, Refused, 0, graphDocs},
	{0, "InvalidAuthenticationToken", "", toolresult.ConnectionRequired, Refused, 0, graphDocs},
	{0, "activityLimitReached", "", toolresult.RateLimited, Refused, 0, graphDocs},
	{0, "TooManyRequests", "", toolresult.RateLimited, Refused, 0, graphDocs},
	{0, "quotaLimitReached", "", toolresult.QuotaExceeded, Refused, 0, graphDocs},
	{507, "", "", toolresult.QuotaExceeded, Unsure, 0, graphDocs},
	{409, "Directory_ConcurrencyViolation", "", toolresult.ProviderUnavailable, Refused, 0, graphDocs},
	{0, "resyncRequired", "", toolresult.CursorInvalid, Refused, 0, graphDocs},
	{0, "syncStateNotFound", "", toolresult.CursorInvalid, Refused, 0, graphDocs},
	{0, "notSupported", "", toolresult.Unsupported, ByStatus, 0, graphDocs},
	{0, "malwareDetected", "", toolresult.PermissionDenied, ByStatus, 0, graphDocs},
}}

func readGraph(a *answer) {
	if challenged(a.Header, "error", "insufficient_claims") {
		a.code("insufficient_claims")
	}
	a.code(a.at("/error/code"), a.at("/error/innerError/code"), a.at("/error/innererror/code"))
	a.text = a.at("/error/message")
}

const (
	salesforceDocs = "developer.salesforce.com: api_rest errorcodes; 2026-11"
	salesforceRare = "jsforce/jsforce#1301, #736; 2026-11"
)

var salesforce = Set{Name: "Salesforce", read: readSalesforce, Rules: []Rule{
	{401, "INVALID_SESSION_ID", "not valid for use", toolresult.PermissionDenied, Refused, 0, salesforceRare},
	{0, "INVALID_SESSION_ID", "", toolresult.ConnectionRequired, Refused, 0, salesforceDocs},
	{403, "Bad_OAuth_Token", "", toolresult.ConnectionRequired, Refused, 0, salesforceRare},
	{0, "REQUEST_LIMIT_EXCEEDED", "", toolresult.QuotaExceeded, Refused, 0, salesforceDocs},
	{0, "SERVER_UNAVAILABLE", "", toolresult.ProviderUnavailable, ByStatus, 0, salesforceDocs},
	{0, "UNABLE_TO_LOCK_ROW", "", toolresult.Conflict, Refused, 0, salesforceDocs},
	{0, "DUPLICATE_VALUE", "", toolresult.Conflict, Refused, 0, salesforceDocs},
	{0, "DUPLICATES_DETECTED", "", toolresult.Conflict, Refused, 0, salesforceDocs},
	{0, "ENTITY_IS_DELETED", "", toolresult.NotFound, Refused, 0, salesforceDocs},
	{0, "INVALID_QUERY_LOCATOR", "", toolresult.CursorInvalid, Refused, 0, salesforceDocs},
	{0, "STORAGE_LIMIT_EXCEEDED", "", toolresult.QuotaExceeded, Refused, 0, salesforceDocs},
	{300, "", "", toolresult.Conflict, Refused, 0, salesforceDocs}, // an external id that several records have
}}

func readSalesforce(a *answer) {
	for _, e := range a.list("") {
		if m, ok := e.(map[string]any); ok {
			a.code(scalar(m["errorCode"]))
			if a.text == "" {
				a.text = scalar(m["message"])
			}
		}
	}
	a.code(a.at("/error"))
	if !a.parsed && strings.TrimSpace(string(a.Body[:min(len(a.Body), 64)])) == "Bad_OAuth_Token" {
		a.code("Bad_OAuth_Token")
	}
}

const jiraDocs = "developer.atlassian.com: Jira Cloud REST API; tenable/integration-jira-cloud#165, marc0l92/obsidian-jira-issue#42; 2026-11"

var jira = Set{Name: "Jira", Rules: []Rule{
	{0, "AUTHENTICATED_FAILED", "", toolresult.ConnectionRequired, Refused, 0, jiraDocs},
	{403, "", "scope does not match", toolresult.InsufficientScope, Refused, 0, jiraDocs},
	{401, "", "scope does not match", toolresult.InsufficientScope, Refused, 0, jiraDocs},
}, read: readJira}

// readJira also sees a header: with a wrong password Jira answers as it would
// to nobody, and says so there alone.
func readJira(a *answer) {
	if why := a.Header.Get("X-Seraph-Loginreason"); strings.Contains(why, "AUTHENTICATED_FAILED") || strings.Contains(why, "AUTHENTICATION_DENIED") {
		a.failed = true
		a.code("AUTHENTICATED_FAILED")
	}
	m, _ := a.body.(map[string]any)
	var said []string
	for _, v := range []any{m["errorMessages"], m["errors"], m["message"]} {
		if s := texts(v); s != "" {
			said = append(said, s)
		}
	}
	a.text = strings.Join(said, "; ")
}

const redmineSeen = "seen in Redmine 5.0.4; 2026-11-30"

var redmine = Set{Name: "Redmine", Rules: []Rule{
	{403, "", "", toolresult.NotFound, Refused, 0, redmineSeen},
	{404, "", "", toolresult.NotFound, Refused, 0, redmineSeen},
}, read: func(a *answer) {
	if m, ok := a.body.(map[string]any); ok && a.Status >= 400 {
		a.text = texts(m["errors"])
	}
}}

const stripeDocs = "docs.stripe.com: error-codes, error-low-level, api/idempotent_requests (v1); 2026-11"

var stripe = Set{Name: "Stripe", Rules: []Rule{
	{0, "idempotency_key_in_use", "", toolresult.ProviderUnavailable, Unsure, 0, stripeDocs}, // about the request before, which may still be applied
	{0, "idempotency_error", "", toolresult.Conflict, Unsure, 0, stripeDocs},                 // that key was used with another body
	{0, "lock_timeout", "", toolresult.Conflict, Unsure, 0, stripeDocs},
	{0, "rate_limit", "", toolresult.RateLimited, Refused, 0, stripeDocs},
	{0, "rate_limit_error", "", toolresult.RateLimited, Refused, 0, stripeDocs},
	{402, "", "", toolresult.Conflict, Unsure, 0, stripeDocs}, // the card was declined: an attempt may be on record
	{0, "resource_missing", "", toolresult.NotFound, ByStatus, 0, stripeDocs},
	{500, "replayed", "", toolresult.ProviderError, Unsure, 0, "keygen-sh/keygen-api#305; 2026-11"}, // the stored answer: more of the same key brings no other
}, read: func(a *answer) {
	a.code(a.at("/error/code"), a.at("/error/type"))
	a.text = a.at("/error/message")
	if strings.EqualFold(a.Header.Get("Idempotent-Replayed"), "true") {
		a.code("replayed")
	}
}}

const awsSource = "aws/aws-sdk-go#3108, #3119, aws/aws-sdk-ruby#1522; 2026-11"

var aws = Set{Name: "AWS", read: readAWS, Rules: append(awsRules(toolresult.RateLimited, "Throttling", "ThrottlingException", "ThrottledException",
	"RequestThrottledException", "RequestThrottled", "TooManyRequestsException", "ProvisionedThroughputExceededException", "RequestLimitExceeded", "SlowDown",
	"PriorRequestNotComplete", "BandwidthLimitExceeded", "TransactionInProgressException", "EC2ThrottledException"),
	slices.Concat(
		awsRules(toolresult.ConnectionRequired, "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch", "MissingAuthenticationToken"),
		awsRules(toolresult.PermissionDenied, "AccessDenied", "AccessDeniedException", "UnauthorizedOperation"),
		awsRules(toolresult.NotFound, "ResourceNotFoundException", "NoSuchKey", "NoSuchBucket"),
		awsRules(toolresult.Conflict, "ConditionalCheckFailedException", "ConflictException", "ResourceInUseException", "OperationAborted"),
		awsRules(toolresult.QuotaExceeded, "LimitExceededException", "ServiceQuotaExceededException"),
		awsRules(toolresult.InvalidInput, "ValidationException", "ValidationError", "InvalidParameterValue"))...)}

func awsRules(is toolresult.ErrorCode, codes ...string) []Rule {
	out := make([]Rule, len(codes))
	for i, c := range codes {
		out[i] = Rule{Code: c, Is: is, Effect: Refused, Source: awsSource}
	}
	return out
}

func readAWS(a *answer) {
	for _, c := range []string{a.Header.Get("X-Amzn-Errortype"), a.at("/__type"), a.at("/code"), a.at("/Code")} {
		a.code(shape(c))
	}
	if a.text = a.at("/message"); a.text == "" {
		a.text = a.at("/Message")
	}
	if !a.parsed && len(a.Body) > 0 && len(a.Body) < 64<<10 && a.Status >= 300 {
		var x struct {
			Code    string
			Message string
			Error   struct{ Code, Message string }
			Errors  struct {
				Error struct{ Code, Message string }
			}
		}
		if xml.Unmarshal(a.Body, &x) == nil {
			a.code(x.Code, x.Error.Code, x.Errors.Error.Code)
			a.text = x.Message + x.Error.Message + x.Errors.Error.Message
		}
	}
}

// shape is the name of an error without its namespace before # and the address
// behind a colon.
func shape(s string) string {
	if i := strings.LastIndexByte(s, '#'); i >= 0 {
		s = s[i+1:]
	}
	s, _, _ = strings.Cut(s, ":")
	return strings.TrimSpace(s)
}

const prometheusSeen = "seen in Prometheus 2.42 and 3.16; 2026-11-30"

var prometheus = Set{Name: "Prometheus", Rules: []Rule{
	{0, "bad_data", "", toolresult.InvalidInput, ByStatus, 0, prometheusSeen},
	{0, "execution", "too many samples", toolresult.ResultTooLarge, ByStatus, 0, prometheusSeen},
	{0, "execution", "", toolresult.InvalidInput, ByStatus, 0, prometheusSeen},
	{0, "timeout", "", toolresult.Timeout, ByStatus, 0, prometheusSeen},
	{0, "unavailable", "disabled", toolresult.Unsupported, Refused, 0, prometheusSeen},
	{0, "unavailable", "", toolresult.ProviderUnavailable, ByStatus, 0, prometheusSeen},
	{0, "canceled", "", toolresult.ProviderUnavailable, ByStatus, 0, "prometheus.io: HTTP API; from memory, 2026-11"},
	{0, "not_found", "", toolresult.NotFound, ByStatus, 0, "prometheus.io: HTTP API; from memory, 2026-11"},
}, read: func(a *answer) {
	a.plain()
	a.failed = a.at("/status") == "error"
	a.code(a.at("/errorType"))
	if s := a.at("/error"); s != "" {
		a.text = s
	}
}}

const lokiSeen = "seen in Loki 1.6.1; 2026-11-30"

var loki = Set{Name: "Loki", Rules: []Rule{
	{400, "", "no org id", toolresult.ConnectionRequired, Refused, 0, "grafana.com/docs/loki: HTTP API (3.x); 2026-11"},
	{401, "", "", toolresult.ConnectionRequired, Refused, 0, lokiSeen},
	{413, "", "", toolresult.ResultTooLarge, Refused, 0, "grafana.com/docs/loki: HTTP API (3.x); 2026-11"},
	{499, "", "", toolresult.Cancelled, Unsure, 0, "grafana.com/docs/loki: HTTP API (3.x); 2026-11"},
	{504, "", "", toolresult.Timeout, Unsure, 0, "grafana.com/docs/loki: HTTP API (3.x); 2026-11"},
}, read: func(a *answer) {
	a.plain()
	a.failed = a.at("/status") == "error"
	if s := a.at("/error"); s != "" {
		a.text = s
	}
}}

const alertmanagerSeen = "seen in Alertmanager 0.25.0; 2026-11-30"

var alertmanager = Set{Name: "Alertmanager", Rules: []Rule{
	{422, "", "", toolresult.InvalidInput, Refused, 0, alertmanagerSeen},
	{400, "", "", toolresult.InvalidInput, Refused, 0, alertmanagerSeen},
}, read: func(a *answer) {
	a.plain()
	if s, ok := a.body.(string); ok {
		a.text = s
	} else if a.Status >= 300 {
		a.text = a.at("/message")
		a.code(a.at("/code"))
	}
}}

const kubernetesSeen = "seen in Kubernetes 1.37.2, and apimachinery meta/v1 StatusReason; 2026-11-30"

var kubernetes = Set{Name: "Kubernetes", read: readKubernetes, Rules: []Rule{
	{0, "Expired", "", toolresult.CursorInvalid, Refused, 0, kubernetesSeen},
	{0, "Gone", "", toolresult.CursorInvalid, Refused, 0, kubernetesSeen},
	{400, "", "continue", toolresult.CursorInvalid, Refused, 0, kubernetesSeen},
	{0, "Unauthorized", "", toolresult.ConnectionRequired, Refused, 0, kubernetesSeen},
	{403, "", "system:anonymous", toolresult.ConnectionRequired, Refused, 0, kubernetesSeen},
	{0, "Forbidden", "", toolresult.PermissionDenied, Refused, 0, kubernetesSeen},
	{0, "NotFound", "", toolresult.NotFound, Refused, 0, kubernetesSeen},
	{0, "AlreadyExists", "", toolresult.Conflict, Refused, 0, kubernetesSeen},
	{0, "Conflict", "", toolresult.Conflict, Refused, 0, kubernetesSeen},
	{0, "Invalid", "", toolresult.InvalidInput, Refused, 0, kubernetesSeen},
	{0, "BadRequest", "", toolresult.InvalidInput, Refused, 0, kubernetesSeen},
	{0, "MethodNotAllowed", "", toolresult.Unsupported, Refused, 0, kubernetesSeen},
	{0, "NotAcceptable", "", toolresult.Unsupported, Refused, 0, kubernetesSeen},
	{0, "UnsupportedMediaType", "", toolresult.Unsupported, Refused, 0, kubernetesSeen},
	{0, "RequestEntityTooLarge", "", toolresult.InvalidInput, Refused, 0, kubernetesSeen},
	{0, "TooManyRequests", "", toolresult.RateLimited, Refused, 0, kubernetesSeen},
	{0, "ServiceUnavailable", "", toolresult.ProviderUnavailable, Unsure, 0, kubernetesSeen},
	{0, "Timeout", "", toolresult.Timeout, Unsure, 0, kubernetesSeen},
	{0, "ServerTimeout", "", toolresult.Timeout, Unsure, 0, kubernetesSeen},
	{0, "InternalError", "", toolresult.ProviderError, Unsure, 0, kubernetesSeen},
}}

func readKubernetes(a *answer) {
	a.plain()
	if lines := strings.Split(strings.TrimSpace(string(a.Body)), "\n"); !a.parsed && len(lines) > 1 { // a watch: the last event tells
		if last, err := strictjson.Parse([]byte(lines[len(lines)-1])); err == nil {
			a.body = last
		}
	}
	at := ""
	if a.at("/type") == "ERROR" {
		at = "/object"
	}
	if a.at(at+"/kind") != "Status" {
		return
	}
	a.failed = a.at(at+"/status") == "Failure"
	a.code(a.at(at + "/reason"))
	a.text = a.at(at + "/message")
	a.wait = seconds(a.at(at + "/details/retryAfterSeconds"))
}

const (
	graphQLSpec = "GraphQL over HTTP; github/docs#22607; 2026-11"
	apollo      = "apollographql.com: error codes of Apollo Server; from memory, 2026-11"
)

var graphQL = Set{Name: "GraphQL", read: readGraphQL, Rules: []Rule{
	{0, "RATE_LIMITED", "", toolresult.RateLimited, ByStatus, 0, graphQLSpec},
	{0, "RATELIMITED", "", toolresult.RateLimited, ByStatus, 0, graphQLSpec},
	{0, "THROTTLED", "", toolresult.RateLimited, ByStatus, 0, graphQLSpec},
	{0, "MAX_COST_EXCEEDED", "", toolresult.ResultTooLarge, ByStatus, 0, graphQLSpec},
	{0, "", "secondary rate limit", toolresult.RateLimited, ByStatus, time.Minute, "machinebox/graphql#72; 2026-11"},
	{0, "NOT_FOUND", "", toolresult.NotFound, ByStatus, 0, graphQLSpec},
	{0, "INSUFFICIENT_SCOPES", "", toolresult.InsufficientScope, ByStatus, 0, graphQLSpec},
	{0, "FORBIDDEN", "", toolresult.PermissionDenied, ByStatus, 0, apollo},
	{0, "UNAUTHENTICATED", "", toolresult.ConnectionRequired, ByStatus, 0, apollo},
	{0, "UNPROCESSABLE", "", toolresult.InvalidInput, ByStatus, 0, graphQLSpec},
	{0, "GRAPHQL_PARSE_FAILED", "", toolresult.InvalidInput, Refused, 0, apollo},
	{0, "GRAPHQL_VALIDATION_FAILED", "", toolresult.InvalidInput, Refused, 0, apollo},
	{0, "BAD_USER_INPUT", "", toolresult.InvalidInput, ByStatus, 0, apollo},
	{0, "INTERNAL_SERVER_ERROR", "", toolresult.ProviderUnavailable, Unsure, 0, apollo},
}}

// readGraphQL also refuses a 2xx answer that is no GraphQL at all: one without
// data would be read as an empty page.
func readGraphQL(a *answer) {
	m, _ := a.body.(map[string]any)
	errs, _ := m["errors"].([]any)
	for _, e := range errs {
		x, _ := e.(map[string]any)
		a.code(scalar(x["type"]))
		if ext, ok := x["extensions"].(map[string]any); ok {
			a.code(scalar(ext["code"]))
		}
		if a.text == "" {
			a.text = scalar(x["message"])
		}
	}
	if a.text == "" {
		a.text = scalar(m["message"])
	}
	data, _ := m["data"].(map[string]any)
	a.failed = m["errors"] != nil && !empty(m["errors"]) || data == nil
}

func empty(v any) bool {
	list, ok := v.([]any)
	return ok && len(list) == 0
}
