package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
)

// ErrNoJSON says that a value of the front matter has no form in JSON that every
// reader reads alike: infinity, not-a-number, and numbers that a float64 does
// not hold exactly.
var ErrNoJSON = errors.New("skill: a number of the front matter has no exact form in JSON; quote it")

// JSON returns the front matter as JSON, every field in the order of the text,
// with plain values read by the core schema of YAML 1.2 (section 10.3.2). That
// is what hosts compare a served skill with (SEP-2640): "017" is 17, and
// 2026-01-02 and yes are text. The error wraps [ErrNoJSON] and names the line.
func (d *Document) JSON() ([]byte, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, d.root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeJSON(b *bytes.Buffer, n *strictyaml.Node) error {
	switch n.Kind {
	case strictyaml.Text:
		return writeScalar(b, n)
	case strictyaml.Map:
		b.WriteByte('{')
		for i, k := range n.Keys {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, k.Text)
			b.WriteByte(':')
			if err := writeJSON(b, n.Values[i]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		b.WriteByte('[')
		for i, v := range n.Values {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, v); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	}
	return nil
}

func writeText(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always has a form, and a Buffer takes it
	b.Truncate(b.Len() - 1)
}

func writeScalar(b *bytes.Buffer, n *strictyaml.Node) error {
	if n.Plain {
		switch t := coreType(n.Text); t {
		case coreNull:
			b.WriteString("null")
			return nil
		case coreBool:
			b.WriteString(strings.ToLower(n.Text))
			return nil
		case coreInt, coreFloat:
			text, ok := number(n.Text, t)
			if !ok {
				return fmt.Errorf("%w (line %d)", ErrNoJSON, 1+n.Line)
			}
			b.Write(text)
			return nil
		}
	}
	writeText(b, n.Text)
	return nil
}

// core is a type of the core schema.
type core uint8

const (
	coreText core = iota
	coreNull
	coreBool
	coreInt
	coreFloat
)

func isNull(s string) bool { return coreType(s) == coreNull }

// coreType resolves a plain scalar.
func coreType(s string) core {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return coreNull
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return coreBool
	case ".nan", ".NaN", ".NAN":
		return coreFloat
	}
	rest := s
	if s[0] == '-' || s[0] == '+' {
		rest = s[1:]
	}
	switch {
	case rest == ".inf" || rest == ".Inf" || rest == ".INF":
		return coreFloat
	case len(s) > 2 && s[:2] == "0o" && strings.Trim(s[2:], "01234567") == "",
		len(s) > 2 && s[:2] == "0x" && strings.Trim(s[2:], "0123456789abcdefABCDEF") == "",
		rest != "" && digits(rest) == len(rest):
		return coreInt
	case decimal(rest):
		return coreFloat
	}
	return coreText
}

// digits counts the decimal digits that s begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// decimal matches ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
func decimal(s string) bool {
	whole := digits(s)
	s = s[whole:]
	if frac, ok := strings.CutPrefix(s, "."); ok {
		n := digits(frac)
		if whole == 0 && n == 0 {
			return false
		}
		s = frac[n:]
	} else if whole == 0 {
		return false
	}
	if s == "" {
		return true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	return s != "" && digits(s) == len(s)
}

// number writes a number as JavaScript would; !ok if that is not exact.
func number(s string, t core) ([]byte, bool) {
	if t == coreInt {
		base := 10
		if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0o") {
			base = map[byte]int{'x': 16, 'o': 8}[s[1]]
			s = s[2:]
		}
		i, err := strconv.ParseInt(s, base, 64)
		return strconv.AppendInt(nil, i, 10), err == nil && i >= -(1<<53) && i <= 1<<53
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, false
	}
	if f == 0 {
		f = 0 // JavaScript writes -0 as 0
	}
	text, err := json.Marshal(f)
	return text, err == nil
}

// ambiguous reports whether readers of YAML disagree about what a plain scalar
// is: everything that is not text in the core schema, and what YAML 1.1 readers
// take for a boolean, a number or a date.
func ambiguous(s string) bool {
	if coreType(s) != coreText {
		return true
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off":
		return true
	}
	rest := strings.TrimLeft(s, "+-")
	if rest == "" || rest[0] < '0' || rest[0] > '9' {
		return false
	}
	switch {
	case len(rest) >= 8 && digits(rest) == 4 && rest[4] == '-': // dates
		return strings.Trim(rest, "0123456789-:.+ tTzZ") == ""
	case strings.HasPrefix(rest, "0b"):
		return strings.Trim(rest[2:], "01_") == ""
	case strings.HasPrefix(rest, "0x"):
		return strings.Trim(rest[2:], "0123456789abcdefABCDEF_") == ""
	}
	return strings.Trim(rest, "0123456789_:.") == "" && strings.Count(rest, ".") < 2 // 1_000 and 1:30
}
