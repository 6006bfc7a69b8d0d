package cursor

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/aead"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Binding is everything that a cursor is good for. A cursor opened with
// another Binding is CURSOR_INVALID, whichever field differs. It is
// comparable.
type Binding struct {
	Tenant, Issuer, Subject string
	Connection              string
	Generation              int64  // of the connection
	Capability, Version     string //
	Query                   string // digest of the arguments without the cursor
	Scope                   string // digest of the grant's scope
	Revision                string // of the policy
}

// bytes encodes a binding so that no two have the same bytes: each text has its
// length before it. The key id is part of it, so that a cursor cannot be told
// to be under another key.
func (b Binding) bytes(key string) []byte {
	texts := [...]string{"drawbridge cursor 1", key, b.Tenant, b.Issuer, b.Subject, b.Connection, b.Capability, b.Version, b.Query, b.Scope, b.Revision}
	out := make([]byte, 0, 512)
	for _, t := range texts {
		out = binary.AppendUvarint(out, uint64(len(t)))
		out = append(out, t...)
	}
	return binary.BigEndian.AppendUint64(out, uint64(b.Generation))
}

const (
	// MaxLength is the longest cursor, in bytes. Seal refuses to make a longer
	// one, and Open looks no further at one.
	MaxLength = 4096

	// block is what tokens are padded to before they are sealed, so that the
	// length of a cursor says little about what is in it.
	block = 64
)

// ErrKeys is what NewKeyring returns, wrapped, for keys that cannot be used. It
// never holds a key.
var ErrKeys = errors.New("cursor: keys")

// ErrToken says that a token is too long to be sealed. A provider's token of
// more than about 2,900 bytes cannot be passed on: the page is cursor.Cut.
var ErrToken = errors.New("cursor: the provider's token is too long for a cursor")

// Keyring seals and opens cursors with AES-256-GCM under random nonces. It is
// safe for concurrent use. The zero Keyring is refused: it seals and opens
// nothing.
type Keyring struct {
	current string
	keys    map[string]cipher.AEAD
	life    time.Duration
}

// KeyringOptions are options of NewKeyring.
type KeyringOptions struct {
	// Life is how long a cursor can be used. 0: one hour. At most a year.
	Life time.Duration
}

// NewKeyring returns a keyring that seals with keys[current] and opens with all
// of them: a new key is given to all replicas before it becomes the current
// one, and an old one is kept for another Life. Keys have 32 random bytes, and
// ids 1 to 32 letters, digits, dashes and underscores; ids are seen by callers.
// A key should seal fewer than 2^32 cursors.
//
// With no keys at all the keyring makes one of its own, which ends with the
// process and is not shared with other replicas.
func NewKeyring(current string, keys map[string][]byte, opts *KeyringOptions) (*Keyring, error) {
	k := &Keyring{current: current, life: time.Hour}
	if opts != nil && opts.Life != 0 {
		k.life = opts.Life
	}
	if k.life < 0 || k.life > 365*24*time.Hour {
		return nil, errors.New("cursor: a life is not between nothing and a year")
	}
	if len(keys) == 0 {
		own := make([]byte, aead.KeySize)
		rand.Read(own)
		k.current, keys = "process", map[string][]byte{"process": own}
	}
	var err error
	if k.keys, err = aead.Keys(k.current, keys); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	return k, nil
}

// Seal returns an opaque, URL-safe cursor that is never empty. p is At; any
// other position is a mistake of the caller and INTERNAL. A token that is too
// long is [ErrToken].
//
// A cursor is a key id, a dot, and the base64url form without padding of a
// nonce, the sealed text and a tag. The sealed text is when the cursor expires,
// in seconds since 1970, the length of the token, the token, and zeros up to
// a whole block. Everything in the binding is associated data.
func (k *Keyring) Seal(b Binding, p Position) (string, error) {
	token, ok := p.Token()
	if k == nil || k.keys == nil || !ok {
		return "", toolresult.NewError(toolresult.Internal, "a cursor was asked for at a position that has none")
	}
	if len(token) > MaxLength {
		return "", ErrToken
	}
	const head = 8 + 2
	size := (head + len(token) + block - 1) / block * block
	text := make([]byte, 0, size)
	text = binary.BigEndian.AppendUint64(text, uint64(time.Now().Add(k.life).Unix()))
	text = binary.BigEndian.AppendUint16(text, uint16(len(token)))
	text = append(text, token...)[:size]

	sealed := k.keys[k.current].Seal(nil, nil, text, b.bytes(k.current))
	n := len(k.current) + 1 + base64.RawURLEncoding.EncodedLen(len(sealed))
	if n > MaxLength {
		return "", ErrToken
	}
	out := make([]byte, 0, n)
	out = append(append(out, k.current...), '.')
	return string(base64.RawURLEncoding.AppendEncode(out, sealed)), nil
}

// Open returns the position, or CURSOR_INVALID. The error does not say which
// part of the binding differs, whether the cursor was edited, has expired, or
// is under a key that is gone.
func (k *Keyring) Open(b Binding, cursor string) (Position, error) {
	if k != nil && len(cursor) <= MaxLength {
		if token, ok := k.open(b, cursor); ok {
			return At(token), nil
		}
	}
	return Position{}, toolresult.NewError(toolresult.CursorInvalid, "start the listing again")
}

func (k *Keyring) open(b Binding, cursor string) (token string, ok bool) {
	id, body, found := strings.Cut(cursor, ".")
	key := k.keys[id]
	if !found || key == nil {
		return "", false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || strings.ContainsAny(body, "\r\n") { // which the decoder skips
		return "", false
	}
	text, err := key.Open(nil, nil, sealed, b.bytes(id))
	if err != nil || len(text) < 10 {
		return "", false
	}
	expires, n := binary.BigEndian.Uint64(text), int(binary.BigEndian.Uint16(text[8:]))
	if expires > math.MaxInt64 || !time.Now().Before(time.Unix(int64(expires), 0)) || n > len(text)-10 {
		return "", false
	}
	return string(text[10 : 10+n]), true
}
