package house

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/drawbridge-sdk/drawbridge/"

// may lists what of ours each package reaches, with everything behind it. A
// package that is not here fails the test: whoever adds one decides its place.
var may = map[string]string{
	"toolresult":                         "", // a newcomer who imports it gets the standard library alone
	"authz/risk":                         "",
	"authz":                              "toolresult authz/risk",
	"authz/authztest":                    "authz+",
	"authz/authztest/authserver":         "", // a server knows nothing of those that it serves
	"authz/bearer":                       "authz+ sandbox/egress+ internal/strictjson",
	"authz/bearer/bearertest":            "sandbox/egress/egresstest+", // an issuer knows nothing of those that it issues for
	"authz/cedarpolicy":                  "authz+",
	"authz/connection":                   "authz/credential+ authz/connection/internal/token+",
	"authz/connection/internal/token":    "sandbox/egress+ internal/strictjson",
	"authz/connection/connectiontest":    "authz/connection+",
	"authz/connection/connectpage":       "authz/connection+ internal/defuse internal/lazyre internal/page",
	"authz/connection/sqlconnection":     "authz/connection+ connector/sqlstore+",
	"authz/credential":                   "authz+ internal/aead",
	"sandbox/egress":                     "toolresult internal/strictyaml", // never authz: the same transport serves processes and token endpoints
	"sandbox/egress/egresstest":          "sandbox/egress+",
	"sandbox/egress/proxy":               "sandbox/egress+ sandbox+",       // where the two meet
	"sandbox":                            "toolresult internal/strictyaml", // never sandbox/egress: an executor is given its proxy
	"sandbox/process":                    "sandbox+",
	"sandbox/launch":                     "sandbox+ internal/strictjson internal/lazyre",
	"sandbox/remote":                     "sandbox+", // carries rules, and enforces nothing itself
	"sandbox/remote/remotetest":          "sandbox/remote+",
	"sandbox/browser":                    "toolresult", // a sequence over any driver
	"sandbox/browser/devtools":           "sandbox/browser+",
	"sandbox/sandboxtest":                "sandbox+", // knows no executor: it attacks any
	"connector/cursor":                   "toolresult internal/aead",
	"connector/query":                    "",
	"connector/provider":                 "toolresult internal/strictjson",
	"connector/provider/rules":           "connector/provider+",
	"connector/provider/paging":          "connector/cursor+", // knows no connector: it turns what a page said into what comes next
	"connector/cache":                    "connector+ connector/cache/generation",
	"connector/cache/generation":         "",       // a store of numbers needs no cache
	"connector/ingest":                   "authz+", // below sqlstore, which keeps its index
	"connector/ingest/ingesttest":        "connector/ingest+",
	"connector/webhook":                  "toolresult internal/strictjson", // below sqlstore: an inbox is a store, and who only verifies needs none
	"connector/webhook/webhooktest":      "connector/webhook+",
	"connector/artifact":                 "authz+",
	"connector/operation":                "authz+", // below connector, so that a store needs no connector
	"connector/operation/operationtest":  "connector/operation+",
	"connector/artifact/artifacttest":    "connector/artifact+",
	"connector/sqlstore":                 "authz/credential+ connector/operation+ connector/artifact+ connector/webhook+ connector/cache/generation connector/ingest+ connector/sqlstore/internal/column internal/sqldb", // below connector
	"connector/dirstore":                 "authz/credential+ connector/artifact+",
	"connector/sqlstore/internal/column": "authz+",
	"connector":                          "authz/credential+ sandbox/egress+ connector/cursor+ connector/provider+ connector/artifact+ connector/operation+ internal/defuse internal/evidence+ internal/ledger+ internal/route+ internal/schema+ internal/strictyaml",
	"connector/job":                      "connector+ connector/sqlstore+", // above both: no core package waits for a job engine
	"connector/cli":                      "connector+ sandbox+ internal/defuse internal/strictjson",
	"connector/release":                  "connector+",
	"connector/review":                   "connector+ internal/defuse internal/page",
	"mcpadapter":                         "connector+",
	"mcpadapter/skills":                  "mcpadapter+ skill/registry+",
	"mcpadapter/functioncall":            "connector+ mcpadapter/functioncall/dialect",
	"mcpadapter/functioncall/dialect":    "toolresult internal/strictjson", // who only rewrites schemas needs no connector
	"mcpadapter/hosted":                  "skill/profile+ mcpadapter/remote+",
	"mcpadapter/remote":                  "connector+ internal/mcpwire internal/defuse",
	"skill":                              "toolresult internal/strictyaml", // who only reads and checks skills needs no policy
	"skill/registry":                     "skill+ authz+ internal/strictjson",
	"skill/registry/sqlregistry":         "skill/registry+ connector/sqlstore+",
	"skill/registry/registrytest":        "skill/registry+",
	"skill/loader":                       "skill/registry+",
	"skill/profile":                      "skill/loader+ connector+",
	"internal/aead":                      "",
	"internal/alr":                       "",
	"internal/lazyre":                    "",
	"internal/defuse":                    "internal/lazyre",
	"internal/mcpwire":                   "internal/strictjson",
	"internal/evidence":                  "sandbox/egress+ connector/provider+",
	"internal/ledger":                    "connector/operation+ internal/defuse internal/evidence+",
	"internal/route":                     "internal/scopeql internal/strictjson",
	"internal/schema":                    "toolresult internal/strictjson internal/lazyre",
	"internal/scopeql":                   "",
	"internal/sqldb":                     "toolresult",
	"internal/strictjson":                "",
	"internal/strictyaml":                "",
	"internal/ci/summary":                "",
	"internal/peers":                     "internal/alr",
	"internal/page":                      "",

	"connector/connectortest":                 "connector/connectortest/internal/reads+ connector/connectortest/internal/writes+ connector/connectortest/report+",
	"connector/connectortest/report":          "connector/connectortest/check+ internal/page",
	"connector/connectortest/check":           "authz/connection+ connector/release+ connector/webhook+ sandbox/egress/egresstest+ connector/connectortest/fault",
	"connector/connectortest/fault":           "",
	"connector/connectortest/internal/reads":  "connector/connectortest/check+",
	"connector/connectortest/internal/writes": "authz/authztest/authserver connector/connectortest/check+ connector/webhook+",
	"internal/mutants":                        "connector/connectortest/check+ connector/webhook+", // beside the harness: connectors that are wrong on purpose
}

// only says which packages may import what is heavy or what decides a design,
// and why nobody else may.
var only = []struct{ path, prefix, why string }{
	{"github.com/modelcontextprotocol/go-sdk", "mcpadapter internal/interop internal/bench examples", "a connector must not depend on one surface"},
	{"github.com/cedar-policy/cedar-go", "authz/cedarpolicy internal/bench", "the core knows the Policy interface only; the language is a choice"},
	{"github.com/go-jose/go-jose", "authz/bearer authz/connection/internal/token authz/authztest/authserver", "one reader of tokens, whose defaults let tokens without an end or a type pass; and one signer of assertions"},
	{"github.com/google/jsonschema-go", "internal/schema", "a v0 type in a public API couples every user to it"},
	{"go.yaml.in/yaml", "internal/strictyaml internal/bench", "one strict reader"},
	{"github.com/gowebpki/jcs", "internal/strictjson", "one canonical form"},
	{"database/sql", "connector/sqlstore connector/job skill/registry/sqlregistry authz/connection/sqlconnection internal/sqldb internal/crashtest internal/refreshtest internal/bench examples", "stores are behind interfaces"},
	{"modernc.org/sqlite", "internal/crashtest internal/refreshtest internal/bench examples", "the program chooses the driver, and only it pays for it"},
	{"github.com/jackc/pgx/v5", "internal/crashtest internal/refreshtest examples", "the program chooses the driver, and only it pays for it"},
	{"github.com/maypok86/otter/v2", "connector/cache", "one cache of values; whose they are is ours"},
	{"github.com/riverqueue/river", "connector/job", "one job engine, behind one package: it weighs 5 MB and brings the drivers of PostgreSQL with it"},
	{"testing", "authz/authztest authz/bearer/bearertest authz/connection/connectiontest sandbox/egress/egresstest sandbox/sandboxtest sandbox/remote/remotetest connector/artifact/artifacttest connector/operation/operationtest connector/webhook/webhooktest connector/ingest/ingesttest skill/registry/registrytest connector/connectortest internal/mutants internal/peers internal/interop internal/crashtest examples", "testing in production code registers flags and weighs"},
	{"github.com/chromedp", "sandbox/browser/devtools", "only who drives a browser links one's protocol"},
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T) map[string]listed {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	pkgs := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		require.NoError(t, d.Decode(&p))
		pkgs[strings.TrimPrefix(p.ImportPath, module)] = p
	}
	return pkgs
}

// free are programs and tests: they may reach what they like of ours, but
// nothing reaches them.
func free(pkg string) bool {
	return strings.HasPrefix(pkg, "examples/") || pkg == "internal/bench" || pkg == "internal/house" || pkg == "internal/crashtest" || pkg == "internal/refreshtest" || strings.HasPrefix(pkg, "internal/interop")
}

// expand resolves "x+": x and all that x may reach.
func expand(t *testing.T, rule string, table map[string]string) map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields(rule) {
		name, deep := strings.CutSuffix(name, "+")
		out[name] = true
		if deep {
			more, ok := table[name]
			require.True(t, ok, "%s+ names no row", name)
			for k := range expand(t, more, table) {
				out[k] = true
			}
		}
	}
	return out
}

// breaches lists every arrow that the table does not have.
func breaches(t *testing.T, pkgs map[string]listed, table map[string]string) (out []string) {
	for pkg, p := range pkgs {
		rule, known := table[pkg]
		if !known && !free(pkg) {
			out = append(out, pkg+" has no row")
			continue
		}
		allowed := expand(t, rule, table)
		for _, dep := range p.Deps {
			ours, ok := strings.CutPrefix(dep, module)
			switch {
			case !ok || ours == pkg:
			case free(ours) && !strings.HasPrefix(pkg, "examples/"):
				out = append(out, pkg+" reaches the program "+ours)
			case !free(pkg) && !allowed[ours]:
				out = append(out, pkg+" reaches "+ours)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestImports(t *testing.T) {
	require.Empty(t, breaches(t, list(t), may))
}

// The control: with a row taken away or emptied, the test fails.
func TestImportsCanFail(t *testing.T) {
	pkgs := list(t)
	for _, row := range []struct{ pkg, rule, says string }{
		{"connector", "", "connector reaches authz"},
		{"sandbox/egress", "", "sandbox/egress reaches toolresult"},
		{"internal/ledger", "internal/evidence+", "internal/ledger reaches authz"},
	} {
		table := map[string]string{}
		for k, v := range may {
			table[k] = v
		}
		table[row.pkg] = row.rule
		require.Contains(t, strings.Join(breaches(t, pkgs, table), "\n"), row.says)
		delete(table, row.pkg)
	}
}

// intruders lists direct imports of a path outside of its places.
func intruders(pkgs map[string]listed, path, places string) (out []string) {
	for pkg, p := range pkgs {
		home := slices.ContainsFunc(strings.Fields(places), func(h string) bool { return pkg == h || strings.HasPrefix(pkg, h+"/") })
		for _, imp := range p.Imports {
			if (imp == path || strings.HasPrefix(imp, path+"/") && path != "testing") && !home {
				out = append(out, pkg+" imports "+imp)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestHeavyImports(t *testing.T) {
	pkgs := list(t)
	for _, o := range only {
		require.Empty(t, intruders(pkgs, o.path, o.prefix), o.why)
	}
	require.NotEmpty(t, intruders(pkgs, "github.com/cedar-policy/cedar-go", ""), "control: the test sees imports")
	require.NotEmpty(t, intruders(pkgs, "testing", ""), "control: the test sees imports")
}
