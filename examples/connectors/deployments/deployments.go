// Package deployments is a connector for GitHub deployments: the rollouts of a
// service that began in a window of time.
//
//	c, err := deployments.New("github", &deployments.Options{
//		Repositories: map[string]string{"prod/order-service": "acme/orders"}})
//
// # Which repository
//
// A service is granted, and GitHub knows repositories. The operator says which
// belongs to which; without a word it is the one named after the service in the
// connection's organization. A repository that is not there, or not to be seen,
// is no proof that nothing was deployed: the answer has the gap
// deployment_mapping. The environment is the service's namespace.
//
// # Which window
//
// GitHub cannot be asked for a span of time. Pages are read as they come, newest
// first, and what began outside the window is left out, so a page may be empty
// and not the last. GitHub does not promise the order. So where a page goes past
// the start of the window and there are more, the cursor leads on, and the gap
// past_window_start says that nothing more is to be expected there.
//
// A grant that is limited to a window does not cover a request that names none:
// grant the repository, or the service, without one.
//
// # What it does not do
//
// It deploys nothing. It passes on no creator, payload or link, and follows no
// link to another host.
package deployments

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/internal/window"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// List is what list_recent_deployments takes.
type List struct {
	Namespace string    `json:"namespace" jsonschema:"namespace of the service"`
	Service   string    `json:"service" jsonschema:"name of the service"`
	Start     time.Time `json:"start" jsonschema:"start of the window in which rollouts began, RFC 3339 with a zone"`
	End       time.Time `json:"end" jsonschema:"end of the window, not included; at most 31 days after start"`
}

// Deployment is one rollout.
type Deployment struct {
	ID          int64      `json:"id"`
	Environment string     `json:"environment"`
	Ref         string     `json:"ref" jsonschema:"what was deployed, such as a tag"`
	SHA         string     `json:"sha"`
	Created     time.Time  `json:"created_at" jsonschema:"when it began"`
	State       string     `json:"state" jsonschema:"latest state; unknown if GitHub gives none"`
	Succeeded   *time.Time `json:"succeeded_at,omitempty" jsonschema:"when it was complete; missing if it was not, or nobody said so"`
}

// LongestWindow is the longest window of list_recent_deployments.
const LongestWindow = 31 * 24 * time.Hour

// Gaps of this connector.
const (
	DeploymentMapping = toolresult.Gap("deployment_mapping") // no repository is known to deploy the service
	DeploymentStatus  = toolresult.Gap("deployment_status")  // GitHub has no states for one of the rows
	PastWindowStart   = toolresult.Gap("past_window_start")  // more pages exist; they are older unless the order does not hold
)

// Options are options of [New]. Nil is the zero value.
type Options struct {
	// Repositories maps "namespace/service" to "owner/name". A service that is
	// not there has the repository of its name in the connection's organization.
	Repositories map[string]string
}

type mapping map[string]string

const listPath = "/repos/{owner}/{repo}/deployments"

// New returns the connector. endpoint names the operator's egress profile.
func New(endpoint string, opts *Options) (connector.Connector, error) {
	m := mapping{}
	if opts != nil {
		for service, repository := range opts.Repositories {
			m[service] = repository
		}
	}
	return connector.New(
		connector.Info{ID: "deployments", Version: "1.0.0", Owner: "delivery", ProviderAPIVersion: "2022-11-28", Endpoint: endpoint,
			Auth: connector.Auth{Mode: connector.AuthServiceAccount}, Rules: rules},
		connector.List(connector.ListSpec{
			Spec: connector.Spec{
				Name: "list_recent_deployments", Title: "Rollouts of a service",
				Description: "Lists rollouts of one service that began in a window of time, newest first. That one began before a fault does not make it the cause. With the gap past_window_start the next pages need not be read.",
				Sensitivity: risk.Internal,
				Routes: []connector.Route{
					{Pattern: "GET " + listPath, Effect: connector.Reads, Touches: []string{"repository:{owner}/{repo}"}, Params: []string{"environment", "per_page", "page"}, Headers: []string{"X-GitHub-Api-Version"}},
					{Pattern: "GET " + statusPath, Effect: connector.Reads, Touches: []string{"repository:{owner}/{repo}"}, Within: []string{"id"}, Params: []string{"per_page"}, Headers: []string{"X-GitHub-Api-Version"}},
				},
				Input:      json.RawMessage(`{"properties":{"namespace":{"minLength":1,"maxLength":63},"service":{"minLength":1,"maxLength":63}}}`),
				Limits:     connector.Limits{PageSize: 20, Requests: 21}, // a page, and the states of each of its rows
				RateLimits: []connector.RateLimit{{Per: "account", Requests: 5000, Window: time.Hour}},
			},
			More: provider.LinkNext(), MoreOn: "GET " + listPath,
		}, m.target, m.list))
}

// repository is where a service is deployed from; empty if nobody has said.
func (m mapping) repository(org string, in List) (owner, name string) {
	if mapped, ok := m[in.Namespace+"/"+in.Service]; ok {
		owner, name, _ = strings.Cut(mapped, "/")
		return owner, name
	}
	return org, in.Service
}

// target is the repository, which the service contains: that is the operator's
// word, and not an argument.
func (m mapping) target(_ context.Context, c *connector.TargetCall, in List) (authz.Target, error) {
	owner, name := m.repository(c.Connection().Org, in)
	if owner == "" || name == "" {
		return authz.Target{}, toolresult.NewError(toolresult.Unsupported, "nobody has said which repository deploys this service")
	}
	service := authz.ResourceID{Type: "service", ID: in.Namespace + "/" + in.Service}
	return authz.On(authz.Object{ResourceID: authz.ResourceID{Type: "repository", ID: owner + "/" + name}, Parents: []authz.ResourceID{service}}), nil
}

func (m mapping) list(ctx context.Context, c *connector.ReadCall, in List, page connector.PageRequest) (*connector.Page[Deployment], error) {
	w, err := window.Asked(in.Start, in.End, LongestWindow)
	if err != nil {
		return nil, err
	}
	owner, name := m.repository(c.Connection().Org, in)
	token, later := page.From.Token()
	if !later {
		token = "1"
	}
	var body []deployment
	meta, err := c.Do(ctx, &connector.HTTPRequest{Route: "GET " + listPath, Header: version(), Out: &body, Params: connector.Params{
		"owner": owner, "repo": name, "environment": in.Namespace, "per_page": strconv.Itoa(page.Size), "page": token}})
	if toolresult.Code(err) == toolresult.NotFound {
		none := connector.NewPage([]Deployment{}, cursor.End())
		none.Missing = []toolresult.Gap{DeploymentMapping}
		return none, nil
	}
	if err != nil {
		return nil, err
	}
	next, err := nextPage(meta.Next, c.Connection().BaseURL, token)
	if err != nil {
		return nil, err
	}
	out := connector.NewPage([]Deployment{}, next)
	out.Source = connector.Source{Object: "deployments of " + owner + "/" + name, Window: w}
	past := false
	for _, d := range body {
		past = past || d.Created.Before(w.Start)
		if d.Created.Before(w.Start) || !d.Created.Before(w.End) {
			continue
		}
		row, known, err := d.row(ctx, c, owner, name)
		if err != nil {
			return nil, err
		}
		if out.Items = append(out.Items, row); !known {
			out.Missing = []toolresult.Gap{DeploymentStatus}
		}
	}
	if past && !next.AtEnd() {
		out.Missing = append(out.Missing, PastWindowStart)
	}
	return out, nil
}

func version() http.Header {
	return http.Header{"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}}
}

// nextPage takes the number of the next page out of a link. The link itself is
// never followed: one to another host is refused, and so is one that does not
// lead on.
func nextPage(link, base, current string) (cursor.Position, error) {
	if link == "" {
		return cursor.End(), nil
	}
	here, err := url.Parse(base)
	if err == nil {
		here, err = here.Parse(link)
	}
	now, _ := strconv.Atoi(current)
	if err == nil && strings.HasPrefix(here.String(), base+"/") {
		if n, err := strconv.Atoi(here.Query().Get("page")); err == nil && n > now {
			return cursor.At(strconv.Itoa(n)), nil
		}
	}
	return cursor.Position{}, toolresult.NewError(toolresult.ProviderError, "the provider's link to the next page does not lead on here")
}
