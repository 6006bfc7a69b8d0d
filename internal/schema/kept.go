package schema

import (
	"reflect"
	"sync"
)

// made says what a schema was made of: a text, or a type and what was said about
// it.
type made struct {
	t     reflect.Type // nil: parsed
	text  string       // the schema's, or the overlay's
	page  int
	input bool
}

// The most schemas, and the longest text of one, that are kept.
const (
	mostKept    = 1024
	longestKept = 16 << 10
)

// kept holds schemas by what they were made of. A schema is a function of that
// and never changes; compiling it is nearly all that making an invoker costs, and
// hosts make one for each reload, and tests for each case. (encoding/json keeps
// what it knows about types in the same way.) When it is full it starts again.
var kept struct {
	sync.Mutex
	m map[made]*Schema
}

// keep returns the schema of k, made by f if it is not there. Failures are not
// kept.
func keep(k made, f func() (*Schema, error)) (*Schema, error) {
	if len(k.text) > longestKept {
		return f()
	}
	kept.Lock()
	s := kept.m[k]
	kept.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := f()
	if err != nil {
		return nil, err
	}
	kept.Lock()
	defer kept.Unlock()
	if kept.m == nil || len(kept.m) >= mostKept {
		kept.m = map[made]*Schema{}
	}
	kept.m[k] = s
	return s, nil
}
