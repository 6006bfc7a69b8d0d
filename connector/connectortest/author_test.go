package connectortest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
)

type thing struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type byID struct {
	ID string `json:"id"`
}

// shelf is a double that knows nobody's state: these connectors do not come so far.
type shelf struct{ answer http.HandlerFunc }

func (s shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if s.answer != nil {
		s.answer(w, r)
		return
	}
	fmt.Fprint(w, `{"id":"1","name":"n","items":[{"id":"1"}],"more":false}`)
}

func (shelf) Token(tenant, user string) string { return "token-of-" + tenant + "-" + user }

func (shelf) Snapshot() ([]byte, error) { return []byte("{}"), nil }

// An author whose connector does not work yet is told what was wrong: with the
// argument, the request, the answer, or the own code.
func TestAnAuthorIsToldWhy(t *testing.T) {
	getRoute := connector.Route{Pattern: "GET /x/{id}", Effect: connector.Reads, Touches: []string{"x:{id}"}}
	spec := connector.Spec{Name: "get_x", Description: "One.", Sensitivity: risk.Internal, Routes: []connector.Route{getRoute}}
	target := connector.ByArgs(func(in byID) authz.ResourceID { return authz.ResourceID{Type: "x", ID: in.ID} })
	read := func(f connector.ReadFunc[byID, thing]) connector.Capability { return connector.Read(spec, target, f) }
	get := func(path string, p connector.Params) connector.Capability {
		return read(func(ctx context.Context, c *connector.ReadCall, in byID) (*connector.Answer[thing], error) {
			var out thing
			if _, err := c.Get(ctx, path, p, &out); err != nil {
				return nil, err
			}
			return connector.Found(out), nil
		})
	}
	one := connector.Params{"id": "1"}
	good := get("/x/{id}", one)
	says := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	write := func(f func(ctx context.Context, c *connector.WriteCall) error) connector.Capability {
		s := connector.WriteSpec{Spec: spec, SideEffect: risk.ReversibleWrite}
		s.Routes = []connector.Route{{Pattern: "POST /x", Effect: connector.Changes, Touches: []string{"x:{#/id}"}}}
		return connector.Write(s, target, connector.Irreconcilable(func(ctx context.Context, c *connector.WriteCall, in byID) (*connector.Receipt[thing], error) {
			if err := f(ctx, c); err != nil {
				return nil, err
			}
			return connector.Applied(thing{ID: "1"}, "1"), nil
		}))
	}
	post := func(ctx context.Context, c *connector.WriteCall, body map[string]any) error {
		_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /x", Body: body})
		return err
	}
	list := func(next cursor.Position) connector.Capability {
		s := spec
		s.Routes = []connector.Route{{Pattern: "GET /x", Effect: connector.Reads, WholeConnection: true}}
		return connector.List(connector.ListSpec{Spec: s, More: provider.Pointer("/more")}, connector.OnConnection[byID],
			func(ctx context.Context, c *connector.ReadCall, _ byID, _ connector.PageRequest) (*connector.Page[thing], error) {
				var body struct{ Items []thing }
				if _, err := c.Get(ctx, "/x", nil, &body); err != nil {
					return nil, err
				}
				return connector.NewPage(body.Items, next), nil
			})
	}
	for _, row := range []struct {
		why  string
		c    connector.Capability
		with http.HandlerFunc
		args string
		says []string
	}{
		{why: "a path that is not declared", c: get("/y/{id}", one), says: []string{`"GET /y/{id}" is not, word for word, a route`}},
		{why: "a variable without a value", c: get("/x/{id}", nil), says: []string{"CONTRACT_VIOLATION", "a variable without a value: {id}"}},
		{why: "a parameter that is not declared", c: get("/x/{id}", connector.Params{"id": "1", "full": "1"}), says: []string{"CONTRACT_VIOLATION", `"full"`}},
		{why: "another object than the target's", c: get("/x/{id}", connector.Params{"id": "2"}), says: []string{"EGRESS_DENIED", "outside the grant"}},
		{why: "an argument that is not there", c: good, args: `{"ident":"1"}`, says: []string{"INVALID_INPUT", "/ident is not known here; the arguments are id"}},
		{why: "the function's own error", c: read(func(context.Context, *connector.ReadCall, byID) (*connector.Answer[thing], error) {
			return nil, errors.New("boom-7")
		}),
			says: []string{"INTERNAL", "cause:   boom-7", "no request left the connector"}},
		{why: "a panic", c: read(func(context.Context, *connector.ReadCall, byID) (*connector.Answer[thing], error) { panic("boom-8") }),
			says: []string{"INTERNAL", "panicked: boom-8", "author_test.go:"}},
		{why: "a page for a browser", c: good, with: says(200, "text/html", "<html>"), says: []string{"PROVIDER_ERROR", "not JSON", "answer 200", "<html>"}},
		{why: "another type than the author's", c: good, with: says(200, "application/json", `{"id":1}`), says: []string{"PROVIDER_ERROR", "cannot unmarshal number", `{"id":1}`}},
		{why: "a double that knows nobody", c: good, with: says(401, "application/json", `{}`), says: []string{"CONNECTION_REQUIRED", "the provider answered 401", "Info.Auth.Scheme", "Authorization: [secret]"}},
		{why: "a double without the object", c: good, with: says(404, "application/json", `{}`), says: []string{"NOT_FOUND", "in the double", "answer 404"}},
		{why: "a page that does not say what comes next", c: list(cursor.Position{}), says: []string{"CONTRACT_VIOLATION", "a page does not say what comes after it"}},
		{why: "a body that is no JSON", c: write(func(ctx context.Context, c *connector.WriteCall) error {
			return post(ctx, c, map[string]any{"id": make(chan int)})
		}),
			says: []string{"CONTRACT_VIOLATION", "cannot be written as JSON", "chan int"}},
		{why: "a clock or a random number in Send", c: write(func(ctx context.Context, c *connector.WriteCall) error {
			return post(ctx, c, map[string]any{"id": "1", "n": rand.Int64()})
		}),
			says: []string{"APPROVAL_INVALID", "same request each time"}},
		{why: "two changes in one Send", c: write(func(ctx context.Context, c *connector.WriteCall) error {
			return errors.Join(post(ctx, c, map[string]any{"id": "1"}), post(ctx, c, map[string]any{"id": "1"}))
		}), says: []string{"OUTCOME_UNKNOWN", "a call makes one change"}},
		{why: "the object of a change, noted too early", c: write(func(ctx context.Context, c *connector.WriteCall) error {
			if err := c.SawObject(ctx, "1"); err != nil {
				return err
			}
			return post(ctx, c, map[string]any{"id": "1"})
		}), says: []string{"CONTRACT_VIOLATION", "once the provider has answered the change"}},
		{why: "a touch that is not in the body", c: write(func(ctx context.Context, c *connector.WriteCall) error { return post(ctx, c, map[string]any{"x": "1"}) }),
			says: []string{"EGRESS_DENIED", "x:{#/id}: is not there"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			if row.args == "" {
				row.args = `{"id":"1"}`
			}
			f := check.Fixture{
				New: func() (connector.Connector, error) {
					return connector.New(connector.Info{ID: "x", Version: "1.0.0", Owner: "me", Endpoint: "x", Auth: connector.Auth{Mode: connector.AuthAPIKey}}, row.c)
				},
				Double:  func(testing.TB) check.Double { return shelf{row.with} },
				Samples: []check.Sample{{Capability: "get_x", Args: row.args}},
			}
			s, err := check.Open(t, &f, check.InDouble)
			require.NoError(t, err)
			o := s.Ordinary[0]
			require.False(t, o.Works)
			text := o.Why + "\n" + o.Detail
			for _, want := range row.says {
				require.Contains(t, text, want)
			}
			require.NotContains(t, text, "token-of-acme-alice")
			require.False(t, strings.Contains(o.Why, "\n"), "a reason is one line")
		})
	}
}
