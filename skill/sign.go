package skill

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Statement is what is signed: which package is which version of which skill. A
// signature of the digest alone would let an old package pass for a new version.
type Statement struct {
	Name, Version string
	Digest        Digest
}

// ErrSignature says that a signature does not hold. It matches
// [toolresult.PermissionDenied].
var ErrSignature = fmt.Errorf("skill: the signature does not hold: %w", toolresult.PermissionDenied)

var errStatement = errors.New("skill: a statement needs a name and a version without line ends, and a digest")

// Text is the bytes that are signed: a first line that is used for nothing else,
// and a line each for name, version and digest.
func (s Statement) Text() ([]byte, error) {
	if s.Name == "" || s.Version == "" || strings.ContainsAny(s.Name+s.Version, "\r\n") || !s.Digest.Valid() {
		return nil, errStatement
	}
	return []byte("drawbridge skill statement 1\n" + s.Name + "\n" + s.Version + "\n" + string(s.Digest) + "\n"), nil
}

// Signature is what a [Signer] says about a [Statement].
type Signature struct {
	Key   string // which key signed; how a Verifier finds it
	Bytes []byte
}

// Signer signs statements. It is safe for concurrent use.
type Signer interface {
	Sign(s Statement) (Signature, error)
}

// Verifier holds the keys that may sign. Verify returns nil for a signature of
// exactly s by one of them, and an error that wraps [ErrSignature] for anything
// else. It is safe for concurrent use.
type Verifier interface {
	Verify(s Statement, sig Signature) error
}

// NewSigner returns a [Signer] with an Ed25519 key (RFC 8032), whose public half
// verifiers know by the name key.
func NewSigner(key string, private ed25519.PrivateKey) (Signer, error) {
	if key == "" || len(private) != ed25519.PrivateKeySize {
		return nil, errors.New("skill: a signer needs the name of its key and an Ed25519 private key")
	}
	return signer{key, bytes.Clone(private)}, nil
}

type signer struct {
	key     string
	private ed25519.PrivateKey
}

func (s signer) Sign(st Statement) (Signature, error) {
	text, err := st.Text()
	if err != nil {
		return Signature{}, err
	}
	return Signature{s.key, ed25519.Sign(s.private, text)}, nil
}

// String and GoString keep the key out of logs.
func (s signer) String() string   { return "skill signer " + s.key }
func (s signer) GoString() string { return s.String() }

// Keys are a [Verifier] of Ed25519 keys by name. To rotate, list both; to
// revoke, leave the key out. Empty Keys accept nothing.
type Keys map[string]ed25519.PublicKey

// NewKeys returns a copy of keys and refuses ones that are none.
func NewKeys(keys map[string]ed25519.PublicKey) (Keys, error) {
	for name, k := range keys {
		if name == "" || len(k) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("skill: %s is not a named Ed25519 public key", quote(name))
		}
	}
	return maps.Clone(keys), nil
}

// Verify implements [Verifier].
func (k Keys) Verify(s Statement, sig Signature) error {
	text, err := s.Text()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	key, ok := k[sig.Key]
	if !ok {
		return fmt.Errorf("%w: there is no key %s", ErrSignature, quote(sig.Key))
	}
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, text, sig.Bytes) {
		return ErrSignature
	}
	return nil
}
