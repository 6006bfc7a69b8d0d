// Package dialect says what each model vendor takes as a function's name,
// description and schema, and rewrites a JSON Schema to that.
//
// A vendor checks the whole list of tools before it looks at a conversation: one
// schema that it does not take makes every turn fail. What it takes is data here
// ([Rules], with the day it was read and where), and [Rules.Project] never returns
// anything else:
//
//	p, err := dialect.Gemini.Project("search", schema)
//	// p.Schema goes to the vendor; p.Losses says what the model does not learn
//	args, err := p.Back(what the model wrote)
//
// # What is rewritten
//
// References are written out, also those with constraints beside them, which then
// both count; one that is recursive stays a reference where the vendor follows
// it, and is cut after [MaxUnfold] levels where it does not. Unions at the root are
// folded into one object. Where a vendor has no word for null, for a number in an
// enum or for an object with any names, another form is used that [Projection.Back]
// undoes. Names of properties are replaced if the vendor does not take them.
//
// # Losses
//
// Each [Loss] says whether the model may now write what the schema refuses
// ([Wider]), cannot write what it accepts ([Narrower]), or only misses an
// explanation ([Annotation]). A schema without a Wider loss accepts nothing that,
// mapped back, its original refuses. Arguments are to be held to the original in
// any case.
//
// # What this package does not do
//
// It follows no reference out of the schema and knows no $dynamicRef and no nested
// $id: such a schema is an error, for this tool alone. It does not check that a
// schema is one beyond what it has to read. It does not know what vendors do not
// publish: where reports differ, the narrower rule is taken.
package dialect
