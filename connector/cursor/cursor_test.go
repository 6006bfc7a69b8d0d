package cursor

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func ring(t require.TestingT, current string, keys map[string][]byte) *Keyring {
	k, err := NewKeyring(current, keys, nil)
	require.NoError(t, err)
	return k
}

var bound = Binding{
	Tenant: "acme", Issuer: "https://id.example", Subject: "alice", Connection: "c1", Generation: 3,
	Capability: "tickets.list", Version: "1", Query: "sha256:q", Scope: "sha256:s", Revision: "r7",
}

// invalid checks that an error says nothing but that the cursor is of no use.
func invalid(t require.TestingT, p Position, err error, why ...any) {
	require.Zero(t, p, why...)
	require.ErrorIs(t, err, toolresult.CursorInvalid, why...)
	require.Equal(t, toolresult.NewError(toolresult.CursorInvalid, "start the listing again"), err, why...)
}

func TestPositions(t *testing.T) {
	all := []Position{{}, Start(), At(""), At("x"), End(), Cut()}
	for i, p := range all {
		require.Equal(t, i == 0, p.IsZero())
		require.Equal(t, p == End(), p.AtEnd())
		_, ok := p.Token()
		require.Equal(t, i == 2 || i == 3, ok)
		for j, q := range all {
			require.Equal(t, i == j, p == q, "the end is not the start, and nothing is neither")
		}
	}
}

func TestNewKeyringRefuses_P1(t *testing.T) {
	for _, row := range []struct {
		why, current string
		keys         map[string][]byte
		opts         *KeyringOptions
		says         string
	}{
		{"a short key", "a", map[string][]byte{"a": make([]byte, 16)}, nil, `"a" has 16 bytes, and not 32`},
		{"no key behind an id", "a", map[string][]byte{"a": nil}, nil, `"a" has 0 bytes`},
		{"a current key that is not there", "b", map[string][]byte{"a": key(1)}, nil, "current"},
		{"no current key", "", map[string][]byte{"a": key(1)}, nil, "current"},
		{"an id with a dot", "a.b", map[string][]byte{"a.b": key(1)}, nil, "an id"},
		{"an empty id", "", map[string][]byte{"": key(1)}, nil, "an id"},
		{"a long id", "a", map[string][]byte{"a": key(1), strings.Repeat("x", 33): key(2)}, nil, "an id"},
		{"a negative life", "a", map[string][]byte{"a": key(1)}, &KeyringOptions{Life: -1}, "life"},
		{"a life of centuries", "a", map[string][]byte{"a": key(1)}, &KeyringOptions{Life: 1 << 62}, "life"},
	} {
		k, err := NewKeyring(row.current, row.keys, row.opts)
		require.ErrorContains(t, err, row.says, row.why)
		require.Nil(t, k, row.why)
	}
}

// TestRoundTrip_P1: what was sealed is opened, by another replica with the same
// keys, and looks the same in no two cursors.
func TestRoundTrip_P1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringN(-1, -1, 600).Draw(t, "token")
		b := Binding{Tenant: rapid.String().Draw(t, "tenant"), Subject: rapid.String().Draw(t, "subject"), Generation: rapid.Int64().Draw(t, "generation")}
		c, err := ring(t, "k1", map[string][]byte{"k1": key(1)}).Seal(b, At(token))
		require.NoError(t, err)
		require.Regexp(t, `^k1\.[A-Za-z0-9_-]+$`, c)
		if len(token) > 8 {
			require.NotContains(t, c, token)
		}
		k := ring(t, "k1", map[string][]byte{"k1": key(1)})
		p, err := k.Open(b, c)
		require.NoError(t, err)
		require.Equal(t, At(token), p)
		again, err := k.Seal(b, At(token))
		require.NoError(t, err)
		require.NotEqual(t, c, again)
		require.Len(t, again, len(c))
	})
}

// TestEveryField_P1_A8 changes one field of the binding at a time, whichever
// fields there are.
func TestEveryField_P1_A8(t *testing.T) {
	k := ring(t, "k1", map[string][]byte{"k1": key(1)})
	c, err := k.Seal(bound, At("page-2"))
	require.NoError(t, err)
	typ := reflect.TypeFor[Binding]()
	for i := range typ.NumField() {
		other := bound
		switch f := reflect.ValueOf(&other).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int64:
			f.SetInt(f.Int() + 1)
		default:
			require.Fail(t, "a field of a kind that this test does not know", typ.Field(i).Name)
		}
		p, err := k.Open(other, c)
		invalid(t, p, err, typ.Field(i).Name)
	}
}

// TestBorders_P1 moves text from one field into the next.
func TestBorders_P1(t *testing.T) {
	k := ring(t, "k1", map[string][]byte{"k1": key(1)})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Binding {
			s := rapid.SliceOfN(rapid.StringMatching(`[ab\x00]{0,3}`), 9, 9).Draw(t, name)
			return Binding{s[0], s[1], s[2], s[3], 1, s[4], s[5], s[6], s[7], s[8]}
		}
		a, b := draw("a"), draw("b")
		c, err := k.Seal(a, At("x"))
		require.NoError(t, err)
		p, err := k.Open(b, c)
		if a == b {
			require.NoError(t, err)
			return
		}
		invalid(t, p, err)
	})
}

// TestEveryBit_P1 flips each bit of a cursor, and cuts it at each byte.
func TestEveryBit_P1(t *testing.T) {
	k := ring(t, "k1", map[string][]byte{"k1": key(1), "k0": key(0), "k3": key(1)})
	c, err := k.Seal(bound, At("page-2"))
	require.NoError(t, err)
	for i := range len(c) {
		for bit := range 8 {
			edited := []byte(c)
			edited[i] ^= 1 << bit
			p, err := k.Open(bound, string(edited))
			invalid(t, p, err, "bit %d of byte %d", bit, i)
		}
		p, err := k.Open(bound, c[:i])
		invalid(t, p, err, "cut at %d", i)
	}
	for _, row := range []struct{ why, cursor string }{
		{"nothing", ""},
		{"only an id", "k1."},
		{"a line break inside", c[:20] + "\n" + c[20:]},
		{"padding", c + "="},
		{"more behind it", c + "AAAA"},
		{"another alphabet", strings.Replace(c, ".", "+", 1)},
		{"under another key's id, the same key", "k3" + c[2:]},
		{"an id that nobody has", "zz" + c[2:]},
		{"no id", c[3:]},
		{"too long", c + strings.Repeat("A", MaxLength)},
		{"plain base64", base64.StdEncoding.EncodeToString([]byte("page-2"))},
	} {
		p, err := k.Open(bound, row.cursor)
		invalid(t, p, err, row.why)
	}
}

func TestRotation_P1(t *testing.T) {
	old := ring(t, "k1", map[string][]byte{"k1": key(1)})
	both := ring(t, "k2", map[string][]byte{"k1": key(1), "k2": key(2)})
	c, err := old.Seal(bound, At("x"))
	require.NoError(t, err)
	p, err := both.Open(bound, c)
	require.NoError(t, err)
	require.Equal(t, At("x"), p)
	c, err = both.Seal(bound, At("x"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(c, "k2."))
	p, err = old.Open(bound, c)
	invalid(t, p, err, "a key that this replica does not have yet")
	other := ring(t, "k2", map[string][]byte{"k2": key(3)})
	p, err = other.Open(bound, c)
	invalid(t, p, err, "the same id, another key")
}

func TestExpiry_P1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := NewKeyring("", nil, &KeyringOptions{Life: 10 * time.Minute})
		require.NoError(t, err)
		c, err := k.Seal(bound, At("x"))
		require.NoError(t, err)
		time.Sleep(10*time.Minute - time.Second)
		_, err = k.Open(bound, c)
		require.NoError(t, err)
		time.Sleep(time.Second)
		p, err := k.Open(bound, c)
		invalid(t, p, err)
	})
}

func TestKeyOfTheProcess(t *testing.T) {
	a, b := ring(t, "", nil), ring(t, "", nil)
	c, err := a.Seal(bound, At(""))
	require.NoError(t, err)
	require.NotEmpty(t, c)
	p, err := a.Open(bound, c)
	require.NoError(t, err)
	require.Equal(t, At(""), p)
	p, err = b.Open(bound, c)
	invalid(t, p, err, "another process")
}

func TestSealRefuses(t *testing.T) {
	k := ring(t, "", nil)
	for _, p := range []Position{{}, Start(), End(), Cut()} {
		c, err := k.Seal(bound, p)
		require.ErrorIs(t, err, toolresult.Internal)
		require.Empty(t, c)
	}
	c, err := k.Seal(bound, At(strings.Repeat("x", 2900)))
	require.NoError(t, err)
	require.LessOrEqual(t, len(c), MaxLength)
	for _, n := range []int{3100, MaxLength + 1, 1 << 20} {
		_, err = k.Seal(bound, At(strings.Repeat("x", n)))
		require.ErrorIs(t, err, ErrToken)
	}
	_, err = (&Keyring{}).Seal(bound, At("x"))
	require.Error(t, err)
	p, err := (&Keyring{}).Open(bound, c)
	invalid(t, p, err, "the zero keyring")
	p, err = (*Keyring)(nil).Open(bound, c)
	invalid(t, p, err, "no keyring")
}

// TestLengthSaysLittle: offsets and short tokens all look alike.
func TestLengthSaysLittle(t *testing.T) {
	k := ring(t, "", nil)
	lengths := map[int]bool{}
	for n := range 55 {
		c, err := k.Seal(bound, At(strings.Repeat("x", n)))
		require.NoError(t, err)
		lengths[len(c)] = true
	}
	require.Len(t, lengths, 1)
}

func FuzzOpen(f *testing.F) {
	k := ring(f, "k1", map[string][]byte{"k1": key(1)})
	c, err := k.Seal(bound, At("page-2"))
	require.NoError(f, err)
	f.Add(c)
	f.Add("")
	f.Add("k1.")
	f.Add("k1." + strings.Repeat("A", 38))
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := k.Open(bound, text); err == nil {
			require.Equal(t, At("page-2"), p) // nobody can make another
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	k := ring(b, "", nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Seal(bound, At("https://api.example/next?page=2")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	k := ring(b, "", nil)
	c, err := k.Seal(bound, At("https://api.example/next?page=2"))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Open(bound, c); err != nil {
			b.Fatal(err)
		}
	}
}

// A keyring that all replicas share.
func ExampleKeyring() {
	keys := map[string][]byte{"2026-11": bytes.Repeat([]byte{1}, 32)} // from the secret store
	k, err := NewKeyring("2026-11", keys, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed, _ := k.Seal(Binding{Tenant: "acme", Subject: "alice"}, At("page-2"))
	p, _ := k.Open(Binding{Tenant: "acme", Subject: "alice"}, sealed)
	token, _ := p.Token()
	fmt.Println(token)

	_, err = k.Open(Binding{Tenant: "acme", Subject: "mallory"}, sealed)
	fmt.Println(err)
	// Output:
	// page-2
	// CURSOR_INVALID: start the listing again
}
