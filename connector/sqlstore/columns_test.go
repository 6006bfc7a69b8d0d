package sqlstore

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
)

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "x", `\`, `\eA`, "a\x00b", "\xff", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		stored := text(s)
		require.True(t, utf8.ValidString(stored))
		require.NotContains(t, stored, "\x00")
		back, err := untext(stored)
		require.NoError(t, err)
		require.Equal(t, s, back)
		if foreign, err := untext(s); err == nil { // what somebody else wrote
			require.Equal(t, s, text(foreign), "no two texts have the same form")
		}
	})
}

func FuzzTargets(f *testing.F) {
	f.Add("")
	f.Add(`[["project","inc"]]`)
	f.Add(`[["project","\\/w"],["a","b"]]`)
	f.Fuzz(func(t *testing.T, s string) {
		ids, err := untargets(s)
		if err != nil {
			require.Nil(t, ids)
			return
		}
		again, err := untargets(targets(ids))
		require.NoError(t, err)
		require.Equal(t, ids, again)
	})
}

func FuzzMeta(f *testing.F) {
	m := artifact.Meta{Scope: authz.Only(authz.ResourceID{Type: "a", ID: "b"})}
	s, err := keep(&m)
	require.NoError(f, err)
	f.Add(s)
	f.Add(`{"Whole":true}`)
	f.Add(`{"Resources":[{"Window":"whenever"}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		var m, again artifact.Meta
		if unkeep(s, &m) != nil {
			return
		}
		kept, err := keep(&m)
		require.NoError(t, err)
		kept, err = untext(kept)
		require.NoError(t, err)
		require.NoError(t, unkeep(kept, &again))
		require.Equal(t, m, again)
	})
}

func TestBind(t *testing.T) {
	require.Equal(t, "a ?, ?", (&database{dialect: SQLite}).bind("a ?, ?"))
	require.Equal(t, "a $1, $2", (&database{dialect: PostgreSQL}).bind("a ?, ?"))
	require.Equal(t, []string{"no dialect", "SQLite", "PostgreSQL"}, []string{Dialect(0).String(), SQLite.String(), PostgreSQL.String()})
}
