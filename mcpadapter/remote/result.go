package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
	"github.com/drawbridge-sdk/drawbridge/internal/mcpwire"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// answer makes a result of what the server sent.
func (c *Connector) answer(ctx context.Context, call *connector.Call, t *tool, sent map[string]any) (*toolresult.Result, error) {
	blocks, ok := sent["content"].([]any)
	if !ok && sent["content"] != nil || len(blocks) > mostBlocks {
		return nil, mcpwire.FaultResult
	}
	if sent["isError"] == true {
		return nil, toolresult.NewError(toolresult.ProviderError, "the tool says that it failed").
			WithDiagnostics(toolresult.Diagnostics{ProviderText: errorText(sent)})
	}
	data, lost, err := c.data(ctx, call, t, sent, blocks)
	if err != nil && !t.writes {
		return nil, err
	}
	r := toolresult.Complete(call.ID(), data) // without data: it was made, and what came back cannot be shown
	if lost && err == nil {
		r = toolresult.Partial(call.ID(), data, GapOriginal)
	}
	if op, ok := call.Operation(); ok && t.writes {
		r.Effect = toolresult.Effect{Disposition: toolresult.EffectApplied, OperationID: op.ID}
	}
	r.Provenance = toolresult.Provenance{Object: t.Name, Version: t.pin.Digest, Sources: []toolresult.Provenance{
		{Service: c.server.ID + " (" + c.server.Party.String() + ")", Object: t.Name, Trust: t.Trust, FetchedAt: time.Now().UTC()},
	}}
	return r, nil
}

// GapOriginal says that parts of an answer are neither in it nor kept: there is
// no store for originals, or it failed.
const GapOriginal toolresult.Gap = "original_not_kept"

const mostBlocks = 1000

// body is the answer as it leaves.
type body struct {
	Content    []map[string]any `json:"content"`
	Structured any              `json:"structured,omitempty"`
	Changed    int              `json:"changed"`
	Original   string           `json:"original,omitempty"`
}

// data returns the answer as it leaves, and whether something of it is nowhere.
func (c *Connector) data(ctx context.Context, call *connector.Call, t *tool, sent map[string]any, blocks []any) (data json.RawMessage, lost bool, err error) {
	structured, given := sent["structuredContent"]
	if t.output != nil {
		if err := fits(t, structured, given); err != nil {
			return nil, false, err
		}
	}
	policy := defuse.Policy{Hosts: c.server.Hosts, Markup: c.server.Markup}
	out := body{Content: []map[string]any{}}
	kept := false // something is only in the original
	for _, b := range blocks {
		shown, binary := block(b)
		if given && repeats(shown, structured) {
			continue // the same again as text, for clients that read nothing else
		}
		v, n := policy.Value(shown)
		out.Content, out.Changed, kept = append(out.Content, v.(map[string]any)), out.Changed+n, kept || binary
	}
	if given {
		v, n := policy.Value(structured)
		out.Structured, out.Changed = v, out.Changed+n
	}
	if kept || out.Changed > 0 {
		out.Original, err = c.keep(ctx, call, sent)
		lost = err != nil || kept && out.Original == ""
	}
	data, err = json.Marshal(out)
	return data, lost, err
}

// fits holds an answer to what was approved.
func fits(t *tool, structured any, given bool) error {
	wrong := toolresult.NewError(toolresult.ProviderError, "the answer does not have the form that the approved definition declares")
	if !given {
		return wrong
	}
	text, err := json.Marshal(structured)
	if err != nil {
		return wrong
	}
	if err := t.output.Check(text); err != nil {
		return toolresult.WrapError(toolresult.ProviderError, wrong.Message, err)
	}
	return nil
}

// repeats reports whether a block is the text form of the structured answer.
func repeats(shown map[string]any, structured any) bool {
	text, ok := shown["text"].(string)
	if !ok || shown["type"] != "text" || !strings.HasPrefix(strings.TrimLeft(text, " \n\t"), "{") {
		return false
	}
	v, err := strictjson.Parse([]byte(text))
	return err == nil && compact(v) == compact(structured)
}

// block is one block of content in the form of an answer, and whether it has a
// part that is only in the original.
func block(v any) (map[string]any, bool) {
	o, _ := v.(map[string]any)
	text := func(from map[string]any, name string) string { s, _ := from[name].(string); return s }
	out := map[string]any{"type": "unknown"}
	put := func(name, value string) {
		if value != "" {
			out[name] = value
		}
	}
	switch kind := text(o, "type"); kind {
	case "text":
		out["type"], out["text"] = "text", text(o, "text")
		return out, false
	case "image", "audio":
		out["type"] = kind
		put("mime_type", text(o, "mimeType"))
		return out, binary(out, text(o, "data"))
	case "resource_link":
		out["type"] = "link"
		put("uri", text(o, "uri"))
		put("name", text(o, "name"))
		put("description", text(o, "description"))
		put("mime_type", text(o, "mimeType"))
		return out, false
	case "resource":
		r, _ := o["resource"].(map[string]any)
		out["type"] = "resource"
		put("uri", text(r, "uri"))
		put("mime_type", text(r, "mimeType"))
		if blob := text(r, "blob"); blob != "" {
			return out, binary(out, blob)
		}
		put("text", text(r, "text"))
		return out, false
	}
	return out, true
}

// binary notes what a binary part is; it is never cut or shown.
func binary(out map[string]any, data string) bool {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		raw = []byte(data)
	}
	sum := sha256.Sum256(raw)
	out["bytes"], out["sha256"] = len(raw), hex.EncodeToString(sum[:])
	return true
}

// keep stores what was sent, under the rights of this call.
func (c *Connector) keep(ctx context.Context, call *connector.Call, sent map[string]any) (string, error) {
	if c.opts.Artifacts == nil {
		return "", nil
	}
	text, err := json.Marshal(sent)
	if err != nil {
		return "", err
	}
	k := call.Principal().Key()
	t := c.tools[call.Capability()]
	meta := &artifact.Meta{
		Ref: artifact.Ref{Run: "remote-" + strings.TrimPrefix(strictjson.Digest(call.ID()), "sha256:")[:16], Name: "original"}, Tenant: k.Tenant, Owner: k,
		Action: authz.Action{Connector: c.server.ID, Capability: call.Capability(), Version: c.server.Version, Class: t.Class},
		Scope:  call.Grant().Scope(), Connection: call.Connection().ID, MediaType: "application/json", Expires: time.Now().Add(c.opts.Keep),
	}
	if err := c.opts.Artifacts.Put(ctx, meta, bytes.NewReader(text), 4*c.opts.Frame); err != nil {
		return "", toolresult.WrapError(toolresult.Internal, "the original of the answer could not be kept", err)
	}
	return meta.Ref.String(), nil
}
