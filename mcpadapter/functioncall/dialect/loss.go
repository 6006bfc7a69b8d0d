package dialect

// A Kind says what a Loss means for what the model writes.
type Kind string

const (
	Wider      Kind = "wider"      // it may write what the schema refuses
	Narrower   Kind = "narrower"   // it cannot write something that the schema accepts
	Annotation Kind = "annotation" // it misses an explanation
	NotStrict  Kind = "not_strict" // the tool is offered without strict mode
	Dropped    Kind = "dropped"    // the tool is not offered at all
)

// A Loss is something that a model does not learn, because the vendor has no
// way to say it. Calls are held to it all the same.
type Loss struct {
	Tool string // the vendor's name
	Path string // JSON Pointer into the input schema; "" is the tool as a whole
	What string
	Kind Kind
}

// String returns one line.
func (l Loss) String() string { return l.Tool + " " + l.Path + ": " + l.What }
