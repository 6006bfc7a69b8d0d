package registry_test

import (
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/skill/registry"
)

func ExampleParseRecord() {
	rec, err := registry.ParseRecord([]byte(`
name: incident-diagnosis
version: "1.4.0"
owner: sre-platform
scope: [staging, prod]
side_effect: read_only
data_sensitivity: sensitive
previous_stable: "1.3.2"
changelog: how to go on when a log query fails
`))
	fmt.Println(rec.Name, rec.Version, rec.SideEffect, err)
	_, err = registry.ParseRecord([]byte("name: incident-diagnosis\nversion: 1.4\nowner: sre\nside_effect: none\n"))
	fmt.Println(err)
	// Output:
	// incident-diagnosis 1.4.0 read_only <nil>
	// skill record: INVALID_INPUT: yaml: line 4: side_effect: is not a valid risk.SideEffect
}
