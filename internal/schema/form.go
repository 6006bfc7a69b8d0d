package schema

import (
	"encoding/json"
	"errors"
	"fmt"
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

// ErrSecretForm is what CheckForm returns, wrapped, for a form that asks for a
// secret.
var ErrSecretForm = errors.New("a form must not ask for a secret; send the user to a page of yours by its URL")

// CheckForm refuses the schema of a form that is not an object of plain fields, or
// has a field for a secret. It looks at all that a person reads of a field.
func CheckForm(form []byte) error {
	var f struct {
		Type       string `json:"type"`
		Properties map[string]struct {
			Title       string `json:"title"`
			Description string `json:"description"`
			Format      string `json:"format"`
			WriteOnly   bool   `json:"writeOnly"`
			Properties  any    `json:"properties"`
		} `json:"properties"`
	}
	if json.Unmarshal(form, &f) != nil || f.Type != "object" {
		return errors.New("the form's schema is not an object of plain fields")
	}
	for field, p := range f.Properties {
		switch {
		case AsksForSecret(field, p.Title, p.Description), p.Format == "password", p.WriteOnly:
			return fmt.Errorf("the field %q asks for a secret: %w", field, ErrSecretForm)
		case p.Properties != nil:
			return fmt.Errorf("the field %q is not a plain one", field)
		}
	}
	return nil
}
