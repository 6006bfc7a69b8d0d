// Package client is the connector of the guide: bookings by way of the vendor's
// own client.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/client/vendor"
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

// Booking is what comes out: a type of ours, so that a new field of the vendor's
// does not get to a model unseen.
type Booking struct {
	ID    int       `json:"id"`
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

// rooms is the vendor's client on the HTTP client of a call, without its retries.
func rooms(c *connector.ReadCall) *vendor.Client {
	return &vendor.Client{Base: c.Connection().BaseURL, HTTP: c.HTTPClient(), Tries: 1}
}

func search(ctx context.Context, c *connector.ReadCall, in Search, page connector.PageRequest) (*connector.Page[Booking], error) {
	offset, err := page.Offset()
	if err != nil {
		return nil, err
	}
	got, err := rooms(c).Bookings(ctx, in.Room, "", page.Size, offset)
	if err != nil {
		return nil, failed(ctx, err)
	}
	next, err := page.After(len(got.Bookings), got.Total)
	if err != nil {
		return nil, err
	}
	out := connector.NewPage(make([]Booking, len(got.Bookings)), next)
	for i, b := range got.Bookings {
		out.Items[i] = ours(b)
	}
	return out, nil
}

func ours(b vendor.Booking) Booking {
	return Booking{ID: b.ID, Title: b.Title, Start: b.Start, End: b.End}
}

func send(ctx context.Context, c *connector.WriteCall, in Book) (*connector.Receipt[Booking], error) {
	hub := &vendor.Client{Base: c.Reader().Connection().BaseURL, HTTP: c.HTTPClient(), Tries: 1}
	made, err := hub.Book(ctx, vendor.Booking{Room: in.Room, Title: in.Title, Start: in.Start, End: in.End, Reference: c.Operation().UUID()})
	switch {
	case err != nil:
		return nil, failed(ctx, err)
	case made.ID <= 0:
		return nil, toolresult.NewError(toolresult.ProviderError, "the receipt does not say which booking it is for")
	}
	return connector.Applied(ours(*made), strconv.Itoa(made.ID)), nil
}

func reconcile(ctx context.Context, c *connector.ReadCall, in Book, op operation.Operation) (*connector.Evidence[Booking], error) {
	got, err := rooms(c).Bookings(ctx, in.Room, op.UUID(), 2, 0)
	switch {
	case err != nil:
		return nil, failed(ctx, err)
	case got.Total == 0 && len(got.Bookings) == 0:
		return connector.DidNotHappen[Booking](), nil
	case got.Total != 1 || len(got.Bookings) != 1 || got.Bookings[0].Reference != op.UUID():
		return nil, nil // several, or a filter that was ignored: somebody has to look
	}
	return connector.Happened(ours(got.Bookings[0]), strconv.Itoa(got.Bookings[0].ID)), nil
}

// failed says what an error of the vendor's client is. What happened on the wire
// the call's own client saw, and a refusal is for the rules. What is left is an
// answer that the vendor's client could not make sense of.
func failed(ctx context.Context, err error) error {
	var refused *vendor.Error
	var wire *url.Error
	var known *toolresult.Error
	if errors.As(err, &refused) && refused.Status >= 400 || errors.As(err, &wire) || errors.As(err, &known) || errors.Is(err, io.ErrUnexpectedEOF) || ctx.Err() != nil {
		return err
	}
	return toolresult.WrapError(toolresult.ProviderError, "the answer of the rooms cannot be read", err)
}

// rules make a room that may not be seen one that is not there.
func rules(r *provider.Response) (provider.Ruling, bool) {
	return provider.Ruling{Code: toolresult.NotFound, Effect: toolresult.EffectNotApplied}, r.Status == 403
}
