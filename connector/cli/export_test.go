package cli

import (
	"context"
	"encoding/json"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// Vector makes the arguments for one text under the name "a".
func Vector(c *Command, text string) ([]string, error) {
	in, err := json.Marshal(map[string]string{"a": text})
	if err != nil {
		return nil, err
	}
	k := &command{Command: *c}
	return k.vector(in)
}

// Redacted is a text without the secrets of an environment.
func Redacted(env map[string]string, text string) (string, error) {
	c := &Connector{program: Program{Env: func(context.Context, authz.Principal) (map[string]string, error) { return env, nil }}}
	r := &run{}
	err := c.environment(context.Background(), authz.Principal{}, r)
	return r.redact(text), err
}
