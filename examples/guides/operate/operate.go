// Package operate has what the guide's operator does: look at what nobody knows,
// settle it, take accounts apart, stop a leak, read what happened.
package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

// Unknown returns a line for each change of which nobody knows what became, the
// oldest first: those that nobody works on at the moment.
func Unknown(ctx context.Context, ledger operation.Store, limit int) ([]string, error) {
	open, err := ledger.Unsettled(ctx, time.Now(), limit)
	var out []string
	for _, o := range open {
		b := o.Binding
		out = append(out, fmt.Sprintf("%s %s of %s/%s on %s: %s, sent %d times, key %q",
			o.ID, b.Capability, b.Requester.Tenant, b.Requester.Subject, targets(o.Targets), o.State, o.Sent, o.Key))
	}
	return out, err
}

func targets(ids []authz.ResourceID) string {
	var out []string
	for _, id := range ids {
		out = append(out, id.Type+":"+id.ID)
	}
	return strings.Join(out, " ")
}

// Told is what a person has found out at the provider about an operation that
// cannot be looked up.
func Told(ctx context.Context, inv *connector.Invoker, person authz.Principal, operationID string, happened bool) error {
	r := inv.Settle(ctx, &connector.SettleRequest{Principal: person, OperationID: operationID, Applied: happened})
	return r.Err()
}

// Story is all that was ever known of an operation, a line for each version.
func Story(ctx context.Context, store *sqlstore.Store, tenant, operationID string) ([]string, error) {
	entries, err := store.History(ctx, tenant, operationID)
	var out []string
	for _, e := range entries {
		by := ""
		if strings.HasPrefix(e.By, "person:") || e.State.Settled() {
			by = " by " + e.By
		}
		out = append(out, fmt.Sprintf("%d %s%s", e.Rev, e.State, by))
	}
	return out, err
}

// Leaver takes apart all that somebody has connected.
func Leaver(ctx context.Context, accounts *connection.Manager, who authz.PrincipalKey) ([]connection.Connection, error) {
	return accounts.DisconnectFor(ctx, who, "")
}

// Leak stops a connection whose credential may have got out, and the run in which
// it did. The hold stands until Over.
func Leak(ctx context.Context, accounts *connection.Manager, tenant, connectionID, run, note string) (connection.Hold, error) {
	return accounts.Contain(ctx, connection.Incident{Tenant: tenant, Connection: connectionID, Run: run, Note: note})
}

// Over ends a hold. by names the person who has revoked the credential at a
// provider that does not confirm it itself, and is empty otherwise.
func Over(ctx context.Context, accounts *connection.Manager, h connection.Hold, by string) error {
	return accounts.Release(ctx, h.Tenant, h.ID, by)
}

// Lines is an audit sink: JSON, one event a line. What it writes to has to be
// durable when Write returns, such as a file that is opened with O_SYNC.
func Lines(w io.Writer) connector.Audit {
	var mu sync.Mutex
	return connector.AuditFunc(func(_ context.Context, e *connector.AuditEvent) error {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		_, err = w.Write(append(line, '\n'))
		return err
	})
}
