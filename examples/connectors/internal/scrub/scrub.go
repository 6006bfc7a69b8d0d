// Package scrub takes secrets and addresses out of text that a system's own
// programs wrote, such as log lines, before it goes anywhere.
//
// It goes by form, so it is a second line: it finds what looks like a secret, and
// a secret that looks like a word passes. What it replaces:
//
//   - the value of a member or an assignment whose name holds password, passwd,
//     secret, token, api_key, authorization, cookie or credential
//   - what follows Bearer, Basic or Token
//   - JSON web tokens, access key ids of AWS, and private keys in PEM
//   - user and password in a URL
//   - e-mail addresses
package scrub

import "regexp"

var forms = []struct {
	form *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), "[redacted key]"},
	{regexp.MustCompile(`(?i)([\w.-]*(?:password|passwd|secret|token|api[_-]?key|authorization|cookie|credential)[\w.-]*\\*["']?\s*[:=]\s*)(?:\\*"(?:[^"\\]|\\[^"])*\\*"|'[^']*'|(?:(?:bearer|basic|token)\s+)+[^\s,;&"'}]+|[^\s,;&"'}\[]+)`), `$1"[redacted]"`},
	{regexp.MustCompile(`(?i)\b((?:(?:bearer|basic|token)\s+)+)[A-Za-z0-9._~+/=-]{6,}`), "${1}[redacted]"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), "[redacted]"},
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`), "[redacted]"},
	{regexp.MustCompile(`://[^/\s@"']+@`), "://[redacted]@"},
	{regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+`), "[e-mail]"},
}

// Text returns s without what looks like a secret or an e-mail address. It may
// be longer than s.
func Text(s string) string {
	for _, f := range forms {
		s = f.form.ReplaceAllString(s, f.with)
	}
	return s
}
