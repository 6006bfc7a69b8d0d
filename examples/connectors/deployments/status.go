package deployments

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const statusPath = "/repos/{owner}/{repo}/deployments/{id}/statuses"

// deployment is GitHub's.
type deployment struct {
	ID                    int64
	SHA, Ref, Environment string
	Created               time.Time `json:"created_at"`
}

// row adds the states of a rollout, and reports whether GitHub knows any. A
// rollout can vanish between two requests.
func (d deployment) row(ctx context.Context, c *connector.ReadCall, owner, repo string) (out Deployment, known bool, err error) {
	var states []struct {
		State   string
		Created time.Time `json:"created_at"`
	}
	_, err = c.Do(ctx, &connector.HTTPRequest{Route: "GET " + statusPath, Header: version(), Out: &states,
		Params: connector.Params{"owner": owner, "repo": repo, "id": strconv.FormatInt(d.ID, 10), "per_page": "100"}})
	if err != nil && toolresult.Code(err) != toolresult.NotFound {
		return out, false, err
	}
	out = Deployment{ID: d.ID, Environment: d.Environment, Ref: d.Ref, SHA: d.SHA, Created: d.Created, State: "unknown"}
	var latest time.Time
	for _, s := range states {
		if s.Created.After(latest) {
			latest, out.State = s.Created, s.State
		}
		if s.State == "success" && (out.Succeeded == nil || s.Created.Before(*out.Succeeded)) {
			out.Succeeded = &s.Created
		}
	}
	return out, len(states) > 0, nil
}

// rules tell a limit from a missing right: both are 403, and a secondary limit
// shows only in the address of its documentation.
func rules(r *provider.Response) (provider.Ruling, bool) {
	v := provider.Classify(nil, r)
	if v.OK {
		return v, false
	}
	v.RequestID = r.Header.Get("X-Github-Request-Id")
	var body struct {
		Message string
		Docs    string `json:"documentation_url"`
	}
	_ = json.Unmarshal(r.Body, &body) // a body that is none leaves both empty
	v.Text = body.Message
	if r.Status == http.StatusForbidden && strings.Contains(body.Docs, "rate-limit") {
		v.Code = toolresult.RateLimited
	}
	return v, true
}
