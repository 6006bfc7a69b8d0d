// Package functioncall offers the capabilities of an [connector.Invoker] to a
// model by plain function calling: definitions for a request, and dispatch of
// the calls in an answer.
//
//	defs, err := functioncall.Definitions(ctx, inv, alice, functioncall.OpenAIResponses, nil)
//	// request["tools"] = defs.Tools; send it, and read the answer
//	turn, err := functioncall.Dispatch(ctx, inv, alice, functioncall.OpenAIResponses, answer, opts)
//	// append turn.Outputs to the conversation, and send it again
//
// # Names
//
// Vendors take letters, digits, '_' and '-'. A dot of a capability's name is
// written as a hyphen, which names of capabilities do not have, so that no two
// are alike and each can be read back without a table.
//
// # Schemas
//
// Each vendor takes another part of JSON Schema, and refuses a whole request for one
// tool that it does not take. Package dialect rewrites schemas, by rules with a
// date and a source. What a model does not learn, may write too much of or cannot
// write is a [Loss]; a tool that has no form is left out alone, and is one too.
// Arguments are put back into the capability's own form and held to its own schema.
//
// # Calls
//
// Every call of an answer gets exactly one output with its id, also one whose
// tool does not exist or whose arguments are no JSON: the output then says so.
// Calls run in the order of the answer, where neighbouring reads run at the same
// time and a change runs by itself. The vendor's id of a call is the call id of
// its result. An answer that is streamed is put together by a [Stream] first: of
// one that is not whole nothing runs.
//
// A change needs an operation key from the runtime, see [Options.OperationID].
//
// # What this package does not do
//
// It sends nothing to a model and keeps no conversation. It does not read arguments
// that Gemini streams in parts (partialArgs), and knows no strict mode of Anthropic's
// or Mistral's.
package functioncall
