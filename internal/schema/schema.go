// Package schema makes, checks and applies the JSON Schemas (2020-12) of
// capabilities.
package schema

import (
	"encoding/json"
	"reflect"
)

// Schema is a checked JSON Schema. It is immutable and safe for concurrent use.
type Schema struct{ text json.RawMessage }

// Options say what a Go type cannot.
type Options struct {
	// Overlay is merged (RFC 7396) over the schema that follows from the type.
	Overlay json.RawMessage

	// Page, if over 0, makes the input that of a listing: it adds page_size
	// (1 to Page, default Page) and cursor.
	Page int
}

// Input returns the schema of arguments. t must be a struct.
func Input(t reflect.Type, opts *Options) (*Schema, error) { return &Schema{}, nil }

// Output returns the schema of an answer.
func Output(t reflect.Type, opts *Options) (*Schema, error) { return &Schema{}, nil }

// Parse checks a schema that was written by hand.
func Parse(raw json.RawMessage, input bool) (*Schema, error) { return &Schema{}, nil }

// JSON returns the whole schema. The caller must not change it.
func (s *Schema) JSON() json.RawMessage { return s.text }

// Prepare checks arguments and returns them in RFC 8785 form with defaults.
func (s *Schema) Prepare(args json.RawMessage) (json.RawMessage, error) { return args, nil }

// Check checks an emitted value.
func (s *Schema) Check(data json.RawMessage) error { return nil }

// Decode reads arguments that Prepare returned, by exact names.
func Decode(args json.RawMessage, out any) error { return json.Unmarshal(args, out) }
