package toolresult

import (
	_ "embed"
	"encoding/json"
)

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (2020-12) of the envelope: every Result that
// Validate accepts is written as JSON that the schema accepts. The schema
// refuses what breaks a rule of Validate, except where JSON Schema cannot say
// it: it counts characters and not bytes, cannot compare two times, cannot see
// names that occur twice, and does not know whether a capability reads. It
// accepts members that it does not know, and data of every type: a surface
// that knows more puts the schema of the output into properties/data.
//
// References stay inside of the document and none is circular, for readers
// that inline them. The caller owns the bytes.
func Schema() json.RawMessage { return json.RawMessage(schema) }
