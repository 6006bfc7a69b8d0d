package mcpwire

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// ListLimits bound what a server may list. Zero fields take the value in the
// comment.
type ListLimits struct {
	Pages      int // 50
	Tools      int // 1000, of all pages
	Definition int // 64 KiB, of one tool in canonical form
}

func (l ListLimits) complete() ListLimits {
	if l.Pages <= 0 {
		l.Pages = 50
	}
	if l.Tools <= 0 {
		l.Tools = 1000
	}
	if l.Definition <= 0 {
		l.Definition = 64 << 10
	}
	return l
}

// Definition is a tool as its server describes it: the part that a model or a
// person relies on, in canonical form (RFC 8785).
type Definition struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

// Digest covers every field, each with its length before it, so that text does
// not move from one into another unnoticed. The order of names in the schemas
// does not count.
func (d *Definition) Digest() string {
	return strictjson.Digest("mcp tool 1", d.Name, d.Title, d.Description, string(d.Input), string(d.Output), string(d.Annotations))
}

// Unusable is a tool of a list that cannot be used, and why.
type Unusable struct {
	Name string // "" if it has none; a stranger's text
	Why  string // constant
}

// List asks for all pages of the list of tools. A tool that cannot be used is
// left out alone, and named in the second result.
func List(ctx context.Context, x Exchange, limits ListLimits) ([]Definition, []Unusable, error) {
	limits = limits.complete()
	l := &list{limits: limits, known: map[string]string{}, out: map[string]*Definition{}}
	seen := map[string]bool{}
	var cursor any
	for page := 1; page <= limits.Pages; page++ {
		m := &Message{ID: "list-" + strconv.Itoa(page), Method: "tools/list", Params: map[string]any{}}
		if cursor != nil {
			m.Params["cursor"] = cursor
		}
		a, err := x(ctx, m)
		switch {
		case err != nil:
			return nil, nil, err
		case a.Err != nil:
			return nil, nil, a.Err
		case a.Complete() != nil:
			return nil, nil, a.Complete()
		}
		if err := l.page(a.Result["tools"]); err != nil {
			return nil, nil, err
		}
		next, isText := a.Result["nextCursor"].(string)
		switch {
		case a.Result["nextCursor"] == nil:
			return l.sorted(), l.bad, nil
		case !isText || len(next) > 4096:
			return nil, nil, FaultResult
		case seen[next]: // the empty cursor is one like others
			return nil, nil, FaultCursor
		}
		seen[next], cursor = true, next
	}
	return nil, nil, FaultPages
}

type list struct {
	limits ListLimits
	known  map[string]string // digests by name, of usable tools and others
	out    map[string]*Definition
	bad    []Unusable
	n      int
}

func (l *list) page(v any) error {
	tools, ok := v.([]any)
	if !ok {
		return FaultList
	}
	if l.n += len(tools); l.n > l.limits.Tools {
		return FaultList
	}
	for _, t := range tools {
		l.add(t)
	}
	return nil
}

func (l *list) add(v any) {
	d, why := define(v, l.limits.Definition)
	switch before, twice := l.known[d.Name]; {
	case why == "" && twice && before == d.Digest():
		return // the same tool on a later page
	case why == "" && twice:
		why = "is listed twice, with different definitions"
		delete(l.out, d.Name)
	case why == "":
		l.out[d.Name] = d
	}
	if d.Name != "" {
		l.known[d.Name] = d.Digest()
	}
	if why != "" {
		l.bad = append(l.bad, Unusable{d.Name, why})
	}
}

func (l *list) sorted() []Definition {
	out := []Definition{}
	for _, name := range slices.Sorted(maps.Keys(l.out)) {
		out = append(out, *l.out[name])
	}
	return out
}

// define reads a tool. The definition has at least its name, if it has one.
func define(v any, limit int) (*Definition, string) {
	o, ok := v.(map[string]any)
	d := &Definition{}
	if !ok {
		return d, "is no object"
	}
	name, ok := o["name"].(string)
	if !ok || name == "" || len(name) > 128 {
		return d, "has no name of 1 to 128 bytes"
	}
	d.Name = name
	for key, to := range map[string]*string{"title": &d.Title, "description": &d.Description} {
		if o[key] != nil {
			if *to, ok = o[key].(string); !ok {
				return d, "has a " + key + " that is no text"
			}
		}
	}
	for key, to := range map[string]*json.RawMessage{"inputSchema": &d.Input, "outputSchema": &d.Output, "annotations": &d.Annotations} {
		if o[key] == nil {
			continue
		}
		if _, ok := o[key].(map[string]any); !ok {
			return d, "has " + key + " that is no object"
		}
		text, err := json.Marshal(o[key])
		if err == nil {
			text, err = strictjson.Canonical(text)
		}
		if err != nil {
			return d, "has " + key + " without a canonical form: a number beyond 2^53, or nesting over the limit"
		}
		*to = text
	}
	if d.Input == nil {
		return d, "has no inputSchema"
	}
	if len(name)+len(d.Title)+len(d.Description)+len(d.Input)+len(d.Output)+len(d.Annotations) > limit {
		return d, "has a definition over the limit"
	}
	if _, err := PlanHeaders(o["inputSchema"]); err != nil {
		return d, err.Error()
	}
	return d, ""
}
