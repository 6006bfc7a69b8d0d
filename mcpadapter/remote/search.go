package remote

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Bind tells the connector which invoker serves it, so that the search of
// deferred tools finds what its caller may see and nothing else. It is called
// once, after NewInvoker. Until then a search is refused.
func (c *Connector) Bind(inv *connector.Invoker) { c.bound.Store(inv) }

// addSearch declares the search.
func (c *Connector) addSearch() {
	c.search = c.server.prefix() + ".search_tools"
	c.manifest.Capabilities = append(c.manifest.Capabilities, connector.Declaration{
		Kind: connector.KindRead, Name: c.search, Title: "Search tools", Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal},
		Description: "Finds tools of " + c.server.ID + " by words of their names and descriptions. The descriptions are the server's.",
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["query"],"properties":{
			"query":{"type":"string","maxLength":200,"description":"words; an empty query finds every tool"},
			"limit":{"type":"integer","minimum":1,"maximum":50,"default":10}}}`),
		Limits: connector.Limits{},
	})
}

// found is a tool that a search returns.
type found struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
}

// find is the search. It is in this process: the pins are what there is.
func (c *Connector) find(ctx context.Context, call *connector.Call) (*toolresult.Result, error) {
	var in struct {
		Query string
		Limit int
	}
	if err := json.Unmarshal(call.Arguments(), &in); err != nil {
		return nil, err
	}
	inv := c.bound.Load()
	if inv == nil {
		return nil, toolresult.NewError(toolresult.PolicyUnavailable, "the search does not know yet what its callers may see")
	}
	visible, err := inv.Visible(ctx, &connector.VisibleRequest{Principal: call.Principal()})
	if err != nil {
		return nil, err
	}
	words := strings.Fields(strings.ToLower(in.Query))
	list := []found{}
	for _, d := range visible {
		t := c.tools[d.Name]
		text := strings.ToLower(d.Name + " " + d.Title + " " + d.Description)
		if t == nil || !slices.ContainsFunc(append(words, ""), func(w string) bool { return w != "" && strings.Contains(text, w) || len(words) == 0 }) {
			continue
		}
		if list = append(list, found{d.Name, d.Title, d.Description, d.ModelInput()}); len(list) == in.Limit {
			break
		}
	}
	if len(list) == 0 {
		return toolresult.NoVisibleMatch(call.ID()), nil
	}
	data, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	r := toolresult.Complete(call.ID(), data)
	r.Provenance.Sources = []toolresult.Provenance{{Service: c.server.ID + " (" + c.server.Party.String() + ")", Object: "tools"}}
	return r, nil
}
