package token

import (
	"encoding/json"
	"math/big"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Answer is what a token endpoint gave. Reading it never fails for a detail: the
// server has rotated its tokens by then, and what is lost here is lost for good.
type Answer struct {
	Access, Refresh Secret
	// Usable says that Access is for use as a bearer token. If not, its type is
	// another, and only Refresh is worth anything.
	Usable bool

	Lifetime time.Duration // of Access, from Sent; 0 if the server said nothing that makes sense
	Scopes   []string      // sorted
	Scoped   bool          // the server said which scopes; if not, Scopes is empty
	Issued   string        // issued_token_type (RFC 8693)
	Sent     time.Time     // when the request began: a lifetime counted from then is never too long
}

// read turns a reply into an answer.
func (c *Client) read(r *reply) (*Answer, *Failure) {
	m := members(r)
	if code := text(m["error"]); code != "" || r.status/100 != 2 {
		return nil, c.refusal(r, code)
	}
	if c.c.At != "" {
		m = descend(m, c.c.At)
	}
	a := &Answer{
		Access: NewSecret(text(m["access_token"])), Refresh: NewSecret(text(m["refresh_token"])),
		Lifetime: lifetime(m["expires_in"]), Issued: text(m["issued_token_type"]),
	}
	if a.Access.IsZero() {
		return nil, &Failure{Status: r.status} // no answer that anybody can read: outcome unknown
	}
	typ := strings.ToLower(text(m["token_type"]))
	a.Usable = typ == "bearer" || slices.ContainsFunc(c.c.Types, func(t string) bool { return strings.EqualFold(t, typ) })
	a.Scopes, a.Scoped = c.scopes(m["scope"])
	return a, nil
}

// code returns the error code of a body.
func (c *Client) code(body []byte) string {
	return text(members(&reply{body: body})["error"])
}

// members reads an object, or a form for servers that answer with one whatever
// is asked for (GitHub). It returns nil for anything else. A name that stands
// twice counts as it does last: refusing the whole would lose the tokens.
func members(r *reply) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(r.body, &m) == nil {
		return m
	}
	if typ, _, _ := mime.ParseMediaType(r.header.Get("Content-Type")); typ != "application/x-www-form-urlencoded" {
		return nil
	}
	form, err := url.ParseQuery(strings.TrimSpace(string(r.body)))
	if err != nil {
		return nil
	}
	m = map[string]json.RawMessage{}
	for k, v := range form {
		m[k], _ = json.Marshal(v[0])
	}
	return m
}

// descend follows a JSON Pointer (RFC 6901) through objects.
func descend(m map[string]json.RawMessage, pointer string) map[string]json.RawMessage {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var next map[string]json.RawMessage
		if json.Unmarshal(m[step], &next) != nil {
			return nil
		}
		m = next
	}
	return m
}

// text returns a string, and "" for anything else.
func text(v json.RawMessage) (s string) {
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// maxLifetime bounds what a server may claim; more is unknown, not for ever.
const maxLifetime = 366 * 24 * time.Hour

// lifetime reads expires_in: a number or a text of one, whole and above zero.
// Anything else is unknown, and never for ever.
func lifetime(v json.RawMessage) time.Duration {
	n := text(v)
	if n == "" {
		n = string(v)
	}
	if n = strings.TrimSpace(n); len(n) == 0 || len(n) > 32 || strings.Trim(n, "0123456789.") != "" {
		return 0
	}
	f, ok := new(big.Rat).SetString(n)
	if !ok || !f.IsInt() || f.Sign() <= 0 {
		return 0
	}
	if f.Num().IsInt64() {
		if s := f.Num().Int64(); s <= int64(maxLifetime/time.Second) {
			return time.Duration(s) * time.Second
		}
	}
	return maxLifetime
}

// scopes reads a list in one text, or an array as some providers send it.
func (c *Client) scopes(v json.RawMessage) (list []string, said bool) {
	var s string
	if json.Unmarshal(v, &list) != nil {
		if json.Unmarshal(v, &s) != nil {
			return nil, false
		}
		list = strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || c.c.Comma && r == ',' })
	} else if list == nil {
		return nil, false // null
	}
	slices.Sort(list)
	return slices.Compact(list), true
}
