package schema

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendCanonical writes a value in the form of RFC 8785. It sorts the members
// of v. The value must have been read in strict form.
func appendCanonical(b []byte, v *value) []byte {
	switch v.kind {
	case kindNull:
		return append(b, "null"...)
	case kindBool:
		return strconv.AppendBool(b, v.num != 0)
	case kindString:
		return appendString(b, v.text)
	case kindNumber:
		return appendNumber(b, v)
	case kindArray:
		b = append(b, '[')
		for i := range v.kids {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, &v.kids[i])
		}
		return append(b, ']')
	}
	slices.SortFunc(v.kids, func(x, y value) int { return compare16(x.name, y.name) })
	b = append(b, '{')
	for i := range v.kids {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, v.kids[i].name)
		b = append(b, ':')
		b = appendCanonical(b, &v.kids[i])
	}
	return append(b, '}')
}

// compare16 orders by UTF-16 code units (RFC 8785, section 3.2.3). That is the
// order of bytes, but that characters above U+FFFF sort before U+E000.
func compare16(x, y string) int {
	for i := 0; i < len(x) && i < len(y); i++ {
		a, b := x[i], y[i]
		if a == b {
			continue
		}
		if (a >= 0xf0) != (b >= 0xf0) && min(a, b) >= 0xee {
			return int(b) - int(a)
		}
		return int(a) - int(b)
	}
	return len(x) - len(y)
}

// appendNumber writes a number as ECMAScript does.
func appendNumber(b []byte, v *value) []byte {
	f := v.num
	switch abs := math.Abs(f); {
	case f == 0:
		return append(b, '0') // minus zero as well
	case abs >= 1e-6 && abs < 1e21:
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	// e-09 is e-9 there.
	if n := len(b); b[n-4] == 'e' && b[n-2] == '0' {
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for {
		i := strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' })
		if i < 0 {
			break
		}
		b = append(b, s[:i]...)
		if j := strings.IndexByte("\"\\\b\f\n\r\t", s[i]); j >= 0 {
			b = append(b, '\\', `"\bfnrt`[j])
		} else {
			b = append(b, '\\', 'u', '0', '0', hex[s[i]>>4], hex[s[i]&15])
		}
		s = s[i+1:]
	}
	b = append(b, s...)
	return append(b, '"')
}

// list joins names for people, and stops before it is too long to read.
func list(names []string) string {
	const most = 30
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
	}
	return strings.Join(names, ", ")
}

// cut returns at most 64 bytes of s, valid and in one line.
func cut(s string) string {
	if len(s) > 64 {
		s = s[:64]
		for len(s) > 0 && !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}
