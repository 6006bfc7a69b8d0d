package mcpadapter

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// H1-75: a text that is no state is one error, and never a panic; only what was
// sealed opens, once.
func FuzzRequestState(f *testing.F) {
	s, err := newStates("", nil, nil)
	require.NoError(f, err)
	b := binding{who: authz.PrincipalKey{Tenant: "t", Issuer: "i", Subject: "s"}, method: "tools/call", name: "n", arguments: "d"}
	good, err := s.seal(b, state{Approval: "apr"})
	require.NoError(f, err)
	for _, text := range []string{"", ".", "own.", "own.AAAA", "other." + good[4:], good[:len(good)-1], good + "A", good + "=", good} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := s.open(context.Background(), b, text)
		if text != good {
			require.Equal(t, badState(), err)
		}
		_, err = s.open(context.Background(), b, text)
		require.Equal(t, badState(), err, "the second time")
	})
}

// A7: whatever a client calls a URI is one of a resource or none.
func FuzzURI(f *testing.F) {
	list, err := newResources([]Resource{{URI: "note://{id}", Capability: "a"}, {URI: "x://y/{a}/{b}", Capability: "b"}, {URI: "fixed://z", Capability: "c"}})
	require.NoError(f, err)
	for _, uri := range []string{"note://a", "note://%C3%BC", "note://a/b", "x://y/1/2", "fixed://z", "note://%zz", "note://", "\x00", "note://%2e%2e%2f"} {
		f.Add(uri)
	}
	a := &Adapter{resources: list}
	f.Fuzz(func(t *testing.T, uri string) {
		r, args := a.find(uri)
		require.Equal(t, r == nil, args == nil)
	})
}
