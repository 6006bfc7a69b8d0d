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
// What a vendor does not take is left out of the schema that the model sees, and
// each omission is a [Loss]. It is a loss for the model only: arguments are held
// to the capability's own schema.
//
// # Calls
//
// Every call of an answer gets exactly one output with its id, also one whose
// tool does not exist or whose arguments are no JSON: the output then says so.
// Calls run in the order of the answer, where neighbouring reads run at the same
// time and a change runs by itself. The vendor's id of a call is the call id of
// its result.
//
// A change needs an operation key from the runtime, see [Options.OperationID].
//
// # What this package does not do
//
// It sends nothing to a model and keeps no conversation.
package functioncall
