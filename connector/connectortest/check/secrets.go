package check

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// written is one way in which a secret is written.
type written struct{ how, text string }

// Reveals says how a text holds something that may be seen nowhere (see
// [Session.Hidden]), such as "in base64"; "" if it does not. It does not look into
// what is compressed, nor for secrets of under 8 bytes.
func (s *Session) Reveals(text string) (how string) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	for _, secret := range s.run.canaries {
		forms, ok := s.run.forms[secret]
		if !ok {
			forms = ways(secret)
			s.run.forms[secret] = forms
		}
		for _, f := range forms {
			if strings.Contains(text, f.text) {
				return f.how
			}
		}
	}
	return ""
}

// ways are the forms that a secret is looked for in.
func ways(secret string) (out []written) {
	if len(secret) < 8 {
		return nil
	}
	quoted, err := json.Marshal(secret)
	if err != nil {
		quoted = []byte(secret)
	}
	reversed := []byte(secret)
	slices.Reverse(reversed)
	code := hex.EncodeToString([]byte(secret))
	out = []written{
		{"as it is", secret}, {"in hexadecimal", code}, {"in hexadecimal", strings.ToUpper(code)}, {"as part of a URL", url.QueryEscape(secret)},
		{"as part of a path", url.PathEscape(secret)}, {"as JSON", strings.Trim(string(quoted), `"`)}, {"backwards", string(reversed)},
	}
	// base64 at each of the three places that it can begin at, and without the
	// characters that depend on what is beside it
	for shift := range 3 {
		code := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		code = code[(shift*8+5)/6 : len(code)-1]
		out = append(out, written{"in base64", code}, written{"in base64", strings.NewReplacer("+", "-", "/", "_").Replace(code)})
	}
	// most of it: what is masked at one end only
	size := max(12, len(secret)*3/4)
	for i := 0; i+size <= len(secret); i++ {
		out = append(out, written{"most of it", secret[i : i+size]})
	}
	return out
}
