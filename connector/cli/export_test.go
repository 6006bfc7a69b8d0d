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

// Data is what a program's output becomes without the secrets of an environment.
func Data(env map[string]string, output string) (json.RawMessage, error) {
	c := &Connector{program: Program{Env: func(context.Context, authz.Principal) (map[string]string, error) { return env, nil }}}
	r := &run{}
	if err := c.environment(context.Background(), authz.Principal{}, r); err != nil {
		return nil, err
	}
	r.out.left = int64(len(output)) + 1
	if _, err := r.out.Write([]byte(output)); err != nil {
		return nil, err
	}
	return r.data()
}
