package strictyaml_test

import (
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
)

func ExampleDecode() {
	var out struct {
		ID     string   `yaml:"id"`
		Scopes []string `yaml:"scopes"`
	}
	fmt.Println(strictyaml.Decode([]byte("id: tickets\nscope: [tickets.read]\n"), &out))
	// Output:
	// yaml: line 2: scope: is not a field here; the fields are id, scopes
}
