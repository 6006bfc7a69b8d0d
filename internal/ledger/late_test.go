package ledger

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/internal/evidence"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type slow struct{ pause time.Duration }

func (s slow) Send(ctx context.Context, a *Attempt) Claim {
	if err := a.Dispatch(ctx, "rendered", false); err != nil {
		return Claim{Kind: evidence.Failed}
	}
	time.Sleep(s.pause) // the process is stopped here, before the first byte
	a.Saw(saw(true, 202))
	return Claim{Kind: evidence.Accepted, ProviderID: "job-7"}
}
func (slow) Look(context.Context, operation.Record) (Claim, []evidence.Exchange) {
	return Claim{Kind: evidence.DidNotHappen}, []evidence.Exchange{saw(false, 200)}
}

// a late 202 does not correct the ledger.
func TestLateAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &operation.Memory{}
		terms := Terms{Deadline: 10 * time.Second, Settle: 5 * time.Second}
		owner := authz.PrincipalKey{Tenant: "t", Issuer: "i", Subject: "s"}
		intent := operation.Record{Operation: operation.Operation{Key: "k"}, Intent: "x", Request: "rendered", Arguments: json.RawMessage(`{}`),
			Binding: authz.Binding{Digest: "d", Requester: owner}}
		res := make(chan Outcome, 1)
		go func() {
			o, _ := New(store).Do(context.Background(), intent, terms, slow{10 * time.Minute})
			res <- o
		}()
		time.Sleep(5 * time.Minute)
		rec, err := store.Get(context.Background(), "t", ID(owner, "k"))
		if err != nil {
			t.Fatal(err)
		}
		o := New(store).Lookup(context.Background(), rec, terms, slow{})
		t.Log(o.Record.State, o.Code)
		late := <-res
		if d := late.Record.Disposition(); d == toolresult.EffectNotApplied {
			t.Errorf("the provider answered 202, and the caller is told %v", d)
		}
		rec, _ = store.Get(context.Background(), "t", rec.ID)
		if rec.State == operation.NotApplied {
			t.Errorf("and the ledger says %v for ever", rec.State)
		}
	})
}
