package sqlstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
)

func TestMetaComesBack_R8(t *testing.T) {
	for why, m := range map[string]artifact.Meta{
		"nothing":             {},
		"a whole connection":  {Scope: authz.WholeConnection(), MediaType: "text/plain"},
		"a class of the call": {Action: authz.Action{Connector: "c", Capability: "c.x", Version: "1", Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Secret}}},
		"resources":           {Scope: authz.Only(authz.ResourceID{Type: "a", ID: "b\x00"}), Owner: authz.PrincipalKey{Tenant: "t", Issuer: "i", Subject: "s"}},
	} {
		kept, err := keep(&m)
		require.NoError(t, err, why)
		kept, err = column.Untext(kept)
		require.NoError(t, err, why)
		var back artifact.Meta
		require.NoError(t, unkeep(kept, &back), why)
		require.Equal(t, m.Scope.Digest(), back.Scope.Digest(), why)
		back.Scope = m.Scope
		require.Equal(t, m, back, why)
	}
	for _, foreign := range []string{"", "[]", `{"Resources":[{"Window":7}]}`, "{"} {
		require.ErrorIs(t, unkeep(foreign, &artifact.Meta{}), column.ErrText)
	}
}

func TestBind(t *testing.T) {
	require.Equal(t, "a ?, ?", (&database{dialect: SQLite}).bind("a ?, ?"))
	require.Equal(t, "a $1, $2", (&database{dialect: PostgreSQL}).bind("a ?, ?"))
	require.Equal(t, []string{"no dialect", "SQLite", "PostgreSQL"}, []string{Dialect(0).String(), SQLite.String(), PostgreSQL.String()})
}
