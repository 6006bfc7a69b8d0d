package writes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

func webhooks() []check.Check {
	return []check.Check{
		{
			ID: "webhook/signature-required", Since: frozen, Needs: check.NeedsWebhooks, Kills: []string{"sig-optional"},
			Promise: "A delivery without a signature, with a wrong one, or with another tenant's is refused, and nothing is done.",
			Run:     onHooks(runSignatures),
		},
		{
			ID: "webhook/raw-bytes", Since: frozen, Needs: check.NeedsWebhooks, Kills: []string{"sig-over-reencoded"},
			Promise: "The signature is checked over the bytes as they came: spaces, the order of members, how a letter is written.",
			Run:     onHooks(runRawBytes),
		},
		{
			ID: "webhook/fresh", Since: frozen, Needs: check.NeedsWebhooks, Kills: []string{"no-window"},
			Promise: "A delivery that was signed long ago, or for a time to come, is refused.",
			Run:     onHooks(runFresh),
		},
		{
			ID: "webhook/replay-once", Since: frozen, Needs: check.NeedsWebhooks, Kills: []string{"no-replay-store"},
			Promise: "The same delivery again is thanked for, and is no second event.",
			Run:     onHooks(runReplay),
		},
		{
			ID: "webhook/any-order", Since: frozen, Level: check.Extended, Needs: check.NeedsWebhooks, Kills: []string{"order-assumed"},
			Promise: "Events that arrive in another order than they happened leave the right state: what was deleted does not come back.",
			Run:     onHooks(runOrder),
		},
		{
			ID: "webhook/bounded", Since: frozen, Needs: check.NeedsWebhooks, Kills: []string{"reads-all"},
			Promise: "A body that does not end is refused before it is read, and before its signature is looked at.",
			Run:     onHooks(runEndless),
		},
		{
			ID: "webhook/tenant-bound", Since: frozen, Needs: check.NeedsWebhooks, Kills: []string{"tenant-from-body"},
			Promise: "A delivery to one tenant's endpoint is that tenant's, whatever its body says.",
			Run:     onHooks(runTenantBound),
		},
		{
			ID: "webhook/two-secrets", Since: frozen, Level: check.Extended, Needs: check.NeedsWebhooks, Kills: []string{"one-secret"},
			Promise: "While a secret is replaced, both the old and the new one are believed, and no third.",
			Run:     onHooks(runRotation),
		},
	}
}

// hooks is an endpoint of tenant A in front of an inbox, and its provider.
type hooks struct {
	*check.Session
	*check.Webhooks
	inbox *check.Inbox
	here  http.Handler
}

// onHooks runs f with the endpoint of tenant A, which believes the first secret.
func onHooks(f func(context.Context, *hooks)) func(context.Context, *check.Session) {
	return func(ctx context.Context, s *check.Session) {
		h := &hooks{Session: s, Webhooks: s.Fixture.Webhooks, inbox: &check.Inbox{}}
		if h.Endpoint == nil || h.Body == nil || h.Sign == nil {
			s.Inconclusive("Fixture.Webhooks lacks Endpoint, Body or Sign")
			return
		}
		if h.here = h.open(check.TenantA, h.Secrets[0]); h.here != nil {
			f(ctx, h)
		}
	}
}

func (h *hooks) open(tenant string, secrets ...string) http.Handler {
	e, err := h.Endpoint(h.inbox, webhook.Place{Tenant: tenant, Source: "connectortest"}, secrets)
	if !h.Expect(err == nil && e != nil, fmt.Sprintf("no endpoint: %v", err), "one") {
		return nil
	}
	return e
}

// deliver returns the status of an answer, and how many events are new.
func (h *hooks) deliver(to http.Handler, r *http.Request) (status, events int) {
	before := len(h.inbox.Stored())
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil {
				h.Fail(fmt.Sprintf("the endpoint panicked: %v", p), "an answer")
			}
		}()
		to.ServeHTTP(w, r)
	}()
	return w.Code, len(h.inbox.Stored()) - before
}

func (h *hooks) believed(what string, r *http.Request) {
	status, events := h.deliver(h.here, r)
	h.Expect(status/100 == 2 && events == 1, fmt.Sprintf("%s: %d, and %d events", what, status, events), "thanks, and one event")
}

func (h *hooks) refused(what string, to http.Handler, r *http.Request) {
	status, events := h.deliver(to, r)
	h.Expect(status/100 == 4 && events == 0, fmt.Sprintf("%s: %d, and %d events", what, status, events), "a refusal, and nothing stored")
}

func (h *hooks) event(version int64) []byte {
	return h.Body(check.Event{Tenant: check.TenantA, Object: "1", Version: version})
}

func runSignatures(_ context.Context, h *hooks) {
	body := h.event(1)
	h.believed("a delivery as it should be", h.Sign(h.Secrets[0], "d-1", time.Now(), body))
	signed := h.Sign(h.Secrets[0], "d-2", time.Now(), h.event(2))
	for name := range maps.Clone(signed.Header) {
		r := h.Sign(h.Secrets[0], "d-2", time.Now(), h.event(2))
		if r.Header.Del(name); name == "Content-Type" || name == "User-Agent" {
			continue
		}
		if status, events := h.deliver(h.here, r); status/100 == 2 && events > 0 { // it may be one that proves nothing
			again := h.Sign(h.Secrets[1], "d-3", time.Now(), h.event(3))
			again.Header.Del(name)
			h.refused("a delivery without "+name+", and with a wrong signature", h.here, again)
		}
	}
	bare := h.Sign(h.Secrets[0], "d-4", time.Now(), h.event(4))
	bare.Header = http.Header{"Content-Type": {"application/json"}}
	bare.URL.RawQuery = ""
	h.refused("a delivery without a signature", h.here, bare)
	h.refused("a delivery with another secret", h.here, h.Sign(h.Secrets[1], "d-5", time.Now(), h.event(5)))
	h.refused("a delivery with another tenant's secret", h.here, h.Sign(h.Secrets[2], "d-6", time.Now(), h.event(6)))
	h.refused("a delivery whose body was changed", h.here, withBody(h.Sign(h.Secrets[0], "d-7", time.Now(), h.event(7)), h.event(8)))
}

func withBody(r *http.Request, body []byte) *http.Request {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

func runRawBytes(_ context.Context, h *hooks) {
	plain := h.event(1)
	odd := [][]byte{append(bytes.Clone(plain), " \n"...), append([]byte("\t "), plain...), spaced(plain)}
	for i, body := range odd {
		if !json.Valid(plain) {
			h.NotApplicable("the provider's bodies are not JSON")
			return
		}
		h.believed("a body with other spaces", h.Sign(h.Secrets[0], fmt.Sprint("r-", i), time.Now(), body))
	}
	r := withBody(h.Sign(h.Secrets[0], "r-9", time.Now(), h.event(9)), spaced(h.event(9)))
	h.refused("the same values in other bytes", h.here, r)
}

func spaced(body []byte) []byte {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "   ") != nil {
		return append(body, ' ')
	}
	return out.Bytes()
}

// runFresh looks first whether the scheme signs a time at all.
func runFresh(_ context.Context, h *hooks) {
	now := time.Now()
	a, b := h.Sign(h.Secrets[0], "f-1", now, h.event(1)), h.Sign(h.Secrets[0], "f-1", now.Add(-time.Hour), h.event(1))
	if fmt.Sprint(a.Header, a.URL) == fmt.Sprint(b.Header, b.URL) {
		h.NotApplicable("the provider signs no time")
		return
	}
	h.refused("a delivery of two hours ago", h.here, h.Sign(h.Secrets[0], "f-2", now.Add(-2*time.Hour), h.event(2)))
	h.refused("a delivery of two hours to come", h.here, h.Sign(h.Secrets[0], "f-3", now.Add(2*time.Hour), h.event(3)))
	h.believed("a delivery of half a minute ago", h.Sign(h.Secrets[0], "f-4", now.Add(-30*time.Second), h.event(4)))
}

func runReplay(_ context.Context, h *hooks) {
	body := h.event(1)
	h.believed("the first delivery", h.Sign(h.Secrets[0], "o-1", time.Now(), body))
	for _, later := range []time.Duration{0, time.Second, 3 * time.Hour, 6 * 24 * time.Hour} {
		h.Wait(later)
		status, events := h.deliver(h.here, h.Sign(h.Secrets[0], "o-1", time.Now(), body))
		h.Expect(status/100 == 2 && events == 0, fmt.Sprintf("the same delivery, %v later: %d, and %d events", later, status, events), "thanks, and nothing new")
	}
	h.believed("another delivery", h.Sign(h.Secrets[0], "o-2", time.Now(), h.event(2)))
}

func runOrder(ctx context.Context, h *hooks) {
	if !h.Ordered {
		h.NotApplicable("the provider's bodies tell no order (Webhooks.Ordered)")
		return
	}
	var handled []string
	p, err := webhook.NewProcessor(h.inbox, func(_ context.Context, e *webhook.Event) error {
		handled = append(handled, e.ID)
		return nil
	}, nil)
	if err != nil {
		h.Inconclusive("no processor: " + err.Error())
		return
	}
	for i, e := range []check.Event{{Version: 1}, {Version: 5, Deleted: true}, {Version: 3}, {Version: 4}} {
		e.Tenant, e.Object = check.TenantA, "late"
		h.believed("an event", h.Sign(h.Secrets[0], fmt.Sprint("n-", i+1), time.Now(), h.Body(e)))
		if err := p.Drain(ctx); err != nil {
			h.Inconclusive("the events cannot be handled: " + err.Error())
			return
		}
		h.Wait(time.Second)
	}
	h.Expect(strings.Join(handled, " ") == "n-1 n-2", fmt.Sprintf("handled: %v", handled), "n-1 and its deletion n-2; n-3 and n-4 happened before that")
}

// endless is a body that does not end, and that counts.
type endless struct{ n int64 }

// Read implements [io.Reader].
func (e *endless) Read(p []byte) (int, error) {
	if e.n > mostRead {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = ' '
	}
	e.n += int64(len(p))
	return len(p), nil
}

// mostRead is more than any provider's body: GitHub's have at most 25 MB.
const mostRead = 33 << 20

func runEndless(_ context.Context, h *hooks) {
	h.believed("a short body", h.Sign(h.Secrets[0], "b-1", time.Now(), h.event(1)))
	for _, length := range []int64{-1, 1 << 40} {
		body := &endless{}
		r := h.Sign(h.Secrets[0], "b-2", time.Now(), h.event(2))
		r.Body, r.ContentLength = io.NopCloser(body), length
		h.refused("a body that does not end", h.here, r)
		h.Expect(body.n < mostRead, fmt.Sprintf("%d bytes were read of a body that does not end", body.n), "a limit of at most 32 MiB")
	}
}

func runTenantBound(_ context.Context, h *hooks) {
	there := h.open(check.TenantB, h.Secrets[2])
	if there == nil {
		return
	}
	other := h.Body(check.Event{Tenant: check.TenantB, Object: "1", Version: 1})
	h.believed("a delivery to tenant A", h.Sign(h.Secrets[0], "t-0", time.Now(), h.event(2)))
	h.deliver(h.here, h.Sign(h.Secrets[0], "t-1", time.Now(), other))
	h.refused("a delivery with tenant A's secret to tenant B", there, h.Sign(h.Secrets[0], "t-2", time.Now(), other))
	for _, e := range h.inbox.Stored() {
		h.Expect(e.Tenant == check.TenantA, "an event of "+e.Tenant+" that came to the endpoint of "+check.TenantA, "the tenant of the endpoint")
	}
}

func runRotation(_ context.Context, h *hooks) {
	if h.here = h.open(check.TenantA, h.Secrets[1], h.Secrets[0]); h.here == nil {
		return
	}
	h.believed("a delivery with the old secret", h.Sign(h.Secrets[0], "s-1", time.Now(), h.event(1)))
	h.believed("a delivery with the new secret", h.Sign(h.Secrets[1], "s-2", time.Now(), h.event(2)))
	h.refused("a delivery with a third secret", h.here, h.Sign(h.Secrets[2], "s-3", time.Now(), h.event(3)))
}
