package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Business is the annotation with which an author says why a model may fill in
// a property whose name looks like one that only the runtime knows:
//
//	{"properties": {"account": {"x-drawbridge-business": "the customer whose invoices are listed"}}}
//
// It is a part of the contract ([Schema.JSON]) and not of what a model sees
// ([Schema.Model]). It does not help for secrets.
const Business = "x-drawbridge-business"

// A noun is a word for something that only the runtime may say. The name of a
// property is split into lower-case words at case, '_' and '-' (and at '.',
// each part by itself), words of fillers are taken from its front and words of
// handles from its end, and what is left is compared:
//
//	tenantId, TENANT-ID, scope.tenant_id, x_tenant   -> tenant
//	user_agent, account_type, token_count            -> as they are: no match
type noun struct {
	text   string // its words, joined
	tail   bool   // also behind other words: slack_password, target_tenant_id
	handle bool   // only with a handle: operation_id, but not operation
	exact  bool   // neither fillers nor handles
	never  bool   // a secret: no annotation helps
}

var nouns = []noun{
	{text: "tenant", tail: true}, {text: "tenancy", tail: true}, {text: "tenants", tail: true},
	{text: "user"}, {text: "users", handle: true}, {text: "principal"}, {text: "subject", handle: true}, {text: "sub", exact: true}, {text: "caller"},
	{text: "impersonate", tail: true}, {text: "onbehalfof"}, {text: "actas"}, {text: "runas"},
	{text: "connection"}, {text: "connections", handle: true}, {text: "connectionstring", tail: true, never: true},
	{text: "account"},
	{text: "credential", tail: true, never: true}, {text: "credentials", tail: true, never: true},
	{text: "token", tail: true}, {text: "tokens", handle: true},
	{text: "accesstoken", tail: true, never: true}, {text: "refreshtoken", tail: true, never: true}, {text: "idtoken", tail: true, never: true},
	{text: "bearertoken", tail: true, never: true}, {text: "authtoken", tail: true, never: true}, {text: "apitoken", tail: true, never: true},
	{text: "sessiontoken", tail: true, never: true}, {text: "bearer", never: true}, {text: "authorization", never: true}, {text: "authorizationheader", never: true},
	{text: "jwt", tail: true, never: true}, {text: "cookie", never: true}, {text: "cookies", never: true},
	{text: "password", tail: true, never: true}, {text: "passwords", tail: true, never: true}, {text: "passwd", tail: true, never: true},
	{text: "pwd", tail: true}, {text: "passphrase", tail: true, never: true}, {text: "passcode", tail: true, never: true},
	{text: "secret", tail: true}, {text: "secrets", tail: true}, {text: "clientsecret", tail: true, never: true}, {text: "secretkey", tail: true, never: true},
	{text: "apikey", tail: true, never: true}, {text: "accesskey", tail: true, never: true}, {text: "privatekey", tail: true, never: true},
	{text: "approval"}, {text: "approvaltoken"}, {text: "approver"},
	{text: "operation", handle: true}, {text: "idempotency", handle: true}, {text: "idempotent", handle: true},
	{text: "idempotencytoken"}, {text: "idempotenttoken"},
	{text: "profile"}, {text: "endpointprofile"}, {text: "egressprofile"}, {text: "capabilityprofile"}, {text: "sandboxprofile"},
	{text: "endpoint"}, {text: "base", handle: true}, {text: "apibase"}, {text: "provider", handle: true}, {text: "api", handle: true}, {text: "server", handle: true},
}

// handles are the words that turn a thing into what names it.
var handles = map[string]bool{
	"id": true, "ids": true, "identifier": true, "uuid": true, "guid": true, "key": true, "keys": true, "ref": true, "reference": true,
	"handle": true, "name": true, "number": true, "value": true, "uri": true, "url": true, "urn": true, "email": true, "login": true,
}

// links are the handles that count for base, provider, api and server:
// server_name is business, server_url is not.
var links = map[string]bool{"uri": true, "url": true}

// fillers are the words that leave a thing what it is.
var fillers = map[string]bool{
	"x": true, "my": true, "the": true, "current": true, "caller": true, "calling": true, "acting": true, "effective": true, "auth": true,
	"provider": true, "api": true, "oauth": true, "session": true, "request": true, "drawbridge": true, "trusted": true, "impersonate": true, "impersonated": true,
}

// words splits a name: "tenantId", "TENANT-ID" and "tenant_id" are alike.
func words(name string) []string {
	var out []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush()
		}
		word = append(word, r)
	}
	flush()
	return out
}

// trusted returns the noun that a name of a property stands for.
func trusted(name string) (noun, bool) {
	for part := range strings.SplitSeq(name, ".") {
		if n, ok := trustedWords(words(part)); ok {
			return n, true
		}
	}
	return noun{}, false
}

func trustedWords(ws []string) (noun, bool) {
	whole := strings.Join(ws, "")
	stem, handle := whole, ""
	for h := range handles {
		if rest, ok := strings.CutSuffix(whole, h); ok && rest != "" && len(h) > len(handle) && (len(ws) == 1 || ws[len(ws)-1] == h) {
			stem, handle = rest, h
		}
	}
	var found noun
	for _, n := range nouns {
		if (n.is(whole, "", ws) || n.is(stem, handle, ws)) && (found.text == "" || n.never) {
			found = n
		}
	}
	return found, found.text != ""
}

// is reports whether the stem of a name, with a handle taken off, is the noun.
func (n noun) is(stem, handle string, ws []string) bool {
	switch {
	case n.handle && handle == "", n.exact && (handle != "" || stem != n.text):
		return false
	case (n.text == "base" || n.text == "provider" || n.text == "api" || n.text == "server") && !links[handle]:
		return false
	case stem == n.text, n.tail && strings.HasSuffix(stem, n.text):
		return true
	}
	for len(ws) > 1 && fillers[ws[0]] {
		stem, ws = strings.TrimPrefix(stem, ws[0]), ws[1:]
		if stem == n.text {
			return true
		}
	}
	return false
}

// businessOnly refuses a schema that asks a model for what the runtime knows
// (K5), at any depth and below every keyword. at is a pointer into the schema.
func businessOnly(v any, at string) error {
	s, ok := v.(object)
	if !ok {
		return nil
	}
	for _, k := range inMap {
		o, _ := s[k].(object)
		for _, name := range slices.Sorted(maps.Keys(o)) {
			here := at + "/" + k + "/" + strictjson.Escape(name)
			if err := businessName(name, o[name], here); err != nil {
				return err
			}
			if err := businessOnly(o[name], here); err != nil {
				return err
			}
		}
	}
	for _, k := range inPlace {
		if err := businessOnly(s[k], at+"/"+k); err != nil {
			return err
		}
	}
	for _, k := range inList {
		l, _ := s[k].([]any)
		for _, e := range l {
			if err := businessOnly(e, at+"/"+k); err != nil {
				return err
			}
		}
	}
	return nil
}

func businessName(name string, v any, at string) error {
	n, ok := trusted(name)
	if !ok {
		return nil
	}
	s, _ := v.(object)
	_, excused := s[Business]
	switch {
	case n.never:
		return &Error{at, fmt.Sprintf("asks a model for a secret (%s); remove it: the credential is put on the wire by the runtime", n.text)}
	case !excused:
		return &Error{at, fmt.Sprintf("asks a model for what only the runtime may say (%s); remove it and use what the call carries, or say in %q why it is business data", n.text, Business)}
	}
	return nil
}

// withoutBusiness returns a copy without the annotations.
func withoutBusiness(v any) any {
	s, ok := v.(object)
	if !ok {
		return v
	}
	out := maps.Clone(s)
	delete(out, Business)
	for _, k := range inMap {
		if o, ok := out[k].(object); ok {
			c := object{}
			for name, e := range o {
				c[name] = withoutBusiness(e)
			}
			out[k] = c
		}
	}
	for _, k := range inPlace {
		if e, ok := out[k]; ok {
			out[k] = withoutBusiness(e)
		}
	}
	for _, k := range inList {
		if l, ok := out[k].([]any); ok {
			c := make([]any, len(l))
			for i, e := range l {
				c[i] = withoutBusiness(e)
			}
			out[k] = c
		}
	}
	return out
}
