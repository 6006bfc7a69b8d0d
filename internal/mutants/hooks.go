package mutants

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

// webhookMutants are wrong about what the provider sends.
var webhookMutants = []Mutant{
	{"sig-optional", "no signature, no check: if the header is there it is looked at"},
	{"sig-over-reencoded", "a signature over the body that a framework had parsed and wrote again: the first question in every provider's support pages"},
	{"no-window", "a signed time that nobody looks at"},
	{"no-replay-store", "a delivery that is handled as often as it comes: providers send at least once"},
	{"order-assumed", "events taken in the order of their arrival, so that what was deleted comes back"},
	{"reads-all", "io.ReadAll of whatever somebody sends, before it is known who it is"},
	{"tenant-from-body", "a tenant that is named by the body, which any tenant's secret signs"},
	{"one-secret", "one secret, so that it cannot be replaced without losing deliveries"},
}

// hook is the endpoint of the desk: package webhook's, with a front in which it
// can be wrong.
type hook struct {
	*Switch
	verifier *webhook.Verifier
	inbox    webhook.Inbox
	place    webhook.Place
	endpoint http.Handler

	mu   sync.Mutex
	seen map[string]int
}

type hookBody struct {
	Tenant  string `json:"tenant"`
	Ticket  string `json:"ticket"`
	Version int64  `json:"version"`
	Deleted bool   `json:"deleted"`
}

var hookScheme = webhook.HMAC{Name: "desk", Headers: []string{"Desk-Signature"}, Signed: "{timestamp}.{body}", Timestamp: "Desk-Time", ID: "Desk-Delivery"}

// deskHooks is what the fixture of the desk says about its deliveries.
func deskHooks(s *Switch) *check.Webhooks {
	return &check.Webhooks{
		Secrets: [3]string{"first-secret-of-acme", "second-secret-of-acme", "secret-of-globex"},
		Ordered: true,
		Body: func(e check.Event) []byte {
			text, err := json.Marshal(hookBody{e.Tenant, e.Object, e.Version, e.Deleted})
			if err != nil {
				return nil
			}
			return text
		},
		Sign: func(secret, id string, at time.Time, body []byte) *http.Request {
			stamp := strconv.FormatInt(at.Unix(), 10)
			m := hmac.New(sha256.New, []byte(secret))
			fmt.Fprintf(m, "%s.%s", stamp, body)
			r := httptest.NewRequest(http.MethodPost, "/hooks/desk", bytes.NewReader(body))
			r.Header.Set("Desk-Signature", hex.EncodeToString(m.Sum(nil)))
			r.Header.Set("Desk-Time", stamp)
			r.Header.Set("Desk-Delivery", id)
			return r
		},
		Endpoint: func(inbox webhook.Inbox, place webhook.Place, secrets []string) (http.Handler, error) {
			if len(secrets) > 1 && s.is("one-secret") {
				secrets = secrets[:1]
			}
			v, err := webhook.NewHMAC(hookScheme, secrets, nil)
			if err != nil {
				return nil, err
			}
			h := &hook{Switch: s, verifier: v, inbox: inbox, place: place, seen: map[string]int{}}
			h.endpoint, err = webhook.NewEndpoint(v, inbox, place, &webhook.EndpointOptions{Describe: h.describe})
			return h, err
		},
	}
}

// describe says what a delivery is about.
func (h *hook) describe(d *webhook.Delivery) webhook.Subject {
	var b hookBody
	if json.Unmarshal(d.Body, &b) != nil {
		return webhook.Subject{}
	}
	if b.Deleted && h.is("order-assumed") {
		return webhook.Subject{}
	}
	return webhook.Subject{Object: "ticket/" + b.Ticket, Version: b.Version, Deleted: b.Deleted}
}

// ServeHTTP implements [http.Handler].
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 && h.is("reads-all") {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	if r.ContentLength < 0 || r.ContentLength > webhook.MaxBody {
		h.endpoint.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if again := encodedAnew(body); !bytes.Equal(again, body) && h.is("sig-over-reencoded") {
		body = again
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if h.believes(r, body) {
		w.WriteHeader(http.StatusOK)
		return
	}
	h.endpoint.ServeHTTP(w, r)
}

func encodedAnew(body []byte) []byte {
	var b hookBody
	if json.Unmarshal(body, &b) != nil {
		return body
	}
	out, err := json.Marshal(b)
	if err != nil {
		return body
	}
	return out
}

// believes stores what the endpoint would not, or not so.
func (h *hook) believes(r *http.Request, body []byte) bool {
	id, at := r.Header.Get("Desk-Delivery"), time.Now()
	d, err := h.verifier.Verify(&webhook.Request{Method: r.Method, Header: r.Header, Body: body}, at)
	var b hookBody
	_ = json.Unmarshal(body, &b)
	h.mu.Lock()
	h.seen[id]++
	n := h.seen[id]
	h.mu.Unlock()
	event := webhook.Event{Place: h.place, ID: id, Scheme: "desk", Received: at, Body: body}
	switch {
	case r.Header.Get("Desk-Signature") == "" && h.is("sig-optional"):
		event.ID = "unsigned"
	case errors.Is(err, webhook.ErrTimestamp) && h.is("no-window"):
	case err == nil && n > 1 && h.is("no-replay-store"):
		event.ID = fmt.Sprint(id, "-", n)
	case err == nil && b.Tenant != h.place.Tenant && h.is("tenant-from-body"):
		event.Tenant = b.Tenant
	default:
		return false
	}
	event.SignedAt = d.SignedAt
	_, err = h.inbox.Put(r.Context(), event)
	return err == nil
}
