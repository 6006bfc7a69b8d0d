package profile_test

import (
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/skill/profile"
)

func ExampleParse() {
	spec, err := profile.Parse([]byte(`
capability_profile:
  id: incident-capabilities-v42
  skill: incident-diagnosis
  tools:
    prometheus_query_range: metrics-mcp-v4
  credentials: resolve_from_run_binding
  sandbox: {filesystem: run-directory, egress: providers, env: minimal}
  prohibited: [restart_service]
`))
	fmt.Println(spec.ID, spec.Tools["prometheus_query_range"], err)
	_, err = profile.Parse([]byte("capability_profile:\n  id: x\n  skill: y\n  credentials: from-a-file\n  sandbox: {filesystem: a, egress: b, env: c}\n"))
	fmt.Println(err)
	// Output:
	// incident-capabilities-v42 metrics-mcp-v4 <nil>
	// capability profile: INVALID_INPUT: yaml: line 4: capability_profile.credentials: want resolve_from_run_binding: a composition holds no credential
}
