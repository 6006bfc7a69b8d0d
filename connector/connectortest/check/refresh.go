package check

import (
	"context"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// Expire makes a user's credential run out. The next call that needs it has it
// renewed, which takes the issuer so long; calls that come meanwhile wait for the
// same renewal.
func (b *Broker) Expire(tenant, user string, takes time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.expired == nil {
		b.expired, b.renewing = map[authz.PrincipalKey]time.Duration{}, map[authz.PrincipalKey]chan struct{}{}
	}
	b.expired[authz.PrincipalKey{Tenant: tenant, Issuer: issuer, Subject: user}] = takes
}

// Renewals is how often an issuer was asked.
func (b *Broker) Renewals() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.renewals
}

// renew waits until a credential is good, or the caller leaves. The renewal goes
// on when its callers give up.
func (b *Broker) renew(ctx context.Context, key authz.PrincipalKey) error {
	b.mu.Lock()
	takes, expired := b.expired[key]
	if !expired {
		b.mu.Unlock()
		return nil
	}
	done := b.renewing[key]
	if done == nil {
		done = make(chan struct{})
		b.renewing[key] = done
		b.renewals++
		go func() {
			time.Sleep(takes)
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.expired, key)
			delete(b.renewing, key)
			close(done)
		}()
	}
	b.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
