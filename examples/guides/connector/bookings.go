// Package bookings is the connector of the guide: it lists who has booked a
// meeting room, and books one.
package bookings

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Search is what list_bookings takes, and Book what book_room does.
type (
	Search struct {
		Room string `json:"room" jsonschema:"id of the room, such as r-12"`
	}
	Book struct {
		Room  string    `json:"room" jsonschema:"id of the room, such as r-12"`
		Title string    `json:"title" jsonschema:"one line"`
		Start time.Time `json:"start" jsonschema:"RFC 3339, UTC"`
		End   time.Time `json:"end" jsonschema:"RFC 3339, UTC, after start"`
	}
)

// Booking is what comes out. The provider's other fields do not.
type Booking struct {
	ID    int       `json:"id"`
	Room  string    `json:"room"`
	Title string    `json:"title"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

var (
	list = connector.Route{Pattern: "GET /bookings", Effect: connector.Reads, Touches: []string{"room:{?room}"}, Params: []string{"limit", "offset", "reference"}}
	book = connector.Route{Pattern: "POST /bookings", Effect: connector.Changes, Touches: []string{"room:{#/room}"}}
)

const room = `"room":{"pattern":"^r-[1-9][0-9]*$","maxLength":20}`

// New returns the connector. endpoint names the operator's egress profile.
func New(endpoint string) (connector.Connector, error) {
	return connector.New(
		connector.Info{ID: "bookings", Version: "1.0.0", Owner: "facilities", Endpoint: endpoint, Auth: connector.Auth{Mode: connector.AuthAPIKey}, Rules: rules},
		connector.List(connector.ListSpec{
			Spec: connector.Spec{Name: "list_bookings", Description: "Who has booked a room, oldest first.", Sensitivity: risk.Internal,
				Routes: []connector.Route{list}, Input: json.RawMessage(`{"properties":{` + room + `}}`)},
			More: provider.Total("/total", "/bookings"),
		}, connector.ByArgs(func(in Search) authz.ResourceID { return roomID(in.Room) }), search),
		connector.Write(connector.WriteSpec{
			Spec: connector.Spec{Name: "book_room", Description: "Books a room.", Sensitivity: risk.Internal,
				Routes: []connector.Route{book, list}, Limits: connector.Limits{Timeout: 15 * time.Second},
				Input: json.RawMessage(`{"properties":{` + room + `,"title":{"minLength":1,"maxLength":200,"pattern":"\\S"}}}`)},
			SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy, Settle: time.Minute,
			Idempotency: connector.Idempotency{Field: "/reference", Answer: "/bookings/0/reference"},
		}, connector.ByArgs(func(in Book) authz.ResourceID { return roomID(in.Room) }), connector.Reconcilable(send, reconcile)))
}

func roomID(id string) authz.ResourceID { return authz.ResourceID{Type: "room", ID: id} }

func search(ctx context.Context, c *connector.ReadCall, in Search, page connector.PageRequest) (*connector.Page[Booking], error) {
	offset, err := page.Offset()
	if err != nil {
		return nil, err
	}
	var body struct {
		Bookings []Booking
		Total    int
	}
	if _, err := c.Get(ctx, "/bookings", connector.Params{"room": in.Room, "limit": strconv.Itoa(page.Size), "offset": strconv.Itoa(offset)}, &body); err != nil {
		return nil, err
	}
	next, err := page.After(len(body.Bookings), body.Total)
	if err != nil {
		return nil, err
	}
	return connector.NewPage(body.Bookings, next), nil
}

func send(ctx context.Context, c *connector.WriteCall, in Book) (*connector.Receipt[Booking], error) {
	var made Booking
	_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /bookings", Out: &made, Body: map[string]any{
		"room": in.Room, "title": in.Title, "start": in.Start, "end": in.End, "reference": c.Operation().UUID()}})
	switch {
	case err != nil:
		return nil, err
	case made.ID <= 0:
		return nil, toolresult.NewError(toolresult.ProviderError, "the receipt does not say which booking it is for")
	}
	return connector.Applied(made, strconv.Itoa(made.ID)), nil
}

func reconcile(ctx context.Context, c *connector.ReadCall, in Book, op operation.Operation) (*connector.Evidence[Booking], error) {
	var body struct {
		Bookings []Booking
		Total    int
	}
	_, err := c.Get(ctx, "/bookings", connector.Params{"room": in.Room, "reference": op.UUID(), "limit": "2"}, &body)
	switch {
	case err != nil:
		return nil, err
	case body.Total == 0 && len(body.Bookings) == 0:
		return connector.DidNotHappen[Booking](), nil
	case body.Total != 1 || len(body.Bookings) != 1:
		return nil, nil // several, or a filter that was ignored: somebody has to look
	}
	return connector.Happened(body.Bookings[0], strconv.Itoa(body.Bookings[0].ID)), nil
}

// rules make a room that may not be seen one that is not there.
func rules(r *provider.Response) (provider.Ruling, bool) {
	return provider.Ruling{Code: toolresult.NotFound, Effect: toolresult.EffectNotApplied}, r.Status == 403
}
