package artifact_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
)

func TestMetaText_R8(t *testing.T) {
	day := time.Date(2026, 5, 1, 12, 0, 0, 1, time.FixedZone("x", 3600))
	for why, m := range map[string]artifact.Meta{
		"nothing":     {},
		"all of it":   {Ref: artifact.Ref{Run: "r", Name: "n", N: 3}, Tenant: "t", Connection: "c", Owner: authz.PrincipalKey{Tenant: "t", Issuer: "i", Subject: "s"}, MediaType: "text/plain", Digest: "sha256:0", Size: 5, Expires: day},
		"a class":     {Action: authz.Action{Connector: "c", Capability: "c.x", Version: "1", Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Secret}}},
		"everything":  {Scope: authz.WholeConnection()},
		"some things": {Scope: authz.Only(authz.ResourceID{Type: "a", ID: "b\x00"})},
	} {
		text, err := m.MarshalJSON()
		require.NoError(t, err, why)
		var back artifact.Meta
		require.NoError(t, back.UnmarshalJSON(text), why)
		require.Equal(t, m.Scope.Digest(), back.Scope.Digest(), why)
		require.True(t, m.Expires.Equal(back.Expires), why)
		back.Scope, back.Expires = m.Scope, m.Expires
		require.Equal(t, m, back, why)
	}
	for why, m := range map[string]artifact.Meta{
		"a subject that JSON cannot hold": {Owner: authz.PrincipalKey{Subject: "\xff"}},
		"a resource that it cannot hold":  {Scope: authz.Only(authz.ResourceID{Type: "a", ID: "\xff"})},
		"a year that it cannot hold":      {Expires: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		_, err := m.MarshalJSON()
		require.ErrorIs(t, err, artifact.ErrMeta, why)
	}
}

// Whatever lies in a store, what is read from it is written as the same.
func FuzzMeta(f *testing.F) {
	text, err := artifact.Meta{Scope: authz.WholeConnection(), Tenant: "t"}.MarshalJSON()
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"Resources":[{"Type":"a","ID":"b"}],"Expires":"2026-05-01T00:00:00Z","SideEffect":"new"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, back artifact.Meta
		if m.UnmarshalJSON(b) != nil {
			return
		}
		text, err := m.MarshalJSON()
		if err != nil {
			require.ErrorIs(t, err, artifact.ErrMeta)
			return
		}
		require.NoError(t, back.UnmarshalJSON(text))
		require.Equal(t, m.Scope.Digest(), back.Scope.Digest())
		require.Equal(t, m.Ref, back.Ref)
	})
}
