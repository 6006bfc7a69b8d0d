package schema

import (
	"encoding/json"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// FitsForm reports whether the content of a form, an object of JSON, fits the
// schema that it was asked for with. A schema that is none is fitted by nothing.
func FitsForm(form, content []byte) bool {
	var s jsonschema.Schema
	var v map[string]any
	if json.Unmarshal(form, &s) != nil || json.Unmarshal(content, &v) != nil {
		return false
	}
	if v == nil {
		v = map[string]any{}
	}
	resolved, err := s.Resolve(nil)
	return err == nil && resolved.Validate(v) == nil
}

// plain are the words of a text that asks for a secret. Those of two words are
// looked for side by side.
var plain = map[string]bool{
	"password": true, "passwords": true, "passwd": true, "pwd": true, "passphrase": true, "passcode": true, "pin": true, "otp": true, "totp": true,
	"secret": true, "secrets": true, "token": true, "tokens": true, "credential": true, "credentials": true, "jwt": true, "cookie": true, "cookies": true, "bearer": true,
	"cvv": true, "cvc": true, "ssn": true, "iban": true, "mnemonic": true,
	"api key": true, "access key": true, "private key": true, "secret key": true, "apikey": true, "signing key": true, "ssh key": true, "encryption key": true,
	"security code": true, "verification code": true, "recovery code": true, "backup code": true, "time code": true, "2fa code": true, "mfa code": true,
	"card number": true, "credit card": true, "social security": true, "seed phrase": true, "recovery phrase": true,
}

// AsksForSecret reports whether one of the texts, which are names, titles and
// explanations of a field for people, asks for a secret. It errs on the side of
// refusing: "token" is one, also where a lottery is meant.
func AsksForSecret(texts ...string) bool {
	for _, t := range texts {
		if n, ok := trusted(t); ok && n.never {
			return true
		}
		ws := words(t)
		for i, w := range ws {
			if plain[w] || i > 0 && plain[ws[i-1]+" "+w] {
				return true
			}
		}
		for w := range plain {
			if strings.EqualFold(strings.Join(ws, ""), strings.ReplaceAll(w, " ", "")) {
				return true
			}
		}
	}
	return false
}
