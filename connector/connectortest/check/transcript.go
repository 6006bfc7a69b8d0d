package check

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostShown bounds what a transcript shows of a body.
const mostShown = 2 << 10

// transcript writes the exchanges of all sessions as txtar, without secrets.
func (r *run) transcript() string {
	var b strings.Builder
	for i, s := range r.sessions {
		if r.shown != nil && s != r.shown {
			continue
		}
		for _, x := range s.Seen() {
			exchange(&b, i+1, x)
		}
	}
	return r.secretless(b.String())
}

// exchange writes one exchange of a session, secrets and all.
func exchange(b *strings.Builder, session int, x *Exchange) {
	fmt.Fprintf(b, "-- %d.%d request at %v --\n%s %s\n%s\n%s\n", session, x.N, x.At, x.Method, x.URL, headers(x.Header), shown(x.Body))
	what := fmt.Sprintf("answer %d", x.Status)
	switch {
	case !x.Fault.IsZero() && x.Status == 0:
		what = "answer: " + x.Fault.String()
	case !x.Fault.IsZero():
		what += ", then: " + x.Fault.String()
	case x.Status == 0:
		what = "no answer"
	}
	fmt.Fprintf(b, "-- %d.%d %s --\n%s\n", session, x.N, what, shown(x.Answer))
}

func (r *run) secretless(text string) string {
	for _, c := range r.canaries {
		text = strings.ReplaceAll(text, c, "[secret]")
	}
	return text
}

// headers shows them sorted; one that carries a credential only by name.
func headers(h http.Header) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(h)) {
		v := strings.Join(h[k], ", ")
		if k == "Authorization" || k == "Cookie" || strings.Contains(k, "Key") || strings.Contains(k, "Token") {
			v = "[secret]"
			if k == "Idempotency-Key" {
				v = strings.Join(h[k], ", ")
			}
		}
		fmt.Fprintf(&b, "%s: %s\n", k, v)
	}
	return b.String()
}

// shown makes a body one that cannot end the section that it is in.
func shown(body []byte) string {
	cut := len(body) > mostShown
	if cut {
		body = body[:mostShown]
	}
	if !utf8.Valid(body) && !cut {
		return fmt.Sprintf("[%d bytes that are no text]", len(body))
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(string(body), ""))
	text = strings.ReplaceAll("\n"+text, "\n-- ", "\n - ")[1:]
	if cut {
		text += "\n[cut]"
	}
	return text
}
