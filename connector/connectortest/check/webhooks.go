package check

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

// Webhooks is the endpoint that a connector has for its provider's deliveries,
// and how the provider makes one. All functions are needed.
type Webhooks struct {
	// Endpoint returns the handler of one place. It stores in the inbox what it
	// believes.
	Endpoint func(inbox webhook.Inbox, place webhook.Place, secrets []string) (http.Handler, error)

	// Secrets are three secrets of the provider's form: one of a tenant, that by
	// which it is replaced, and one of another tenant.
	Secrets [3]string

	// Body is the provider's body of an event, as JSON.
	Body func(e Event) []byte

	// Sign is the provider's delivery of a body, with an id, at a time.
	Sign func(secret, id string, at time.Time, body []byte) *http.Request

	// Ordered says that bodies tell which event of an object is newer.
	Ordered bool
}

// Event is what a delivery is about.
type Event struct {
	Tenant  string // as the body says
	Object  string
	Version int64
	Deleted bool
}

// NeedsWebhooks is for Check.Needs: the check is about deliveries.
func NeedsWebhooks(s *Subject) string {
	if s.Fixture.Webhooks == nil {
		return "the fixture has no webhooks"
	}
	return ""
}

// Inbox is an inbox that remembers what was put into it.
type Inbox struct {
	webhook.Memory

	mu     sync.Mutex
	stored []webhook.Event
}

// Put implements [webhook.Inbox].
func (i *Inbox) Put(ctx context.Context, e webhook.Event) (bool, error) {
	is, err := i.Memory.Put(ctx, e)
	if is && err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.stored = append(i.stored, e.Clone())
	}
	return is, err
}

// Stored returns what was put in and was not known before.
func (i *Inbox) Stored() []webhook.Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.stored)
}
