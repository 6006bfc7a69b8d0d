package cli

import "encoding/json"

// Vector makes the arguments for one text under the name "a".
func Vector(c *Command, text string) ([]string, error) {
	in, err := json.Marshal(map[string]string{"a": text})
	if err != nil {
		return nil, err
	}
	k := &command{Command: *c}
	return k.vector(in)
}
