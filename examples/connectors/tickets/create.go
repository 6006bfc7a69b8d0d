package tickets

import (
	"context"
	"regexp"
	"strconv"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Create is what create_incident_ticket takes.
type Create struct {
	Project     string `json:"project" jsonschema:"identifier of the project, such as inc"`
	Subject     string `json:"subject" jsonschema:"one line"`
	Description string `json:"description,omitempty" jsonschema:"what is known, and what is not"`
	Priority    string `json:"priority" jsonschema:"how urgent it is"`
}

var (
	createIssue = connector.Route{Pattern: "POST /issues.json", Effect: connector.Changes, Touches: []string{"project:{#/issue/project_id}"}}
	getProject  = connector.Route{Pattern: "GET /projects/{project}.json", Effect: connector.Reads, Touches: []string{"project:{project}"}}
)

// creator creates issues that can be found again by the operation's key.
type creator struct{ priorities map[string]int }

var _ connector.Writer[Create, Ticket] = (*creator)(nil)

// draft is the body of POST /issues.json.
type draft struct {
	Issue draftIssue `json:"issue"`
}

type draftIssue struct {
	Project     string  `json:"project_id"`
	Subject     string  `json:"subject"`
	Description string  `json:"description,omitempty"`
	Priority    int     `json:"priority_id"`
	Fields      []field `json:"custom_fields"`
}

type field struct {
	ID    int    `json:"id"`
	Value string `json:"value"`
}

// operationKey is the custom field that holds the key.
const operationKey = 1

// searchable is a key that Redmine looks for as it is: in a filter, a bar
// separates values and some signs at the front are operators.
var searchable = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)

// Send creates the issue, after it has seen that the project is there.
func (w *creator) Send(ctx context.Context, c *connector.WriteCall, in Create) (*connector.Receipt[Ticket], error) {
	key := c.Operation().Key
	if !searchable.MatchString(key) {
		return nil, toolresult.NewError(toolresult.InvalidInput, "the operation key holds signs that the ticket system could not be searched for")
	}
	if _, err := c.Reader().Get(ctx, "/projects/{project}.json", connector.Params{"project": in.Project}, nil); err != nil {
		return nil, err
	}
	var body struct{ Issue issue }
	_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /issues.json", Out: &body, Body: draft{draftIssue{
		Project: in.Project, Subject: in.Subject, Description: in.Description, Priority: w.priorities[in.Priority],
		Fields: []field{{operationKey, key}}}}})
	switch {
	case toolresult.Code(err) == toolresult.InvalidInput:
		return nil, toolresult.WrapError(toolresult.InvalidInput, "the ticket system does not take this ticket: a value that it does not know, a field that it needs, or a right that the account lacks", err)
	case err != nil:
		return nil, err
	case body.Issue.ID <= 0:
		return nil, toolresult.NewError(toolresult.ProviderError, "the receipt does not say which ticket it is for")
	}
	return connector.Applied(body.Issue.ticket(in.Project), strconv.Itoa(body.Issue.ID)), nil
}

// Reconcile searches the project for the key.
func (w *creator) Reconcile(ctx context.Context, c *connector.ReadCall, in Create, op operation.Operation) (*connector.Evidence[Ticket], error) {
	var body list
	_, err := c.Get(ctx, "/issues.json", connector.Params{"project_id": in.Project, "subproject_id": "!*", "cf_1": op.Key, "status_id": "*", "limit": "2"}, &body)
	switch {
	case err != nil:
		return nil, err
	case body.Total == 0 && len(body.Issues) == 0:
		return connector.DidNotHappen[Ticket](), nil
	case body.Total != 1 || len(body.Issues) != 1 || !body.Issues[0].marked(op.Key):
		return nil, nil // several, or a filter that was ignored: somebody has to look
	}
	x := body.Issues[0]
	e := connector.Happened(x.ticket(in.Project), strconv.Itoa(x.ID))
	e.Source = connector.Source{Object: "issue " + strconv.Itoa(x.ID)}
	return e, nil
}

func (i issue) marked(key string) bool {
	for _, f := range i.Fields {
		if f.ID == operationKey {
			return f.Value == key
		}
	}
	return false
}
