package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

//lint:file-ignore SA1019 what is deprecated is scored all the same

// What the conformance suite wants to find on a server is offered here by a
// connector, through the governed path and the adapter, and by nothing else: the
// names of the tools, resources and prompts are the suite's.

type (
	nothing struct{}
	answer  struct {
		Prompt string `json:"prompt,omitempty" jsonschema:"to be answered"`
		Notice string `json:"message,omitempty" jsonschema:"to be shown"`
		Answer string `json:"answer,omitempty" jsonschema:"what the client said"`
	}
	two struct {
		Arg1 string `json:"arg1" jsonschema:"the first"`
		Arg2 string `json:"arg2" jsonschema:"the second"`
	}
	embed struct {
		ResourceURI string `json:"resourceUri" jsonschema:"URI of the resource to embed"`
	}
	byID struct {
		ID string `json:"id" jsonschema:"of the resource"`
	}
	said struct {
		Text string `json:"text"`
	}
)

func spec(name string) connector.Spec {
	return connector.Spec{Name: name, Title: name, Description: "What the conformance suite calls " + name + ".", Sensitivity: risk.Public}
}

// says is a capability that says one thing.
func says[In any](name string, text func(In) string) connector.Capability {
	return connector.Read(spec(name), connector.OnConnection[In], func(_ context.Context, _ *connector.ReadCall, in In) (*connector.Answer[said], error) {
		return connector.Found(said{text(in)}), nil
	})
}

func constant(text string) func(nothing) string { return func(nothing) string { return text } }

// steps is a capability that reports three steps.
func steps(name string, notes ...string) connector.Capability {
	return connector.Read(spec(name), connector.OnConnection[nothing], func(ctx context.Context, call *connector.ReadCall, _ nothing) (*connector.Answer[said], error) {
		for i, note := range notes {
			call.Progress(connector.Progress{Done: int64(50 * i), Total: 100, Note: note})
			select {
			case <-time.After(50 * time.Millisecond): // the suite wants to see that they are sent one by one
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return connector.Found(said{"done"}), nil
	})
}

func fails(name string) connector.Capability {
	return connector.Read(spec(name), connector.OnConnection[nothing], func(context.Context, *connector.ReadCall, nothing) (*connector.Answer[said], error) {
		return nil, toolresult.NewError(toolresult.Conflict, "this tool intentionally returns an error for testing")
	})
}

func everythingCapabilities() []connector.Capability {
	out := []connector.Capability{
		says("test_simple_text", constant("This is a simple text response for testing.")),
		says("test_image_content", constant("an image")),
		says("test_audio_content", constant("a sound")),
		says("test_embedded_resource", constant("a resource")),
		says("test_multiple_content_types", constant("several")),
		fails("test_error_handling"),
		steps("test_tool_with_progress", "Completed step 0 of 100", "Completed step 50 of 100", "Completed step 100 of 100"),
		steps("test_tool_with_logging", "Tool execution started", "Tool processing data", "Tool execution completed"),
		steps("test_logging_tool", "a note"),
		steps("test_streaming_elicitation", "a", "b", "c"),
		says("resource_text", constant("This is the content of the static text resource.")),
		says("resource_binary", constant(image)),
		says("resource_watched", constant("Watched resource content")),
		says("resource_by_id", func(in byID) string { return "Data for ID: " + in.ID }),
		says("prompt_simple", constant("This is a simple prompt for testing.")),
		says("prompt_two", func(in two) string {
			return fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", in.Arg1, in.Arg2)
		}),
		says("prompt_embed", func(in embed) string { return in.ResourceURI }),
		says("prompt_image", constant("Please analyze the image above.")),
		says("prompt_asks", func(in answer) string { return "Context: " + in.Answer }),
	}
	for _, name := range slices.Sorted(maps(questions)) {
		if name != "prompt_asks" {
			out = append(out, says(name, func(in answer) string { return "the client said: " + in.Answer }))
		}
	}
	return out
}

// maps returns the keys of a map in no order.
func maps[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func form(message, properties string, required ...string) *mcp.ElicitParams {
	needed, _ := json.Marshal(append([]string{}, required...))
	return &mcp.ElicitParams{Mode: "form", Message: message,
		RequestedSchema: json.RawMessage(`{"type":"object","properties":` + properties + `,"required":` + string(needed) + `}`)}
}

func sampling(text string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
}

func askName() *mcp.ElicitParams {
	return form("What is your name?", `{"name":{"type":"string"}}`, "name")
}

func confirm() mcp.InputRequestMap {
	return mcp.InputRequestMap{"confirm": form("Please confirm", `{"ok":{"type":"boolean"}}`, "ok")}
}

// questions are what is asked before a capability is called, round by round.
var questions = map[string]func(a *mcpadapter.Asking) mcp.InputRequestMap{
	"test_missing_capability": func(*mcpadapter.Asking) mcp.InputRequestMap {
		return mcp.InputRequestMap{"needed": sampling("anything")}
	},
	"test_sampling": func(a *mcpadapter.Asking) mcp.InputRequestMap {
		var in answer
		_ = json.Unmarshal(a.Arguments, &in)
		return mcp.InputRequestMap{"answer": sampling(in.Prompt)}
	},
	"test_elicitation": func(a *mcpadapter.Asking) mcp.InputRequestMap {
		var in answer
		_ = json.Unmarshal(a.Arguments, &in)
		return mcp.InputRequestMap{"answer": form(in.Notice, `{"username":{"type":"string"},"email":{"type":"string"}}`, "username", "email")}
	},
	"test_elicitation_sep1034_defaults": func(*mcpadapter.Asking) mcp.InputRequestMap {
		return mcp.InputRequestMap{"answer": form("Please review", `{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
			"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
			"verified":{"type":"boolean","default":true}}`)}
	},
	"test_elicitation_sep1330_enums": func(*mcpadapter.Asking) mcp.InputRequestMap {
		return mcp.InputRequestMap{"answer": form("Please choose", `{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
			"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
			"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}`)}
	},
	"test_input_required_result_elicitation": func(*mcpadapter.Asking) mcp.InputRequestMap {
		return mcp.InputRequestMap{"user_name": askName()}
	},
	"test_input_required_result_sampling": func(*mcpadapter.Asking) mcp.InputRequestMap {
		return mcp.InputRequestMap{"capital_question": sampling("What is the capital of France?")}
	},
	"test_input_required_result_list_roots": func(*mcpadapter.Asking) mcp.InputRequestMap {
		return mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}
	},
	"test_input_required_result_request_state":  func(*mcpadapter.Asking) mcp.InputRequestMap { return confirm() },
	"test_input_required_result_tampered_state": func(*mcpadapter.Asking) mcp.InputRequestMap { return confirm() },
	"test_input_required_result_multiple_inputs": func(*mcpadapter.Asking) mcp.InputRequestMap {
		return mcp.InputRequestMap{"user_name": askName(), "greeting": sampling("Generate a greeting"), "client_roots": &mcp.ListRootsParams{}}
	},
	"test_input_required_result_multi_round": func(a *mcpadapter.Asking) mcp.InputRequestMap {
		if a.Answers["step1"] == nil {
			return mcp.InputRequestMap{"step1": form("Step 1: What is your name?", `{"name":{"type":"string"}}`, "name")}
		}
		return mcp.InputRequestMap{"step2": form("Step 2: What is your favorite color?", `{"color":{"type":"string"}}`, "color")}
	},
	"test_input_required_result_capabilities": func(a *mcpadapter.Asking) mcp.InputRequestMap {
		out := mcp.InputRequestMap{}
		if a.Client != nil && a.Client.Elicitation != nil {
			out["user_name"] = askName()
		}
		if a.Client != nil && a.Client.Sampling != nil {
			out["greeting"] = sampling("Generate a short greeting")
		}
		return out
	},
	"prompt_asks": func(*mcpadapter.Asking) mcp.InputRequestMap {
		return mcp.InputRequestMap{"user_context": form("Please provide context for the prompt", `{"context":{"type":"string"}}`, "context")}
	},
}

// ask asks what is not answered yet, and then calls with the answers.
func ask(_ context.Context, a *mcpadapter.Asking) (*mcpadapter.Questions, error) {
	f := questions[a.Capability]
	if f == nil {
		return nil, nil
	}
	open := f(a)
	for name := range a.Answers {
		delete(open, name)
	}
	if len(open) > 0 {
		return &mcpadapter.Questions{Ask: open}, nil
	}
	text, err := json.Marshal(a.Answers)
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(answer{Answer: string(text)})
	return &mcpadapter.Questions{Arguments: args}, err
}

// A red point and some silence.
const (
	image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	sound = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

func decoded(text string) []byte {
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return out
}

func picture() mcp.Content { return &mcp.ImageContent{Data: decoded(image), MIMEType: "image/png"} }

func embedded(uri, text string) mcp.Content {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: text}}
}

func content(_ context.Context, capability string, _ *toolresult.Result) []mcp.Content {
	switch capability {
	case "test_image_content":
		return []mcp.Content{picture()}
	case "test_audio_content":
		return []mcp.Content{&mcp.AudioContent{Data: decoded(sound), MIMEType: "audio/wav"}}
	case "test_embedded_resource":
		return []mcp.Content{embedded("test://embedded-resource", "This is an embedded resource")}
	case "test_multiple_content_types":
		return []mcp.Content{picture(), embedded("test://mixed-content-resource", `{"test":"data","value":123}`)}
	}
	return nil
}

func text(r *toolresult.Result) (string, error) {
	var s said
	err := json.Unmarshal(r.Data, &s)
	return s.Text, err
}

func asText(uri string, r *toolresult.Result) ([]*mcp.ResourceContents, error) {
	t, err := text(r)
	return []*mcp.ResourceContents{{Text: t}}, err
}

func asBlob(uri string, r *toolresult.Result) ([]*mcp.ResourceContents, error) {
	t, err := text(r)
	return []*mcp.ResourceContents{{Blob: decoded(t)}}, err
}

func message(before func(text string) mcp.Content) func(r *toolresult.Result) ([]*mcp.PromptMessage, error) {
	return func(r *toolresult.Result) ([]*mcp.PromptMessage, error) {
		t, err := text(r)
		var out []*mcp.PromptMessage
		if before != nil {
			out = append(out, &mcp.PromptMessage{Role: "user", Content: before(t)})
		}
		return append(out, &mcp.PromptMessage{Role: "user", Content: &mcp.TextContent{Text: t}}), err
	}
}

// everything serves what the suite wants. A caller is whoever calls: the suite
// has no way to send a token.
func everything() (*mcpadapter.Adapter, error) {
	c, err := connector.New(connector.Info{ID: "everything", Version: "1.0.0", Owner: "interop", Auth: connector.Auth{Mode: connector.AuthNone}}, everythingCapabilities()...)
	if err != nil {
		return nil, err
	}
	host := authz.NewAuthority("interop")
	anyone, err := host.Principal(authz.Identity{Tenant: "interop", Issuer: "https://interop.test", Subject: "anyone"})
	if err != nil {
		return nil, err
	}
	policy := authztest.Policy(func(*authz.Request) (authz.Decision, error) {
		return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "interop"}, nil
	})
	inv, err := connector.NewInvoker(policy, []*authz.Authority{host}, []connector.Connector{c}, nil)
	if err != nil {
		return nil, err
	}
	id := mcpadapter.Completion{Capability: "resource_by_id", Values: func(r *toolresult.Result) ([]string, error) {
		t, err := text(r)
		return strings.Fields(t), err
	}}
	arg := mcpadapter.Completion{Capability: "prompt_simple"}
	return mcpadapter.New(inv, func(context.Context, *http.Request) (authz.Principal, error) { return anyone, nil }, &mcpadapter.Options{
		Name: "everything", Version: "1.0.0", Ask: ask, Content: content, Logging: true, Subscriptions: true, SessionTimeout: time.Minute,
		Resources: []mcpadapter.Resource{
			{URI: "test://static-text", Capability: "resource_text", MIMEType: "text/plain", Contents: asText},
			{URI: "test://static-binary", Capability: "resource_binary", MIMEType: "image/png", Contents: asBlob},
			{URI: "test://watched-resource", Capability: "resource_watched", MIMEType: "text/plain", Contents: asText},
			{URI: "test://template/{id}/data", Capability: "resource_by_id", Completions: map[string]mcpadapter.Completion{"id": id}},
		},
		Prompts: []mcpadapter.Prompt{
			{Name: "test_simple_prompt", Capability: "prompt_simple", Messages: message(nil)},
			{Name: "test_prompt_with_arguments", Capability: "prompt_two", Messages: message(nil), Completions: map[string]mcpadapter.Completion{"arg1": arg}},
			{Name: "test_prompt_with_embedded_resource", Capability: "prompt_embed", Messages: message(func(uri string) mcp.Content { return embedded(uri, "Embedded resource content for testing.") })},
			{Name: "test_prompt_with_image", Capability: "prompt_image", Messages: message(func(string) mcp.Content { return picture() })},
			{Name: "test_input_required_result_prompt", Capability: "prompt_asks", Messages: message(nil)},
		},
	})
}
