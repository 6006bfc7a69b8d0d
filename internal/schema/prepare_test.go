package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func problemsOf(t *testing.T, err error) []Problem {
	t.Helper()
	e, ok := errors.AsType[*toolresult.Error](err)
	require.True(t, ok, "%v", err)
	return e.Problems
}

type search struct {
	Query   string            `json:"query"`
	State   string            `json:"state,omitempty"`
	Count   int               `json:"count,omitempty"`
	Since   string            `json:"since,omitempty"`
	Owner   string            `json:"owner_mail,omitempty"`
	Tags    []string          `json:"tags,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Filters []struct {
		Field string  `json:"field"`
		Value float64 `json:"value"`
	} `json:"filters,omitempty"`
}

const searchOverlay = `{"properties":{
	"query":{"minLength":1,"maxLength":20},
	"state":{"enum":["open","closed"],"default":"open"},
	"count":{"minimum":1,"maximum":50,"default":10},
	"since":{"format":"date-time"},
	"owner_mail":{"format":"email"},
	"tags":{"maxItems":2,"uniqueItems":true,"items":{"pattern":"^[a-z]+$"}},
	"labels":{"maxProperties":2}
}}`

// Each bad input gets the place, and a text that says what would be right.
func TestPrepareRefuses(t *testing.T) {
	s := input[search](t, searchOverlay)
	for _, row := range []struct{ why, args, pointer, says string }{
		{"an unknown argument", `{"query":"a","nope":1}`, "/nope", "is not known here; the arguments are count, filters, labels, owner_mail, query, since, state, tags"},
		{"an unknown argument, deep", `{"query":"a","filters":[{"field":"a","value":1,"op":"x"}]}`, "/filters/0/op", "is not known here; the arguments are field, value"},
		{"a known argument in another case", `{"Query":"a"}`, "/Query", "is not known here, but query is; the arguments are count, filters, labels, owner_mail, query, since, state, tags"},
		{"a wrong type", `{"query":7}`, "/query", "want a string"},
		{"a wrong type with bounds", `{"query":"a","count":"7"}`, "/count", "want a whole number from 1 to 50"},
		{"null", `{"query":null}`, "/query", "want a string"},
		{"a fraction", `{"query":"a","count":1.5}`, "/count", "want a whole number from 1 to 50"},
		{"out of bounds", `{"query":"a","count":51}`, "/count", "want a number from 1 to 50"},
		{"an over-long string", `{"query":"` + strings.Repeat("ä", 21) + `"}`, "/query", "want 1 to 20 characters, not 21"},
		{"an empty string", `{"query":""}`, "/query", "want 1 to 20 characters, not 0"},
		{"2^53+1", `{"query":"a","filters":[{"field":"f","value":9007199254740993}]}`, "/filters/0/value", "is a number beyond 2^53 that readers round; send a smaller one"},
		{"a number that is infinite", `{"query":"a","filters":[{"field":"f","value":1e999}]}`, "/filters/0/value", "is a number beyond 2^53 that readers round; send a smaller one"},
		{"deep nesting", `{"query":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "", "is nested too deeply; at most 64 levels"},
		{"very deep nesting", strings.Repeat("[", 1<<20), "", "is nested too deeply; at most 64 levels"},
		{"invalid UTF-8", "{\"query\":\"\xff\"}", "", "is not UTF-8; send valid UTF-8"},
		{"half a surrogate pair", `{"query":"\ud800"}`, "/query", "holds half a surrogate pair; send both halves or neither"},
		{"a NUL", `{"query":"a\u0000"}`, "/query", "holds a NUL character; remove it"},
		{"a NUL in a name", `{"qu\u0000ery":"a"}`, "", "holds a NUL character; remove it"},
		{"case twins", `{"query":"a","QUERY":"b"}`, "", "has a name twice, or twice but for case; send each once"},
		{"case twins, deep", `{"query":"a","filters":[{"field":"f","Field":"g","value":1}]}`, "/filters/0", "has a name twice, or twice but for case; send each once"},
		{"twins by the Kelvin sign", "{\"query\":\"a\",\"labels\":{\"k\":\"\",\"\u212a\":\"\"}}", "/labels", "has a name twice, or twice but for case; send each once"},
		{"a repeated name", `{"query":"a","query":"b"}`, "", "has a name twice, or twice but for case; send each once"},
		{"a name that is missing", `{}`, "/query", "is missing; want a string"},
		{"a name that is missing, deep", `{"query":"a","filters":[{"value":1}]}`, "/filters/0/field", "is missing; want a string"},
		{"none of the values", `{"query":"a","state":"opne"}`, "/state", `want one of "open", "closed"`},
		{"a time without zone", `{"query":"a","since":"2026-04-29T02:35:00"}`, "/since", "want a time with zone such as 2026-04-29T02:35:00Z"},
		{"no e-mail address", `{"query":"a","owner_mail":"Ada <ada@example.com>"}`, "/owner_mail", "want an e-mail address such as ada@example.com"},
		{"no match", `{"query":"a","tags":["A"]}`, "/tags/0", "want a string that matches ^[a-z]+$"},
		{"too many items", `{"query":"a","tags":["a","b","c"]}`, "/tags", "want at most 2 items, not 3"},
		{"items that repeat", `{"query":"a","tags":["a","a"]}`, "/tags", "want items that differ from each other; item 1 occurs before"},
		{"too many keys", `{"query":"a","labels":{"a":"","b":"","c":""}}`, "/labels", "want at most 2 members, not 3"},
		{"an array", `[]`, "", "want an object"},
		{"null alone", `null`, "", "want an object"},
		{"nothing", ` `, "", notJSON},
		{"two values", `{"query":"a"}{}`, "", "goes on after its value; send one JSON object"},
		{"cut short", `{"query":"a"`, "", notJSON},
		{"a comma too many", `{"query":"a",}`, "", notJSON},
		{"a leading zero", `{"query":"a","count":01}`, "/count", notJSON},
		{"single quotes", `{'query':'a'}`, "", notJSON},
		{"a raw line break", "{\"query\":\"a\nb\"}", "/query", notJSON},
		{"NaN", `{"query":"a","count":NaN}`, "/count", notJSON},
		{"too much", `{"query":"` + strings.Repeat("x", maxBytes) + `"}`, "", "want at most 1048576 bytes"},
	} {
		got, err := s.Prepare(json.RawMessage(row.args))
		require.Nil(t, got, row.why)
		require.ErrorIs(t, err, toolresult.InvalidInput, row.why)
		if row.why == "a known argument in another case" {
			require.Contains(t, problemsOf(t, err), problem(row.pointer, row.says), row.why)
			continue
		}
		require.Equal(t, []Problem{problem(row.pointer, row.says)}, jsonProblem(problemsOf(t, err), row.says, row.pointer), row.why)
	}
}

// jsonProblem leaves the exact place of a syntax error open to the reader: it
// is the value or what is around it.
func jsonProblem(ps []Problem, says, pointer string) []Problem {
	if len(ps) == 1 && says == notJSON && strings.HasPrefix(pointer, ps[0].Pointer) {
		return []Problem{problem(pointer, ps[0].Text)}
	}
	return ps
}

func TestPrepareReportsSeveral(t *testing.T) {
	_, err := input[search](t, searchOverlay).Prepare(json.RawMessage(`{"count":0,"tags":["A","B"],"x":1}`))
	require.Len(t, problemsOf(t, err), 5)
	_, err = input[search](t, searchOverlay).Prepare(json.RawMessage(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1}`))
	require.Len(t, problemsOf(t, err), maxProblems)
}

func TestPrepareQuotesLittle(t *testing.T) {
	s := input[search](t, searchOverlay)
	secret := "s3cr3t" + strings.Repeat("x", 100)
	for _, args := range []string{`{"query":"a","count":"` + secret + `"}`, `{"query":"` + secret + `"}`, `{"query":"a","state":"` + secret + `"}`, `{"query":"a","since":"` + secret + `"}`, `{"query":"a","tags":["` + secret + `1"]}`} {
		_, err := s.Prepare(json.RawMessage(args))
		for _, p := range problemsOf(t, err) {
			require.NotContains(t, p.Pointer+p.Text, "s3cr3t")
		}
	}
	_, err := s.Prepare(json.RawMessage(`{"query":"a","` + secret + `":1}`))
	for _, p := range problemsOf(t, err) {
		require.LessOrEqual(t, len(p.Pointer), 65, "a name is cut to 64 bytes")
		require.NotContains(t, p.Text, "s3cr3t")
	}
}

func TestPrepareIsCanonicalAndAgain(t *testing.T) {
	s := input[search](t, searchOverlay)
	for _, row := range []struct{ args, want string }{
		{`{"query":"a"}`, `{"count":10,"query":"a","state":"open"}`},
		{` { "state" : "closed" , "query" : "\u00e4\/\n" , "count" : 1.0e1 } `, `{"count":10,"query":"ä/\n","state":"closed"}`},
		{`{"query":"a","labels":{"b":"","a":"\u0001"},"filters":[{"value":-0.0,"field":""},{"value":1e-7,"field":"x"}]}`, `{"count":10,"filters":[{"field":"","value":0},{"field":"x","value":1e-7}],"labels":{"a":"\u0001","b":""},"query":"a","state":"open"}`},
	} {
		got, err := s.Prepare(json.RawMessage(row.args))
		require.NoError(t, err)
		require.Equal(t, row.want, string(got))
		again, err := s.Prepare(got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(again))
	}
	got, err := input[struct{}](t, "").Prepare(nil)
	require.NoError(t, err)
	require.Equal(t, `{}`, string(got), "nil is {}")
}

func TestDecode(t *testing.T) {
	for _, row := range []struct{ why, args, says string }{
		{"a name in other case", `{"Query":"a"}`, "has an argument that is not known here, or not in this case"},
		{"a name in other case, deep", `{"query":"a","filters":[{"FIELD":"f","value":1}]}`, "not in this case"},
		{"a name that is not there", `{"query":"a","x":1}`, "a member is unknown"},
		{"another type", `{"query":1}`, `at "query" want string`},
		{"no JSON", `{`, "another form"},
		{"more than one", `{}{}`, "goes on"},
	} {
		var in search
		err := Decode(json.RawMessage(row.args), &in)
		require.ErrorIs(t, err, toolresult.InvalidInput, row.why)
		require.Contains(t, problemsOf(t, err)[0].Text, row.says, row.why)
	}
	require.Error(t, Decode(json.RawMessage(`{}`), nil))
	require.Error(t, Decode(json.RawMessage(`{}`), search{}))
	var in search
	require.NoError(t, Decode(json.RawMessage(`{"query":"a","labels":{"Any":"case"}}`), &in))
	require.Equal(t, search{Query: "a", Labels: map[string]string{"Any": "case"}}, in)
}

// What this package's parser takes is what strictjson takes, but for half
// surrogate pairs and numbers that are not exact, and it writes the same bytes.
func FuzzText(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x\u2028",null,{"B":true}]}`, `"\ud83d\ude00\ud800"`, `[1e21,1e-7,-0,123456789012345678]`, "{\"k\":1,\"\u212a\":2}", `{"":{"":[]}} `, `[90071992547409930e-1,0.1e1,1E+2]`, strings.Repeat("[", 65) + strings.Repeat("]", 65), `{"\uffff":1,"\ud83d\ude00":2,"ı":1,"I":2}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, p := parse(s, true)
		want, err := strictjson.Canonical([]byte(s))
		if p != nil {
			require.True(t, err != nil || strings.Contains(p.Text, "surrogate"), "%s: %q", p.Text, s)
			require.LessOrEqual(t, len(p.Text), 200)
			return
		}
		require.NoError(t, err, "%q", s)
		require.Equal(t, string(want), string(appendCanonical(nil, &v)))
		_, p = parse(s, false)
		require.Nil(t, p, "the lenient form takes no less")
	})
}

func FuzzPrepare(f *testing.F) {
	f.Add([]byte(`{"query":"a","filters":[{"field":"f","value":1}],"labels":{"a":"b"}}`))
	f.Add([]byte("{\"query\":\"\xff\"}"))
	f.Add([]byte(`{"query":"\u0000","count":1e999}`))
	s, err := Input(reflect.TypeFor[search](), &Options{Overlay: json.RawMessage(searchOverlay)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		got, err := s.Prepare(args)
		if err != nil {
			require.ErrorIs(t, err, toolresult.InvalidInput)
			require.Nil(t, got)
			require.NotEmpty(t, problemsOf(t, err))
			return
		}
		again, err := s.Prepare(got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(again))
		same, err := strictjson.Canonical(got)
		require.NoError(t, err)
		require.Equal(t, string(same), string(got))
		var in search
		require.NoError(t, Decode(got, &in), "what is valid is decoded")
	})
}

func TestPrepareConcurrently(t *testing.T) {
	s := input[search](t, `{"properties":{"labels":{"default":{"b":"","a":""}},"tags":{"default":["x"],"uniqueItems":true}}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				got, err := s.Prepare(json.RawMessage(`{"query":"a"}`))
				if want := `{"labels":{"a":"","b":""},"query":"a","tags":["x"]}`; err != nil || string(got) != want {
					t.Errorf("%s, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// problemOf returns the first problem, for examples.
func problemOf(err error) string {
	if e, ok := errors.AsType[*toolresult.Error](err); ok && len(e.Problems) > 0 {
		return e.Problems[0].Pointer + ": " + e.Problems[0].Text
	}
	return fmt.Sprint(err)
}
