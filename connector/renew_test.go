package connector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// renewable is a broker whose credential can be replaced some times.
type renewable struct {
	keys
	left, told int
	fail       error // of being told
}

var _ credential.BrokerWithRejection = (*renewable)(nil)

func (b *renewable) Rejected(context.Context, credential.Handle) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told++
	b.left--
	return b.left >= 0, b.fail
}

// H2-53: what reads is sent once more if the provider refused a credential that
// could be replaced, and never more than once.
func TestRenewedOnce_H2_53(t *testing.T) {
	for _, row := range []struct {
		contract string
		broker   *renewable
		refuses  int // the provider says 401 so often
		requests int // that a call may make
		sent     int
		code     toolresult.ErrorCode
	}{
		{contract: "a good credential is used once", sent: 1},
		{contract: "a read is sent once more with the new credential", broker: &renewable{left: 1}, refuses: 1, sent: 2},
		{contract: "a second refusal is the answer, whatever the broker says", broker: &renewable{left: 9}, refuses: 9, sent: 2, code: toolresult.ConnectionRequired},
		{contract: "nothing is sent when there is no other credential", refuses: 9, sent: 1, code: toolresult.ConnectionRequired},
		{contract: "nothing is sent when the broker could not note it", broker: &renewable{left: 1, fail: errors.New("store")}, refuses: 1, sent: 1, code: toolresult.ConnectionRequired},
		{contract: "nothing is sent beyond the requests of a call", broker: &renewable{left: 1}, refuses: 1, requests: 1, sent: 1, code: toolresult.ConnectionRequired},
	} {
		t.Run(row.contract, func(t *testing.T) {
			s := spec("tickets.get", getIssue)
			s.Limits.Requests = row.requests
			refuses := row.refuses
			w := renewing(t, cmp.Or(row.broker, &renewable{}), func(rw http.ResponseWriter, r *http.Request) {
				if refuses--; refuses >= 0 {
					http.Error(rw, `{"error":"token"}`, http.StatusUnauthorized)
					return
				}
				tickets(rw, r)
			}, connector.Read(s, connector.ByArgs(func(in GetTicket) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: in.Ticket} }), getTicket))
			r := w.call("tickets.get", `{"ticket":"1"}`)
			require.Equal(t, row.sent, w.count("GET /issues/1.json"))
			if row.code != "" {
				require.Equal(t, row.code, r.Error.Code)
				return
			}
			require.Nil(t, r.Error)
			require.Contains(t, string(r.Data), `"id":1`)
		})
	}
}

// H2-53: a search that is a POST is sent again with its body; W1: a change is
// not sent again, though a 401 says that nothing was changed.
func TestRenewedBody_H2_53_W1(t *testing.T) {
	var bodies []string
	refuses := 1
	handler := func(rw http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Method+" "+string(text))
		if refuses--; refuses >= 0 {
			http.Error(rw, `{"error":"token"}`, http.StatusUnauthorized)
			return
		}
		fmt.Fprint(rw, `{"issues":[]}`)
	}
	find := connector.Route{Pattern: "POST /search.json", Effect: connector.Reads, Touches: []string{"project:{#/project_id}"}}
	search := connector.Read(spec("tickets.find", find), connector.ByArgs(onProject),
		func(ctx context.Context, c *connector.ReadCall, in CreateTicket) (*connector.Answer[string], error) {
			var out json.RawMessage
			_, err := c.Do(ctx, &connector.HTTPRequest{Route: find.Pattern, Body: map[string]string{"project_id": in.Project}, Out: &out})
			if err != nil {
				return nil, err
			}
			return connector.Found(string(out)), nil
		})
	w := renewing(t, &renewable{left: 1}, handler, search, createTicket())
	require.Nil(t, w.call("tickets.find", args).Error)
	require.Equal(t, []string{`POST {"project_id":"inc"}`, `POST {"project_id":"inc"}`}, bodies)

	bodies, refuses = nil, 1
	b := &renewable{left: 1}
	w = renewing(t, b, handler, createTicket())
	r := w.keyed("tickets.create", "k1", args)
	require.Equal(t, toolresult.ConnectionRequired, r.Error.Code)
	require.Equal(t, toolresult.MeaningFailed, r.Meaning())
	require.Equal(t, 1, b.told, "the credential is replaced for the next call")
	changes := 0
	for _, line := range bodies {
		if line != "GET " {
			changes++
		}
	}
	require.Equal(t, 1, changes)
}

// H2-53 R4: a 401 stays what the provider said last when the second request has
// no answer, and no gap makes an answer of that.
func TestRenewedUnanswered_H2_53_R4(t *testing.T) {
	b := &renewable{left: 1}
	sent := 0
	w := renewing(t, b, func(rw http.ResponseWriter, r *http.Request) {
		switch sent++; sent {
		case 1:
			tickets(rw, r)
		case 2:
			http.Error(rw, `{"error":"token"}`, http.StatusUnauthorized)
		default:
			hijack(rw)
		}
	}, connector.Read(spec("tickets.get", getIssue), connector.ByArgs(func(in GetTicket) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: in.Ticket} }),
		func(ctx context.Context, c *connector.ReadCall, in GetTicket) (*connector.Answer[Ticket], error) {
			first, err := getTicket(ctx, c, in)
			if err != nil {
				return nil, err
			}
			_, second := getTicket(ctx, c, in)
			require.Error(t, second)
			first.Missing = []toolresult.Gap{toolresult.GapRemainingRows}
			return first, nil
		}))
	r := w.call("tickets.get", `{"ticket":"1"}`)
	require.Equal(t, toolresult.MeaningFailed, r.Meaning())
	require.Equal(t, toolresult.ConnectionRequired, r.Error.Code)
	require.Equal(t, 1, b.told)
}

func renewing(t *testing.T, b *renewable, handler http.HandlerFunc, caps ...connector.Capability) *world {
	t.Helper()
	return newWorld(t, setup{handler: handler, caps: caps, broker: b})
}
