// Package aead reads the keys of a key ring. What is sealed with them, and what
// for, is its callers' affair.
package aead

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

const (
	// KeySize is the length of a key, in bytes: AES-256.
	KeySize = 32

	maxID = 32
)

// Keys returns AES-256-GCM under random nonces for each key, by its id. The one
// that is current has to be among them. Its errors name ids, and no key.
func Keys(current string, keys map[string][]byte) (map[string]cipher.AEAD, error) {
	out := map[string]cipher.AEAD{}
	for id, key := range keys {
		if !ValidID(id) {
			return nil, errors.New("an id is not 1 to 32 letters, digits, dashes and underscores")
		}
		if len(key) != KeySize {
			return nil, fmt.Errorf("%q has %d bytes, and not %d", id, len(key), KeySize)
		}
		b, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", id, err)
		}
		if out[id], err = cipher.NewGCMWithRandomNonce(b); err != nil {
			return nil, fmt.Errorf("%q: %w", id, err)
		}
	}
	if out[current] == nil {
		return nil, errors.New("the current one is not among them")
	}
	return out, nil
}

// ValidID reports whether id can name a key: 1 to 32 ASCII letters, digits,
// dashes and underscores.
func ValidID(id string) bool {
	for _, c := range []byte(id) {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= maxID
}
