package schema

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func input[T any](t *testing.T, overlay string) *Schema {
	t.Helper()
	s, err := Input(reflect.TypeFor[T](), &Options{Overlay: json.RawMessage(overlay)})
	require.NoError(t, err)
	return s
}

type Place struct {
	City string  `json:"city"`
	Lat  float64 `json:"lat,omitempty"`
}

type everything struct {
	Query  string            `json:"query" jsonschema:"what to look for"`
	Since  time.Time         `json:"since"`
	Count  int               `json:"count"`
	Small  int32             `json:"small,omitempty"`
	Pos    uint              `json:"pos,omitzero"`
	Byte   uint8             `json:"byte,omitempty"`
	Big    int64             `json:"big,omitempty,string"`
	Ratio  float32           `json:"ratio,omitempty"`
	Flag   *bool             `json:"flag"`
	Places []Place           `json:"places,omitempty"`
	Pair   [2]int            `json:"pair,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Raw    []byte            `json:"raw,omitempty"`
	Skip   func()            `json:"-"`
	hidden int               //lint:ignore U1000 it must not become an argument
}

func TestInputSaysWhatTypesSay(t *testing.T) {
	s := input[everything](t, "")
	require.JSONEq(t, `{
		"type": "object", "additionalProperties": false, "required": ["query", "since", "count"],
		"properties": {
			"query": {"type": "string", "maxLength": 4096, "description": "what to look for"},
			"since": {"type": "string", "format": "date-time"},
			"count": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
			"small": {"type": "integer", "minimum": -2147483648, "maximum": 2147483647},
			"pos": {"type": "integer", "minimum": 0, "maximum": 9007199254740991},
			"byte": {"type": "integer", "minimum": 0, "maximum": 255},
			"big": {"type": "string", "maxLength": 20, "pattern": "^(0|-?[1-9][0-9]{0,18})$"},
			"ratio": {"type": "number"},
			"flag": {"type": "boolean"},
			"places": {"type": "array", "maxItems": 1000, "items": {"type": "object", "additionalProperties": false, "required": ["city"],
				"properties": {"city": {"type": "string", "maxLength": 4096}, "lat": {"type": "number"}}}},
			"pair": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}},
			"labels": {"type": "object", "maxProperties": 100, "additionalProperties": {"type": "string", "maxLength": 4096}},
			"raw": {"type": "string", "maxLength": 4096, "contentEncoding": "base64", "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"}
		}}`, string(s.JSON()))
	again := input[everything](t, "")
	require.Equal(t, string(s.JSON()), string(again.JSON()), "stable bytes")
}

type loop struct {
	Next *loop `json:"next,omitempty"`
}

type Repo struct {
	Repo string `json:"repo"`
}

type unexported struct{ Inner string }

type (
	waits struct {
		Deep []struct {
			Wait time.Duration `json:"wait"`
		} `json:"deep"`
	}
	anything  struct{ X any }
	raw       struct{ X json.RawMessage }
	channel   struct{ X chan int }
	complexes struct{ X map[string]complex128 }
	intKeys   struct{ X map[int]string }
	quoted    struct {
		X float64 `json:"x,string"`
	}
	twins1 struct {
		A string `json:"name"`
		B string `json:"Name"`
	}
	umlaut struct {
		A string `json:"größe"`
	}
	long struct {
		A string `json:"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`
	}
	embedsHidden struct{ *unexported }
	paged        struct {
		Cursor string `json:"cursor"`
	}
	nested struct {
		Scope struct {
			TenantID string `json:"tenant_id"`
		} `json:"scope"`
	}
	listed struct {
		Items []map[string]struct {
			APIKey string `json:"apiKey"`
		} `json:"items"`
	}
)

func TestInputRefuses(t *testing.T) {
	for _, row := range []struct {
		why  string
		typ  reflect.Type
		opts Options
		says string
	}{
		{"a duration, deep down, with the field's name", reflect.TypeFor[waits](), Options{}, "waits.Deep[].Wait: is a time.Duration, which is nanoseconds in JSON; use a whole number with the unit in its name"},
		{"any", reflect.TypeFor[anything](), Options{}, "/X: is interface {}; say in the overlay"},
		{"raw JSON", reflect.TypeFor[raw](), Options{}, "/X: is any JSON; say in the overlay"},
		{"a channel", reflect.TypeFor[channel](), Options{}, "channel.X: is a chan int"},
		{"a complex number in a map", reflect.TypeFor[complexes](), Options{}, "complexes.X[]: is a complex128"},
		{"a map by number", reflect.TypeFor[intKeys](), Options{}, "keys are not plain strings"},
		{"a quoted fraction", reflect.TypeFor[quoted](), Options{}, `json option "string"`},
		{"a type that holds itself", reflect.TypeFor[loop](), Options{}, "loop.Next: is a type that holds itself"},
		{"names that differ in case", reflect.TypeFor[twins1](), Options{}, "differ only in case"},
		{"a name that is not portable", reflect.TypeFor[umlaut](), Options{}, "a name is 1 to 64 of"},
		{"a name that is too long", reflect.TypeFor[long](), Options{}, "a name is 1 to 64 of"},
		{"a member that the decoder cannot set", reflect.TypeFor[embedsHidden](), Options{}, `"Inner" in its schema, and encoding/json does not decode it`},
		{"no struct", reflect.TypeFor[string](), Options{}, "want a struct"},
		{"a time alone", reflect.TypeFor[time.Time](), Options{}, "want a struct"},
		{"no type", nil, Options{}, "want a struct"},
		{"a field that every listing has", reflect.TypeFor[paged](), Options{Page: 10}, "/cursor: is added to every listing"},
		{"a trusted parameter, nested (K5)", reflect.TypeFor[nested](), Options{}, "/properties/scope/properties/tenant_id: asks a model for what only the runtime may say (tenant)"},
		{"a secret in the values of maps in a list (K5)", reflect.TypeFor[listed](), Options{}, "asks a model for a secret (apikey)"},
		{"an overlay for nothing", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"town":{"maxLength":9}}}`)}, "/town: is in the overlay and not in the type; the type has city, lat"},
		{"an overlay that is no JSON", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{`)}, "overlay: json"},
		{"an overlay that is no object", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`[]`)}, "want a JSON object"},
		{"an overlay that removes", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"city":null}}`)}, "cannot be removed"},
		{"an overlay that opens", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"additionalProperties":true}`)}, "must stay false"},
		{"an overlay that changes a type", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"city":{"type":"integer"}}}`)}, "/city: in the overlay: type must be"},
		{"an overlay that lifts a bound", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"city":{"maxLength":null}}}`)}, "maxLength must be a number up to"},
		{"an overlay that goes past a kind", reflect.TypeFor[everything](), Options{Overlay: json.RawMessage(`{"properties":{"small":{"maximum":2147483648}}}`)}, "/small: in the overlay: maximum must be at most"},
		{"an overlay that lets times be anything", reflect.TypeFor[everything](), Options{Overlay: json.RawMessage(`{"properties":{"since":{"format":null}}}`)}, "/since: in the overlay: format must stay"},
		{"an overlay that makes a pair of three", reflect.TypeFor[everything](), Options{Overlay: json.RawMessage(`{"properties":{"pair":{"maxItems":3}}}`)}, "/pair: in the overlay: maxItems"},
		{"a keyword that is none", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"city":{"maxlength":9}}}`)}, `"maxlength" is not a keyword`},
		{"a format that nobody checks", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"city":{"format":"town"}}}`)}, "not a format that is checked"},
		{"a default that does not fit", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"city":{"maxLength":3,"default":"Berlin"}}}`)}, "does not fit its own schema: want at most 3 characters"},
		{"an enum of another type", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"city":{"enum":["a",1]}}}`)}, "/enum: value 1 does not fit"},
		{"a bound beyond 2^53", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"properties":{"lat":{"maximum":9007199254740993}}}`)}, "whole up to 2^53"},
		{"required of nothing", reflect.TypeFor[Place](), Options{Overlay: json.RawMessage(`{"required":["town"]}`)}, `requires "town"`},
		{"a trusted parameter by overlay (K5)", reflect.TypeFor[anything](), Options{Overlay: json.RawMessage(`{"properties":{"X":{"type":"object","additionalProperties":false,"properties":{"userId":{"type":"string"}}}}}`)}, "may say (user)"},
		{"an open object by overlay", reflect.TypeFor[anything](), Options{Overlay: json.RawMessage(`{"properties":{"X":{"type":"object"}}}`)}, "lets unknown properties through"},
		{"an array of anything by overlay", reflect.TypeFor[anything](), Options{Overlay: json.RawMessage(`{"properties":{"X":{"type":"array"}}}`)}, "does not say what its items are"},
		{"a reason that is none", reflect.TypeFor[Repo](), Options{Overlay: json.RawMessage(`{"properties":{"repo":{"x-drawbridge-business":" "}}}`)}, "want the reason"},
	} {
		_, err := Input(row.typ, &row.opts)
		require.ErrorContains(t, err, row.says, row.why)
		_, ok := errors.AsType[*Error](err)
		require.True(t, ok, row.why)
	}
}

// A field of jsonschema-go v0.4.3 that goes missing: the promoted field has the
// Go name of the struct that it is promoted from.
func TestInputKeepsPromotedFields(t *testing.T) {
	type in struct {
		Repo
		State string `json:"state"`
	}
	s := input[in](t, "")
	args, err := s.Prepare(json.RawMessage(`{"repo":"a/b","state":"open"}`))
	require.NoError(t, err)
	var got in
	require.NoError(t, Decode(args, &got))
	require.Equal(t, in{Repo{"a/b"}, "open"}, got)
}

func TestFieldsAreThoseOfEncodingJSON(t *testing.T) {
	type A struct{ X, Y string }
	type B struct {
		X string
		Z string `json:"Y"`
	}
	type deep struct {
		A
		*B
		Q string `json:"q\"uote"` //lint:ignore SA5008 that is the point
		N string `json:",omitempty"`
	}
	var names []string
	for _, f := range fields(reflect.TypeFor[deep]()) {
		names = append(names, f.name)
	}
	// X is in A and B at one depth and counts in neither; the tagged Y wins.
	require.Equal(t, []string{"Y", "Q", "N"}, names)
	require.NoError(t, agree(reflect.TypeFor[deep](), fields(reflect.TypeFor[deep]())))
	require.ErrorContains(t, agree(reflect.TypeFor[deep](), fields(reflect.TypeFor[deep]())[1:]), `decodes the member "Y"`, "a field that the schema lacks is noticed")
	require.ErrorContains(t, agree(reflect.TypeFor[deep](), fields(reflect.TypeFor[A]())), `"X" in its schema`, "a field that the decoder lacks is noticed")
}

func TestOverlay(t *testing.T) {
	s := input[everything](t, `{"properties": {
		"query": {"minLength": 1, "maxLength": 200, "examples": ["x"]},
		"count": {"minimum": 1, "maximum": 50, "default": 10},
		"places": {"items": {"properties": {"city": {"enum": ["Bonn", "Köln"], "default": "Bonn"}}}},
		"labels": {"maxProperties": 3, "additionalProperties": {"maxLength": 5}}
	}}`)
	args, err := s.Prepare(json.RawMessage(`{"since":"2026-04-29T02:35:00+02:00","query":"x","places":[{"lat":1.50},{"city":"Köln"}]}`))
	require.NoError(t, err)
	require.Equal(t, `{"count":10,"places":[{"city":"Bonn","lat":1.5},{"city":"Köln"}],"query":"x","since":"2026-04-29T02:35:00+02:00"}`, string(args))
	require.NotContains(t, string(s.JSON()), `"required":["query","since","count"]`, "what has a default need not be sent")
	require.Contains(t, string(s.JSON()), `"required":["query","since"]`)
}

func TestOverlayOfOpenPlaces(t *testing.T) {
	s := input[raw](t, `{"properties":{"X":{"anyOf":[{"type":"string","maxLength":3},{"type":"array","items":{"type":"integer"},"maxItems":2}]}}}`)
	_, err := s.Prepare(json.RawMessage(`{"X":[1,2]}`))
	require.NoError(t, err)
	_, err = s.Prepare(json.RawMessage(`{"X":true}`))
	require.Equal(t, []Problem{problem("/X", "want one of 2 forms: a string, an array")}, problemsOf(t, err))
}

func TestOverlayWithDefinitions(t *testing.T) {
	s := input[Place](t, `{"$defs":{"town":{"enum":["Bonn"]}},"properties":{"city":{"$ref":"#/$defs/town"}}}`)
	_, err := s.Prepare(json.RawMessage(`{"city":"Ulm"}`))
	require.Equal(t, []Problem{problem("/city", `want one of "Bonn"`)}, problemsOf(t, err))
	require.NotContains(t, string(s.JSON()), "$")
}

func TestPage(t *testing.T) {
	s, err := Input(reflect.TypeFor[Repo](), &Options{Page: 50, Overlay: json.RawMessage(`{"properties":{"page_size":{"default":20}}}`)})
	require.NoError(t, err)
	args, err := s.Prepare(json.RawMessage(`{"repo":"a"}`))
	require.NoError(t, err)
	require.Equal(t, `{"page_size":20,"repo":"a"}`, string(args))
	rest, size, cursor, err := Listing(args)
	require.NoError(t, err)
	require.Equal(t, `{"repo":"a"}`, string(rest))
	require.Equal(t, 20, size)
	require.Empty(t, cursor)
	var in Repo
	require.NoError(t, Decode(rest, &in))
	_, err = s.Prepare(json.RawMessage(`{"repo":"a","page_size":51}`))
	require.Equal(t, []Problem{problem("/page_size", "want a number from 1 to 50")}, problemsOf(t, err))
	_, err = s.Prepare(json.RawMessage(`{"repo":"a","cursor":"` + strings.Repeat("x", 4097) + `"}`))
	require.Equal(t, []Problem{problem("/cursor", "want at most 4096 characters, not 4097")}, problemsOf(t, err))
}

func TestParseAcceptsItsOwn(t *testing.T) {
	s := input[Repo](t, `{"properties":{"repo":{"x-drawbridge-business":"the repository to read","description":"owner/name"}}}`)
	again, err := Parse(s.JSON(), true)
	require.NoError(t, err)
	require.Equal(t, string(s.JSON()), string(again.JSON()))
	require.Contains(t, string(s.JSON()), Business, "the reason is a part of the contract (K5)")
	require.NotContains(t, string(s.Model()), Business, "and not of what a model sees")
	require.Contains(t, string(s.Model()), "owner/name")
}

func TestOutput(t *testing.T) {
	type row struct {
		ID   int64      `json:"id"`
		Tags []string   `json:"tags"`
		At   *time.Time `json:"at"`
		Note string     `json:"note,omitempty"`
		More any        `json:"more"`
	}
	s, err := Output(reflect.TypeFor[[]row](), nil)
	require.NoError(t, err)
	for _, v := range []any{[]row{{}}, []row{{ID: 7, Tags: []string{"a"}, At: new(time.Time), More: map[string]any{"App": 1, "app": 2}}}, []row{}} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, s.Check(text), string(text))
	}
	for _, row := range []struct{ why, text, pointer, says string }{
		{"a number that readers round", `[{"id":9007199254740993,"tags":[],"at":null,"more":null}]`, "/0/id", "want a number from -9007199254740991 to 9007199254740991"},
		{"a member that nobody declared, whose name is not quoted", `[{"id":1,"tags":[],"at":null,"more":1,"s3cr3t":1}]`, "/0", "has a member that is not declared; the members are at, id, more, note, tags"},
		{"a member that is not there", `[{"id":1,"tags":[],"at":null}]`, "/0/more", "is missing; want a value"},
		{"no JSON", `[`, "/0", notJSON},
	} {
		err := s.Check(json.RawMessage(row.text))
		require.ErrorContains(t, err, "CONTRACT_VIOLATION", row.why)
		require.Equal(t, []Problem{problem(row.pointer, row.says)}, problemsOf(t, err), row.why)
	}
	_, err = Output(reflect.TypeFor[map[string]time.Duration](), nil)
	require.ErrorContains(t, err, "time.Duration")
}

func TestZeroSchemaRefuses(t *testing.T) {
	for _, s := range []*Schema{nil, {}} {
		_, err := s.Prepare(nil)
		require.ErrorContains(t, err, "INVALID_INPUT")
		require.ErrorContains(t, s.Check(json.RawMessage(`1`)), "CONTRACT_VIOLATION")
	}
}

func inputOf[T any](overlay []byte) (*Schema, error) {
	return Input(reflect.TypeFor[T](), &Options{Overlay: overlay})
}
