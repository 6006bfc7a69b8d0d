package connection

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Incident is a suspected leak: what it names is stopped. At least one of the
// last three is needed.
type Incident struct {
	Tenant     string // needed
	Run        string // the task to isolate: it gets no credential of any account
	Capability string // to disable in the tenant
	Connection string // to revoke
	Note       string // for operators; no secret
}

// Contain stops what an incident names, at once and in every process: the hold is
// stored first, then the connection is taken apart. It stands until
// [Manager.Release], and a connection's owner cannot connect the provider again
// before its revocation is confirmed. An error after the hold was stored comes
// with the hold.
func (m *Manager) Contain(ctx context.Context, in Incident) (Hold, error) {
	if in.Tenant == "" || in.Run == "" && in.Capability == "" && in.Connection == "" {
		return Hold{}, toolresult.NewError(toolresult.InvalidInput, "an incident names its tenant, and a run, a capability or a connection")
	}
	h := Hold{Tenant: in.Tenant, ID: rand.Text(), Run: in.Run, Capability: in.Capability, Connection: in.Connection, Note: in.Note, Created: time.Now()}
	if err := m.store.AddHold(ctx, h); err != nil {
		return Hold{}, errStore(err)
	}
	if in.Connection == "" {
		return h, nil
	}
	_, err := m.takeApart(ctx, in.Tenant, in.Connection, ReasonLeak)
	return h, err
}

// Release ends a hold. While the revocation of its connection is not confirmed by
// the provider it is CONFLICT, unless revokedBy names the person who revoked the
// credential there by hand.
func (m *Manager) Release(ctx context.Context, tenant, id, revokedBy string) error {
	holds, err := m.holds(ctx, tenant)
	if err != nil {
		return err
	}
	for _, h := range holds {
		if h.ID != id {
			continue
		}
		open, err := m.unconfirmed(ctx, h)
		switch {
		case err != nil:
			return err
		case open && revokedBy == "":
			return toolresult.NewError(toolresult.Conflict, "the provider has not confirmed that the credential is revoked")
		}
		m.log.InfoContext(ctx, "a hold was released", "tenant", tenant, "hold", id, "revoked_by", revokedBy)
		if err := m.store.RemoveHold(ctx, tenant, id); err != nil {
			return errStore(err)
		}
	}
	return nil
}

// unconfirmed reports whether the credential of a hold's connection may still be
// good at the provider.
func (m *Manager) unconfirmed(ctx context.Context, h Hold) (bool, error) {
	if h.Connection == "" {
		return false, nil
	}
	rec, err := m.store.Get(ctx, h.Tenant, h.Connection)
	switch {
	case errors.Is(err, toolresult.NotFound):
		return true, nil // nobody can say
	case err != nil:
		return false, errStore(err)
	}
	return rec.Disconnection.Remote != StepDone, nil
}

// held are the incidents of a tenant.
type held []Hold

func (m *Manager) holds(ctx context.Context, tenant string) (held, error) {
	list, err := m.store.Holds(ctx, tenant)
	if err != nil {
		return nil, errStore(err)
	}
	return list, nil
}

// stop reports whether one of them stops the run, the capability or the
// connection; "" is none.
func (hs held) stop(run, capability, id string) bool {
	return slices.ContainsFunc(hs, func(h Hold) bool {
		return h.Run != "" && h.Run == run || h.Capability != "" && h.Capability == capability || h.Connection != "" && h.Connection == id
	})
}

// free returns an error if an incident stops what a handle is for.
func (m *Manager) free(ctx context.Context, u *use) error {
	hs, err := m.holds(ctx, u.tenant)
	if err == nil && hs.stop(u.run, u.cap, u.id) {
		err = errHeld()
	}
	return err
}

// leaking reports whether a credential of the owner at the provider leaked and is
// not known to be revoked.
func (m *Manager) leaking(ctx context.Context, owner authz.PrincipalKey, provider string) (bool, error) {
	holds, err := m.holds(ctx, owner.Tenant)
	if err != nil {
		return false, err
	}
	for _, h := range holds {
		if h.Connection == "" {
			continue
		}
		rec, err := m.store.Get(ctx, owner.Tenant, h.Connection)
		if err != nil && !errors.Is(err, toolresult.NotFound) {
			return false, errStore(err)
		}
		if err == nil && rec.Owner == owner && rec.Provider == provider && rec.Disconnection.Remote != StepDone {
			return true, nil
		}
	}
	return false, nil
}
