// Package reads holds the checks of what a connector declares and of what it
// answers: manifest, schemas, results, errors, identity, authorization, cursors,
// sizes and deadlines.
package reads

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// frozen is the set that a solid check belongs to.
const frozen = "2026.12"

// Checks returns them in a fixed order.
func Checks() []check.Check {
	return slices.Concat(manifest(), schemas(), results(), failures(), odd(), identity(), authorization(), cursors(), sizes(), deadlines())
}

const anyCall = check.InDouble | check.InReplay | check.InSandbox | check.InLive

var reading = check.NeedsKind(connector.KindRead, connector.KindList)

// needsRead is for checks that disturb the answer to a read.
func needsRead(s *check.Subject) string {
	if why := reading(s); why != "" {
		return why
	}
	return check.NeedsRoutes(s)
}

func needsList(s *check.Subject) string {
	if why := check.NeedsKind(connector.KindList)(s); why != "" {
		return why
	}
	return check.NeedsRoutes(s)
}

// asking returns the ordinary reads that ask the provider.
func asking(s *check.Session) (out []check.Call) {
	for _, c := range s.Reads() {
		if len(s.Declaration(c.Capability).Routes) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// askingAll returns the ordinary calls that ask the provider, writes as well.
func askingAll(s *check.Session) (out []check.Call) {
	for _, c := range s.Calls() {
		if len(s.Declaration(c.Capability).Routes) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// items returns the items of a page as they were written.
func items(r *toolresult.Result) []string {
	var list []json.RawMessage
	if json.Unmarshal(r.Data, &list) != nil {
		return nil
	}
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = string(x)
	}
	return out
}

// texts lists every string in a JSON value, names of members left out.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			out = append(out, texts(e)...)
		}
	case map[string]any:
		for _, e := range v {
			out = append(out, texts(e)...)
		}
	}
	return out
}

func parse(data json.RawMessage) any {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}
