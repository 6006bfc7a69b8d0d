// Package issues is a connector for the issues of GitHub that uses the vendor's
// Go client, google/go-github, and nothing of the SDK to speak HTTP.
//
//	c, err := issues.New("github")
//
// The client is made for each call, out of the HTTP client of the call: so every
// request of the library is held to the routes that are declared here, to the
// grant of the caller, and bears the caller's credential. A vendor's client that
// takes no *http.Client cannot be governed.
//
// # Creating
//
// GitHub knows no idempotency key. The operation's id goes along as the first
// label of the issue, and when the receipt is lost, issues with that label are
// looked for.
//
// # What it does not do
//
// It retries nothing, sleeps through no rate limit (the library is told not to),
// and closes and comments nothing. An account that may not make labels cannot
// create issues with it.
package issues

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/google/go-github/v75/github"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Repo names a repository.
type Repo struct {
	Owner string `json:"owner" jsonschema:"user or organization"`
	Name  string `json:"repo" jsonschema:"name of the repository"`
}

// Get is what get_issue takes, List what list_issues does, and Create what
// create_issue does.
type (
	Get struct {
		Repo
		Number int `json:"number" jsonschema:"number of the issue"`
	}
	List struct {
		Repo
		State string `json:"state" jsonschema:"which issues"`
	}
	Create struct {
		Repo
		Title string `json:"title" jsonschema:"one line"`
		Text  string `json:"text,omitempty" jsonschema:"what is wrong"`
	}
)

// Issue is what comes out of an issue.
type Issue struct {
	Number  int       `json:"number"`
	Title   string    `json:"title"`
	State   string    `json:"state"`
	Created time.Time `json:"created_at"`
}

const names = `"owner":{"pattern":"^[A-Za-z0-9][A-Za-z0-9-]*$","maxLength":39},"repo":{"pattern":"^[A-Za-z0-9_-][A-Za-z0-9._-]*$","maxLength":100}`

// New returns the connector. endpoint names the operator's egress profile.
func New(endpoint string) (connector.Connector, error) {
	version := []string{"X-Github-Api-Version"} // the library sends it
	one := connector.Route{Pattern: "GET /repos/{owner}/{repo}/issues/{number}", Effect: connector.Reads, Touches: []string{"repository:{owner}/{repo}"}, Within: []string{"number"}, Headers: version}
	all := connector.Route{Pattern: "GET /repos/{owner}/{repo}/issues", Effect: connector.Reads, Touches: []string{"repository:{owner}/{repo}"},
		Params: []string{"state", "labels", "page", "per_page"}, Headers: version}
	post := connector.Route{Pattern: "POST /repos/{owner}/{repo}/issues", Effect: connector.Changes, Touches: []string{"repository:{owner}/{repo}"}, Headers: version}
	return connector.New(
		connector.Info{ID: "github-issues", Version: "1.0.0", Owner: "delivery", ProviderAPIVersion: "2022-11-28", Endpoint: endpoint,
			Auth: connector.Auth{Mode: connector.AuthServiceAccount}, Rules: rules},
		connector.Read(connector.Spec{Name: "get_issue", Title: "One issue", Description: "Reads one issue by its number.", Sensitivity: risk.Internal,
			Routes: []connector.Route{one}, Input: json.RawMessage(`{"properties":{` + names + `,"number":{"minimum":1,"maximum":2147483647}}}`)},
			connector.ByArgs(func(in Get) authz.ResourceID { return in.id() }), get),
		connector.List(connector.ListSpec{
			Spec: connector.Spec{Name: "list_issues", Title: "Issues of a repository", Description: "Lists issues of one repository, newest first.", Sensitivity: risk.Internal,
				Routes: []connector.Route{all}, Limits: connector.Limits{PageSize: 50},
				Input: json.RawMessage(`{"properties":{` + names + `,"state":{"enum":["open","closed","all"],"default":"open"}}}`)},
			More: provider.LinkNext(),
		}, connector.ByArgs(func(in List) authz.ResourceID { return in.id() }), list),
		connector.Write(connector.WriteSpec{
			Spec: connector.Spec{Name: "create_issue", Title: "Create an issue", Description: "Creates one issue in a repository.", Sensitivity: risk.Internal,
				Routes: []connector.Route{post, all}, Limits: connector.Limits{Timeout: 15 * time.Second},
				Input: json.RawMessage(`{"properties":{` + names + `,"title":{"minLength":1,"maxLength":256,"pattern":"\\S"},"text":{"maxLength":20000}}}`)},
			SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy, Settle: 2 * time.Minute,
			Idempotency: connector.Idempotency{Field: "/labels/0", Answer: "/0/labels/0/name"},
		}, connector.ByArgs(func(in Create) authz.ResourceID { return in.id() }), connector.Reconcilable(create, find)))
}

func (r Repo) id() authz.ResourceID {
	return authz.ResourceID{Type: "repository", ID: r.Owner + "/" + r.Name}
}

// client is the vendor's client on the HTTP client of a call.
func client(c *connector.ReadCall) (*github.Client, error) {
	base, err := url.Parse(c.Connection().BaseURL + "/")
	if err != nil {
		return nil, err
	}
	out := github.NewClient(c.HTTPClient())
	out.BaseURL, out.DisableRateLimitCheck = base, true
	return out, nil
}

func issue(i *github.Issue) Issue {
	return Issue{Number: i.GetNumber(), Title: i.GetTitle(), State: i.GetState(), Created: i.GetCreatedAt().UTC()}
}

func get(ctx context.Context, c *connector.ReadCall, in Get) (*connector.Answer[Issue], error) {
	hub, err := client(c)
	if err != nil {
		return nil, err
	}
	got, resp, err := hub.Issues.Get(ctx, in.Owner, in.Name, in.Number)
	switch {
	case err != nil:
		return nil, failed(ctx, resp, err)
	case got.GetNumber() != in.Number:
		return nil, toolresult.NewError(toolresult.ProviderError, "GitHub gave another issue than was asked for")
	}
	a := connector.Found(issue(got))
	a.Source = connector.Source{Object: "issue " + strconv.Itoa(in.Number) + " of " + in.id().ID, Version: got.GetUpdatedAt().UTC().Format(time.RFC3339)}
	return a, nil
}

func list(ctx context.Context, c *connector.ReadCall, in List, page connector.PageRequest) (*connector.Page[Issue], error) {
	number := 1
	if token, later := page.From.Token(); later {
		n, err := strconv.Atoi(token)
		if err != nil || n < 2 {
			return nil, toolresult.NewError(toolresult.CursorInvalid, "start the listing again")
		}
		number = n
	}
	hub, err := client(c)
	if err != nil {
		return nil, err
	}
	got, resp, err := hub.Issues.ListByRepo(ctx, in.Owner, in.Name, &github.IssueListByRepoOptions{State: in.State, ListOptions: github.ListOptions{Page: number, PerPage: page.Size}})
	switch {
	case err != nil:
		return nil, failed(ctx, resp, err)
	case got == nil: // the library takes an empty body for an answer
		return nil, toolresult.NewError(toolresult.ProviderError, "GitHub's answer holds no list")
	}
	next := cursor.End()
	if resp.NextPage > number {
		next = cursor.At(strconv.Itoa(resp.NextPage))
	}
	out := connector.NewPage(make([]Issue, len(got)), next)
	for i, x := range got {
		if x.GetNumber() == 0 {
			return nil, toolresult.NewError(toolresult.ProviderError, "GitHub gave an issue without a number")
		}
		out.Items[i] = issue(x)
	}
	out.Source = connector.Source{Object: "issues of " + in.id().ID}
	return out, nil
}

// failed says what an error of the library's is. Those of HTTP are left to the
// rules; what is left is an answer that it could not read, or a status that it
// does not know.
func failed(ctx context.Context, resp *github.Response, err error) error {
	var known *toolresult.Error
	if resp == nil || resp.StatusCode >= 400 || ctx.Err() != nil || errors.As(err, &known) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return toolresult.WrapError(toolresult.ProviderError, "GitHub's answer cannot be read", err)
}

// create makes the issue. The library posts once, and follows nothing.
func create(ctx context.Context, c *connector.WriteCall, in Create) (*connector.Receipt[Issue], error) {
	base, err := url.Parse(c.Reader().Connection().BaseURL + "/")
	if err != nil {
		return nil, err
	}
	hub := github.NewClient(c.HTTPClient())
	hub.BaseURL, hub.DisableRateLimitCheck = base, true
	draft := &github.IssueRequest{Title: &in.Title, Labels: &[]string{c.Operation().UUID()}}
	if in.Text != "" {
		draft.Body = &in.Text
	}
	made, resp, err := hub.Issues.Create(ctx, in.Owner, in.Name, draft)
	switch {
	case err != nil:
		return nil, failed(ctx, resp, err)
	case made.GetNumber() <= 0:
		return nil, toolresult.NewError(toolresult.ProviderError, "the receipt does not say which issue it is for")
	}
	return connector.Applied(issue(made), strconv.Itoa(made.GetNumber())), nil
}

// find looks for the issue that an operation made.
func find(ctx context.Context, c *connector.ReadCall, in Create, op operation.Operation) (*connector.Evidence[Issue], error) {
	hub, err := client(c)
	if err != nil {
		return nil, err
	}
	got, resp, err := hub.Issues.ListByRepo(ctx, in.Owner, in.Name, &github.IssueListByRepoOptions{State: "all", Labels: []string{op.UUID()}, ListOptions: github.ListOptions{PerPage: 2}})
	switch {
	case err != nil:
		return nil, failed(ctx, resp, err)
	case got == nil:
		return nil, nil // an empty body, which the library takes for an answer
	case len(got) == 0:
		return connector.DidNotHappen[Issue](), nil
	case len(got) > 1 || len(got[0].Labels) == 0 || got[0].Labels[0].GetName() != op.UUID():
		return nil, nil // a filter that was ignored: somebody has to look
	}
	return connector.Happened(issue(got[0]), strconv.Itoa(got[0].GetNumber())), nil
}

// rules say that what may not be seen is not there. A limit that is used up is 403 here, with a header that says so.
func rules(r *provider.Response) (provider.Ruling, bool) {
	if r.Status == 403 && r.Header.Get("X-Ratelimit-Remaining") != "0" && r.Header.Get("Retry-After") == "" {
		return provider.Ruling{Code: toolresult.NotFound, Effect: toolresult.EffectNotApplied}, true
	}
	return provider.Ruling{}, false
}
