package credential

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/drawbridge-sdk/drawbridge/internal/aead"
)

// Place says where a sealed text is kept. It is authenticated with the text: what
// was sealed for one place opens at no other, so that nobody who can write to a
// database moves a token to another tenant, connection or column. It is
// comparable and holds no secret.
type Place struct {
	Tenant string // whose text it is; needed
	Record string // which record holds it: the id of a connection, of an operation; needed
	Field  string // which field of the record; needed
}

// bytes encodes a place under a key so that no two have the same bytes: each
// text has its length before it.
func (p Place) bytes(key string) []byte {
	out := make([]byte, 0, 256)
	for _, text := range [...]string{"drawbridge sealed 1", key, p.Tenant, p.Record, p.Field} {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	return out
}

func (p Place) whole() bool { return p.Tenant != "" && p.Record != "" && p.Field != "" }

const (
	sealed1   = 1 // first byte of what this version seals
	maxSealed = 1 << 30
)

// Errors of a Keyring. None holds a key or a text.
var (
	// ErrKeys is what NewKeyring returns, wrapped, for keys that cannot be used,
	// and what the zero Keyring says.
	ErrKeys = errors.New("credential: keys")

	// ErrKeyUnknown says that a text is sealed under a key that is not in the
	// keyring. That is an operator's mistake, and nothing is known to be wrong
	// with the text: whoever reads it stops, and loses nothing.
	ErrKeyUnknown = errors.New("credential: sealed under a key that is not in the keyring; add it, and do not delete what it sealed")

	// ErrSealed says that bytes were not sealed for this place, or were altered.
	ErrSealed = errors.New("credential: not sealed for this place, or altered")

	// ErrPlace says that a place lacks its tenant, record or field, or that a
	// text is longer than 1 GiB.
	ErrPlace = errors.New("credential: want a tenant, a record, a field, and a text of at most 1 GiB")
)

// Keyring seals texts at rest with AES-256-GCM under random nonces, each for
// one [Place]. It is immutable and safe for concurrent use. The zero Keyring seals and
// opens nothing. It prints no key under any verb.
//
// It does not stop somebody who can write to the database from putting an older
// text back into its own place; a version in Record does, where that matters.
type Keyring struct {
	current string
	keys    map[string]cipher.AEAD
}

// NewKeyring returns a keyring that seals with keys[current] and opens with all
// of them. Keys have 32 random bytes, and ids 1 to 32 letters, digits, dashes
// and underscores; an id is stored in clear with each text and never means
// another key.
//
// To rotate, give the new key to every replica, then make it the current one,
// then seal again what [Keyring.Stale] reports, then take the old one away. A
// key should seal fewer than 2^32 texts (NIST SP 800-38D, 8.3).
func NewKeyring(current string, keys map[string][]byte) (*Keyring, error) {
	all, err := aead.Keys(current, keys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	return &Keyring{current, all}, nil
}

// Seal returns text sealed for one place: a version, the length of the key's
// id, the id, a nonce, the sealed text and a tag; 30 bytes and the id more than
// the text. The same text sealed twice differs.
func (k *Keyring) Seal(at Place, text []byte) ([]byte, error) {
	switch {
	case k == nil || k.keys == nil:
		return nil, ErrKeys
	case !at.whole() || len(text) > maxSealed:
		return nil, ErrPlace
	}
	key := k.keys[k.current]
	out := make([]byte, 0, 2+len(k.current)+len(text)+key.Overhead())
	out = append(out, sealed1, byte(len(k.current)))
	out = append(out, k.current...)
	return key.Seal(out, nil, text, at.bytes(k.current)), nil
}

// Open returns the text. It fails with [ErrKeyUnknown], or with [ErrSealed],
// which does not say whether the place or the bytes are wrong.
func (k *Keyring) Open(at Place, sealed []byte) ([]byte, error) {
	if k == nil || k.keys == nil {
		return nil, ErrKeys
	}
	id, rest, ok := keyOf(sealed)
	if !ok {
		return nil, ErrSealed
	}
	key := k.keys[id]
	if key == nil {
		return nil, ErrKeyUnknown
	}
	text, err := key.Open(nil, nil, rest, at.bytes(id))
	if err != nil {
		return nil, ErrSealed
	}
	return text, nil
}

// Stale reports whether bytes that Seal made are under another key than the
// current one. It does not open them: bytes that nobody sealed are not stale.
func (k *Keyring) Stale(sealed []byte) bool {
	id, _, ok := keyOf(sealed)
	return ok && k != nil && id != k.current
}

// keyOf splits what Seal made.
func keyOf(sealed []byte) (id string, rest []byte, ok bool) {
	if len(sealed) < 2 || sealed[0] != sealed1 {
		return "", nil, false
	}
	n, body := int(sealed[1]), sealed[2:]
	if n > len(body) {
		return "", nil, false
	}
	id = string(body[:n])
	return id, body[n:], aead.ValidID(id)
}

// Format implements [fmt.Formatter], so that no verb prints a key.
func (k Keyring) Format(f fmt.State, verb rune) { io.WriteString(f, "credential.Keyring") }

// LogValue implements [slog.LogValuer].
func (k Keyring) LogValue() slog.Value { return slog.StringValue("credential.Keyring") }
