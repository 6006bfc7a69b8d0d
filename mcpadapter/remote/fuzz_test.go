package remote_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
)

// A stranger's definition makes a declaration that an invoker takes, or an error
// with its reason, and never a panic.
func FuzzDefinition(f *testing.F) {
	for _, s := range []string{
		`{"type":"object"}`, `{}`, `{"type":"object","properties":{"a":{}},"additionalProperties":true}`, `{"properties":{"a":{"type":"array"},"b":{"enum":[1,null]},"c":true},"required":["a","z"]}`,
		`{"type":"object","properties":{"a":{"$ref":"#/definitions/N"}},"definitions":{"N":{"type":"object","patternProperties":{"x":{}}}}}`,
		`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":["string","null"],"default":1,"format":"x","pattern":"(?=a)"}}}`,
		`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}},"items":{"type":"array","items":[{"type":"string"}]}}}`,
	} {
		f.Add(s, "does a thing")
	}
	f.Fuzz(func(t *testing.T, input, description string) {
		d := remote.Definition{Name: "x", Description: description, Input: json.RawMessage(input)}
		s := remote.Server{ID: "far", Version: "1.0.0", Owner: "team", Party: remote.PartyProvider, Auth: connector.Auth{Mode: connector.AuthNone},
			Launch: neverLaunch, Tools: []remote.Tool{{Name: "x", Class: reads}}}
		c, err := remote.New(s, remote.Pins{Server: "far", Tools: []remote.Pin{{Definition: d, Digest: d.Digest()}}}, nil)
		if err != nil {
			return
		}
		_, host := hostOf(t)
		_, err = connector.NewInvoker(nil, host, []connector.Connector{c}, nil)
		require.NoError(t, err)
		_ = d.Suspicious()
		require.Empty(t, remote.Diff(d, d))
	})
}
