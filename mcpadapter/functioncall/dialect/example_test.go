package dialect_test

import (
	"encoding/json"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall/dialect"
)

// A schema in the form of one vendor, what the model does not learn, and the way
// back of what it writes.
func Example() {
	p, err := dialect.OpenAIStrict.Project("search", json.RawMessage(`{"type":"object","additionalProperties":false,"required":["project"],
		"properties":{"project":{"type":"string","minLength":2},"limit":{"type":"integer","minimum":1}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := json.Marshal(p.Schema)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(text))
	for _, l := range p.Losses {
		fmt.Println(l.Kind, l.Path, l.What)
	}
	back, err := p.Back(json.RawMessage(`{"project":"inc","limit":null}`))
	fmt.Println(string(back), err)
	// Output:
	// {"additionalProperties":false,"properties":{"limit":{"anyOf":[{"minimum":1,"type":"integer"},{"type":"null"}]},"project":{"type":"string"}},"required":["limit","project"],"type":"object"}
	// wider /properties/project/minLength is not known to the vendor, and is left out
	// {"project":"inc"} <nil>
}
