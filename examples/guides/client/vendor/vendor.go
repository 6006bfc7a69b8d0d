// Package vendor is a client of the rooms as vendors write them: typed methods, an
// error type of its own, an HTTP client that may be given, and more attempts when
// something fails.
package vendor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Booking is one booking.
type Booking struct {
	ID        int       `json:"id,omitempty"`
	Room      string    `json:"room"`
	Title     string    `json:"title"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Reference string    `json:"reference,omitempty"`
}

// Page is a page of bookings.
type Page struct {
	Bookings []Booking `json:"bookings"`
	Total    int       `json:"total"`
}

// Error is a refusal.
type Error struct{ Status int }

func (e *Error) Error() string { return fmt.Sprintf("rooms: status %d", e.Status) }

// Client is the client. HTTP may be replaced.
type Client struct {
	Base  string
	HTTP  *http.Client
	Tries int // how often a request is sent that fails; 0: 3
}

// Bookings returns a page of the bookings of a room. An empty reference: all.
func (c *Client) Bookings(ctx context.Context, room, reference string, limit, offset int) (*Page, error) {
	q := url.Values{"room": {room}, "limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)}}
	if reference != "" {
		q.Set("reference", reference)
	}
	var out Page
	return &out, c.do(ctx, http.MethodGet, "/bookings?"+q.Encode(), nil, &out)
}

// Book books a room.
func (c *Client) Book(ctx context.Context, b Booking) (*Booking, error) {
	var out Booking
	return &out, c.do(ctx, http.MethodPost, "/bookings", b, &out)
}

func (c *Client) do(ctx context.Context, method, path string, body, out any) (err error) {
	for range cmp.Or(c.Tries, 3) { // it means well
		if err = c.once(ctx, method, path, body, out); err == nil {
			return nil
		}
	}
	return err
}

func (c *Client) once(ctx context.Context, method, path string, body, out any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return &Error{resp.StatusCode}
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
