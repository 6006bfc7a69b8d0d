package artifact

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// written is a Meta as stores keep it.
type written struct {
	Run, Name                      string
	N                              int
	Tenant, Connection             string
	Issuer, Subject, OwnerTenant   string
	Connector, Capability, Version string
	SideEffect, Sensitivity        string
	Whole                          bool
	Resources                      []authz.Resource
	MediaType, Digest              string
	Size                           int64
	Expires                        time.Time
}

// MarshalJSON writes a Meta down for a [Store]. It fails with [ErrMeta] for one
// that would not come back as it was, because a scope decides who may read.
func (m Meta) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(written{
		m.Ref.Run, m.Ref.Name, m.Ref.N, m.Tenant, m.Connection,
		m.Owner.Issuer, m.Owner.Subject, m.Owner.Tenant, m.Action.Connector, m.Action.Capability, m.Action.Version,
		m.Action.Class.SideEffect.String(), m.Action.Class.Sensitivity.String(), m.Scope.Whole(), m.Scope.Resources(),
		m.MediaType, m.Digest, m.Size, m.Expires.UTC().Round(0),
	})
	var back Meta
	if err == nil {
		err = back.UnmarshalJSON(b)
	}
	if err != nil || !back.same(&m) {
		return nil, fmt.Errorf("%w: a part of it cannot be written down", ErrMeta)
	}
	return b, nil
}

func (m *Meta) same(o *Meta) bool {
	return m.Ref == o.Ref && m.Tenant == o.Tenant && m.Connection == o.Connection && m.Owner == o.Owner && m.Action == o.Action &&
		m.Scope.Digest() == o.Scope.Digest() && m.MediaType == o.MediaType && m.Digest == o.Digest && m.Size == o.Size && m.Expires.Equal(o.Expires)
}

// UnmarshalJSON reads what MarshalJSON wrote. A word for a class that nobody
// knows leaves its axis unclassified, which is the highest.
func (m *Meta) UnmarshalJSON(b []byte) error {
	var k written
	if err := json.Unmarshal(b, &k); err != nil {
		return fmt.Errorf("%w: %w", ErrMeta, err)
	}
	*m = Meta{
		Ref: Ref{k.Run, k.Name, k.N}, Tenant: k.Tenant, Connection: k.Connection,
		Owner:     authz.PrincipalKey{Tenant: k.OwnerTenant, Issuer: k.Issuer, Subject: k.Subject},
		Action:    authz.Action{Connector: k.Connector, Capability: k.Capability, Version: k.Version},
		Scope:     authz.OnlyDuring(k.Resources...),
		MediaType: k.MediaType, Digest: k.Digest, Size: k.Size, Expires: k.Expires,
	}
	_ = m.Action.Class.SideEffect.UnmarshalText([]byte(k.SideEffect))
	_ = m.Action.Class.Sensitivity.UnmarshalText([]byte(k.Sensitivity))
	if k.Whole {
		m.Scope = authz.WholeConnection()
	}
	return nil
}
