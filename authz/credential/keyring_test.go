package credential_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
)

func key32(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func keyring(t require.TestingT, current string, keys map[string][]byte) *credential.Keyring {
	k, err := credential.NewKeyring(current, keys)
	require.NoError(t, err)
	return k
}

var place = credential.Place{Tenant: "acme", Record: "conn-1", Field: "refresh_token"}

func TestKeyringRefuses_C2(t *testing.T) {
	for _, row := range []struct {
		why, current string
		keys         map[string][]byte
		says         string
	}{
		{"a short key", "a", map[string][]byte{"a": make([]byte, 16)}, `"a" has 16 bytes, and not 32`},
		{"no key behind an id", "a", map[string][]byte{"a": nil}, `"a" has 0 bytes`},
		{"no keys", "a", nil, "the current one is not among them"},
		{"a current one that is not there", "b", map[string][]byte{"a": key32(1)}, "the current one is not among them"},
		{"an id of nothing", "", map[string][]byte{"": key32(1)}, "an id is not"},
		{"an id with a slash", "a/b", map[string][]byte{"a/b": key32(1)}, "an id is not"},
		{"a long id", strings.Repeat("a", 33), map[string][]byte{strings.Repeat("a", 33): key32(1)}, "an id is not"},
	} {
		k, err := credential.NewKeyring(row.current, row.keys)
		require.ErrorIs(t, err, credential.ErrKeys, row.why)
		require.ErrorContains(t, err, row.says, row.why)
		require.Nil(t, k, row.why)
	}
	var zero credential.Keyring
	_, err := zero.Seal(place, nil)
	require.ErrorIs(t, err, credential.ErrKeys, "the zero keyring seals nothing")
	_, err = zero.Open(place, []byte{1, 1, 'a'})
	require.ErrorIs(t, err, credential.ErrKeys, "and opens nothing")
	k := keyring(t, "a", map[string][]byte{"a": key32(1)})
	for _, at := range []credential.Place{{}, {Tenant: "t", Record: "r"}, {Tenant: "t", Field: "f"}, {Record: "r", Field: "f"}} {
		_, err := k.Seal(at, []byte("x"))
		require.ErrorIs(t, err, credential.ErrPlace, "a place has a tenant, a record and a field")
	}
}

func TestKeyringRoundTrip_C2(t *testing.T) {
	k := keyring(t, "a", map[string][]byte{"a": key32(1)})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		at := credential.Place{Tenant: rapid.StringN(1, 9, -1).Draw(t, "tenant"), Record: rapid.StringN(1, 9, -1).Draw(t, "record"), Field: rapid.StringN(1, 9, -1).Draw(t, "field")}
		one, err := k.Seal(at, text)
		require.NoError(t, err)
		two, err := k.Seal(at, text)
		require.NoError(t, err)
		require.NotEqual(t, one, two, "the same text sealed twice differs")
		if len(text) > 4 {
			require.NotContains(t, string(one), string(text))
		}
		got, err := k.Open(at, one)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, got))
		i := rapid.IntRange(0, len(one)-1).Draw(t, "byte")
		one[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		_, err = k.Open(at, one)
		require.Error(t, err, "one byte altered")
		_, err = k.Open(at, two[:rapid.IntRange(0, len(two)-1).Draw(t, "cut")])
		require.Error(t, err, "cut short")
	})
}

func TestKeyringPlaces_C2(t *testing.T) {
	k := keyring(t, "a", map[string][]byte{"a": key32(1)})
	for why, other := range map[string]credential.Place{
		"another tenant":             {Tenant: "globex", Record: "conn-1", Field: "refresh_token"},
		"another record":             {Tenant: "acme", Record: "conn-2", Field: "refresh_token"},
		"another field":              {Tenant: "acme", Record: "conn-1", Field: "access_token"},
		"the same letters elsewhere": {Tenant: "acmec", Record: "onn-1", Field: "refresh_token"},
		"nowhere":                    {},
	} {
		sealed, err := k.Seal(place, []byte("secret"))
		require.NoError(t, err)
		_, err = k.Open(other, sealed)
		require.ErrorIs(t, err, credential.ErrSealed, why)
	}
}

// A key is added, becomes the current one, and the old one goes.
func TestKeyringRotation_C2(t *testing.T) {
	old := keyring(t, "2025", map[string][]byte{"2025": key32(1)})
	both := keyring(t, "2026", map[string][]byte{"2025": key32(1), "2026": key32(2)})
	gone := keyring(t, "2026", map[string][]byte{"2026": key32(2)})
	sealed, err := old.Seal(place, []byte("secret"))
	require.NoError(t, err)
	require.False(t, old.Stale(sealed))
	require.True(t, both.Stale(sealed), "it should be sealed again")
	text, err := both.Open(place, sealed)
	require.NoError(t, err)
	require.Equal(t, "secret", string(text))
	again, err := both.Seal(place, text)
	require.NoError(t, err)
	require.False(t, both.Stale(again))
	_, err = gone.Open(place, again)
	require.NoError(t, err)
	_, err = gone.Open(place, sealed)
	require.ErrorIs(t, err, credential.ErrKeyUnknown, "an unknown key is not an altered text")
	require.NotErrorIs(t, err, credential.ErrSealed)
	_, err = old.Open(place, again)
	require.ErrorIs(t, err, credential.ErrKeyUnknown, "a replica without the new key stops")

	relabelled := bytes.Replace(sealed, []byte("2025"), []byte("2026"), 1)
	_, err = both.Open(place, relabelled)
	require.ErrorIs(t, err, credential.ErrSealed, "the key's id is authenticated")
	require.False(t, both.Stale([]byte("plain")), "what nobody sealed is not stale")
}

func TestKeyringPrintsNothing_R10(t *testing.T) {
	k := keyring(t, "a", map[string][]byte{"a": []byte("0123456789abcdef0123456789abcdef")})
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T"} {
		fmt.Fprintf(&out, verb+verb, k, *k)
		fmt.Fprintf(&out, verb, []any{k, struct{ K *credential.Keyring }{k}})
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "k", k)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "k", k)
	text, err := json.Marshal([]any{k})
	require.NoError(t, err)
	out.Write(text)
	for _, leak := range []string{"0123456789", "30 31 32 33", "30313233", "48 49 50", "AEAD", "gcm"} {
		require.NotContains(t, out.String(), leak)
	}
}

func FuzzKeyringOpen(f *testing.F) {
	k := keyring(f, "a", map[string][]byte{"a": key32(1)})
	// always the same: each process of a fuzzer would seal it differently
	sealed, err := hex.DecodeString("0101612d0ba3d8eecb741b17100368bf63b86d0ac5678ba7d50629c975446e4f8230ea1bb5")
	require.NoError(f, err)
	f.Add(sealed)
	f.Add([]byte{})
	f.Add([]byte{1, 255})
	f.Add([]byte{1, 1, 'b', 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := k.Open(place, b)
		k.Stale(b)
		if bytes.Equal(b, sealed) {
			require.NoError(t, err)
			require.Equal(t, "secret", string(text), "what earlier versions sealed stays readable")
			return
		}
		require.Error(t, err, "nobody sealed this")
		require.Nil(t, text)
	})
}

func BenchmarkKeyring(b *testing.B) {
	k := keyring(b, "a", map[string][]byte{"a": key32(1)})
	text := bytes.Repeat([]byte("x"), 1024)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		sealed, err := k.Seal(place, text)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := k.Open(place, sealed); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleKeyring() {
	keys := map[string][]byte{"2026-11": bytes.Repeat([]byte{7}, 32)} // from the host's secret store
	k, err := credential.NewKeyring("2026-11", keys)
	if err != nil {
		fmt.Println(err)
		return
	}
	at := credential.Place{Tenant: "acme", Record: "connection-1", Field: "refresh_token"}
	sealed, err := k.Seal(at, []byte("a refresh token"))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := k.Open(at, sealed)
	fmt.Println(string(text), err)
	at.Tenant = "globex"
	_, err = k.Open(at, sealed)
	fmt.Println(err)
	// Output:
	// a refresh token <nil>
	// credential: not sealed for this place, or altered
}
