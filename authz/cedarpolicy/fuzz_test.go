package cedarpolicy_test

import (
	"testing"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/cedarpolicy"
)

// A text either is refused or decides, and never panics.
func FuzzNew(f *testing.F) {
	for _, s := range []string{
		"", "permit(principal, action, resource);", `@approval("required") permit(principal in Group::"a/b", action in [Action::"x"], resource is t in p::"a/c/d") unless { context.purpose == "read" };`,
		`@prohibit forbid(principal, action, resource) when { resource has a && resource.a.b like "x*" };`, `@window("` + window + `") permit(principal, action, resource);`,
		`permit(principal, action, resource) when { if context == {"a": [1, -2]} then ip("::1").isLoopback() else decimal("1.0").lessThan(decimal("2.0")) };`, "// \"\n\"", "permit(\"\\",
	} {
		f.Add([]byte(s))
	}
	alice, _ := authztest.Principal(f, "acme", "alice", "read")
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := cedarpolicy.New(map[string][]byte{"f": text}, &cedarpolicy.Options{Actions: []string{"a"}, Types: []string{"ticket"}, Candidates: listing(project("a"))})
		if err != nil {
			return
		}
		p.Warnings()
		for _, target := range []authz.Target{authz.On(ticket("5")), authz.OnConnection()} {
			req := request(alice, target)
			req.Types = []string{"project"}
			if _, err := p.Decide(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	})
}
