package mcpadapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// The two methods that are asked all the time, tools/list and tools/call of
// revision 2026-07-28, need no session: the request says everything. They are
// answered here when there is nothing unusual about the request, byte for byte
// as the SDK would. What is unusual in any way, down to a header more or an
// escape in a name, is left to the SDK, which knows what to say about it. So
// nothing is refused here for its form, and the two can only differ where both
// of them serve; TestShortPath holds them together.

// A plain is a request with nothing unusual about it.
type plain struct {
	id   []byte // as it was written
	call bool   // tools/call; else tools/list
	name string
	args json.RawMessage
	meta mcp.Meta // shared with other requests, and not to be changed
}

// short answers a request if it can, and reports whether it did. Whether the
// caller may is decided behind it, as ever.
func (a *Adapter) short(w http.ResponseWriter, r *http.Request, who authz.Principal, body []byte) bool {
	if a.long || !usualHeaders(r.Header) {
		return false
	}
	p, ok := a.read(body)
	if !ok || !p.agrees(r.Header) || !a.inv.Knows(who) {
		return false
	}
	ctx := context.WithValue(r.Context(), requestKey{}, &request{principal: who})
	if p.call {
		return a.shortCall(ctx, w, who, &p)
	}
	c, err := a.classOf(ctx, who)
	if err != nil || len(c.sorted) > mcp.DefaultPageSize {
		return false
	}
	list, err := c.encode(a.serverInfo)
	if err != nil {
		return false
	}
	writeEvent(w, p.id, list)
	return true
}

// shortCall calls a tool. The invoker decides alone whether there is one: what
// is hidden and what does not exist go the same way through it.
func (a *Adapter) shortCall(ctx context.Context, w http.ResponseWriter, who authz.Principal, p *plain) bool {
	t, err := a.tool(p.name)
	if err != nil || p.name == StatusTool || t != nil && t.headers {
		return false
	}
	if a.opts.OperationID != nil || a.opts.Ask != nil {
		// The host is asked about a call before the invoker is, and not to be
		// asked about one of a tool that the caller may not see.
		if c, err := a.classOf(ctx, who); err != nil || c.tools[p.name] == nil {
			return false
		}
	}
	name := p.name
	if a.notTools[name] {
		name = "not a tool: " + name // which no capability is called
	}
	req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: p.meta, Name: name, Arguments: p.args}}
	res, err := a.call(ctx, req, who, t)
	if ctx.Err() != nil {
		return true // nobody is there any more
	}
	if err != nil {
		writeError(w, p.id, err)
		return true
	}
	text, err := a.encode(res)
	if err != nil {
		writeError(w, p.id, internalError())
		return true
	}
	writeEvent(w, p.id, text)
	return true
}

// encode writes a result as the SDK would, with what it adds.
func (a *Adapter) encode(r *result) ([]byte, error) {
	if r.needs != nil {
		return r.needs.json(mcp.Meta{mcp.MetaKeyServerInfo: a.implementation()})
	}
	return r.appendJSON(make([]byte, 0, len(r.envelope)+len(r.content)+len(r.text)+len(r.text)/4+512), a.serverInfo)
}

// usualHeaders reports whether the headers are those of a client that asks for
// nothing special.
func usualHeaders(h http.Header) bool {
	if !only(h, "Mcp-Protocol-Version", modernVersion) || !accepts(h["Accept"]) {
		return false
	}
	switch t := h["Content-Type"]; {
	case len(t) != 1, t[0] != "application/json" && t[0] != "application/json; charset=utf-8":
		return false
	}
	for name := range h {
		if strings.HasPrefix(name, "Mcp-Param-") || name == "Last-Event-Id" {
			return false
		}
	}
	return true
}

// only reports whether a header is there once, with one value.
func only(h http.Header, name, value string) bool {
	v := h[name]
	return len(v) == 1 && v[0] == value
}

func accepts(values []string) bool {
	if len(values) != 1 {
		return false
	}
	var both [2]bool
	for t := range strings.SplitSeq(values[0], ",") {
		switch strings.TrimSpace(t) {
		case "application/json":
			both[0] = true
		case "text/event-stream":
			both[1] = true
		default:
			return false
		}
	}
	return both[0] && both[1]
}

// agrees reports whether the headers say what the body says.
func (p *plain) agrees(h http.Header) bool {
	if !p.call {
		return only(h, "Mcp-Method", "tools/list") && h["Mcp-Name"] == nil
	}
	names := h["Mcp-Name"]
	if len(names) != 1 || !only(h, "Mcp-Method", "tools/call") {
		return false
	}
	if name, ok := decoded(names[0]); ok {
		return name == p.name
	}
	return names[0] == p.name
}

// read reads a body; false for everything that is not plain.
func (a *Adapter) read(body []byte) (p plain, ok bool) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return p, false
	}
	var method, params []byte
	version := false
	ok = eachMember(body, func(name, value []byte) bool {
		switch string(name) {
		case "jsonrpc":
			version = !version && string(value) == `"2.0"`
			return version
		case "id":
			return once(&p.id, value) && plainID(value)
		case "method":
			return once(&method, value)
		case "params":
			return once(&params, value)
		}
		return false
	})
	p.call = string(method) == `"tools/call"`
	if !ok || !version || p.id == nil || !p.call && string(method) != `"tools/list"` {
		return p, false
	}
	var name, meta []byte
	ok = eachMember(params, func(key, value []byte) bool {
		switch string(key) {
		case "_meta":
			return once(&meta, value)
		case "name":
			return p.call && once(&name, value)
		case "arguments":
			return p.call && once((*[]byte)(&p.args), value) && value[0] == '{'
		}
		return false
	})
	if !ok || p.call && !plainText(name) {
		return p, false
	}
	if p.call {
		p.name = string(name[1 : len(name)-1])
	}
	p.meta, ok = a.metas.read(meta)
	return p, ok
}

// once takes a value, and reports false if there was one.
func once(into *[]byte, value []byte) bool {
	first := *into == nil
	*into = value
	return first
}

// plainID reports whether an id is written in the one way in which it would be
// sent back.
func plainID(v []byte) bool {
	if v[0] == '"' {
		return len(v) <= 256 && plainText(v)
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return err == nil && n < 1<<53 && n > -1<<53 && !(n == 0 && len(v) != 1)
}

// plainText reports whether v is a string with something in it that every
// encoder writes like this.
func plainText(v []byte) bool {
	return len(v) > 2 && v[0] == '"' && !bytes.ContainsFunc(v[1:len(v)-1], func(r rune) bool {
		return r < ' ' || r > '~' || r == '\\' || r == '"'
	})
}

// deepest is how deep a value may be nested here. The SDK has a limit, too.
const deepest = 64

// eachMember calls each for the members of an object in valid JSON, and reports
// whether it is an object whose names have no escapes, and each always said yes.
func eachMember(text []byte, each func(name, value []byte) bool) bool {
	i := space(text, 0)
	if i >= len(text) || text[i] != '{' {
		return false
	}
	if i = space(text, i+1); text[i] == '}' {
		return true
	}
	for {
		end := stringEnd(text, i)
		name := text[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		i = space(text, space(text, end)+1)
		if end = valueEnd(text, i); end < 0 || !each(name, text[i:end]) {
			return false
		}
		if i = space(text, end); text[i] == '}' {
			return true
		}
		i = space(text, i+1)
	}
}

func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns where the string that begins at i has ended.
func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd returns where the value that begins at i has ended; -1 if it is
// nested too deep.
func valueEnd(text []byte, i int) int {
	for depth := 0; ; {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue // only inside of something
		default:
			for i < len(text) && strings.IndexByte(",:]} \n\t\r", text[i]) < 0 {
				i++
			}
		}
		switch {
		case depth > deepest:
			return -1
		case depth == 0:
			return i
		}
	}
}

// metas remember what clients say about themselves in _meta, which is the same
// in each of their requests: whether the SDK would take it, and what it is. They
// hold nothing about a caller, and are forgotten when there are too many.
type metas struct {
	mu sync.Mutex
	by map[string]mcp.Meta // by the text; nil: not taken
}

const (
	maxMetas    = 128
	maxMetaText = 2 << 10 // bytes
)

// read reads _meta; false if the SDK is to look at it.
func (m *metas) read(text []byte) (mcp.Meta, bool) {
	var room [512]byte
	about := append(room[:0], '{')
	var more []string
	ok := eachMember(text, func(name, value []byte) bool {
		switch string(name) {
		case mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientCapabilities, mcp.MetaKeyClientInfo:
			if len(about) > 1 {
				about = append(about, ',')
			}
			about = append(about, '"')
			about = append(append(append(about, name...), '"', ':'), value...)
			return true
		case "progressToken", "io.modelcontextprotocol/logLevel":
			return false
		case OperationMeta:
			if !plainText(value) {
				return false
			}
		}
		more = append(more, string(name), string(value))
		return true
	})
	if !ok || len(about) > maxMetaText {
		return nil, false
	}
	meta := m.known(append(about, '}'))
	if meta == nil || len(more) == 0 {
		return meta, meta != nil
	}
	return with(meta, more)
}

// with returns meta with more members, of which none may be there twice.
func with(meta mcp.Meta, more []string) (mcp.Meta, bool) {
	meta = maps.Clone(meta)
	for pair := range slices.Chunk(more, 2) {
		var v any
		if _, twice := meta[pair[0]]; twice || json.Unmarshal([]byte(pair[1]), &v) != nil {
			return nil, false
		}
		meta[pair[0]] = v
	}
	return meta, true
}

// known returns what a client says about itself, nil if the SDK would not take
// it: it is the SDK that is asked, once.
func (m *metas) known(text []byte) mcp.Meta {
	m.mu.Lock()
	defer m.mu.Unlock()
	meta, ok := m.by[string(text)]
	if ok {
		return meta
	}
	if len(m.by) >= maxMetas || m.by == nil {
		m.by = map[string]mcp.Meta{}
	}
	m.by[string(text)] = taken(text)
	return m.by[string(text)]
}

func taken(text []byte) mcp.Meta {
	var meta mcp.Meta
	names := 0
	if !eachMember(text, func(_, _ []byte) bool { names++; return true }) || json.Unmarshal(text, &meta) != nil || len(meta) != names {
		return nil
	}
	req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: meta}}
	_, named := meta[mcp.MetaKeyClientInfo]
	if req.ProtocolVersion() != modernVersion || req.ClientCapabilities() == nil || named && req.ClientInfo() == nil {
		return nil
	}
	return meta
}

// writeEvent answers with a result, as one event of a stream.
func writeEvent(w http.ResponseWriter, id, result []byte) {
	const before, between, after = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":", ",\"result\":", "}\n\n"
	h := w.Header()
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("Connection", "keep-alive")
	h.Set("Content-Type", "text/event-stream")
	h.Set("Content-Length", strconv.Itoa(len(before)+len(id)+len(between)+len(result)+len(after)))
	head := make([]byte, 0, len(before)+len(id)+len(between))
	head = append(append(append(head, before...), id...), between...)
	_, _ = w.Write(head)
	_, _ = w.Write(result)
	_, _ = w.Write([]byte(after))
}

// writeError answers with an error of the protocol, with the status that the
// specification has for it.
func writeError(w http.ResponseWriter, id []byte, err error) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		e = internalError().(*jsonrpc.Error)
	}
	text, err := marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("Connection", "keep-alive")
	switch e.Code {
	case jsonrpc.CodeInvalidParams, mcp.CodeUnsupportedProtocolVersion, mcp.CodeMissingRequiredClientCapabilities:
		h.Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
	default:
		h.Set("Content-Type", "text/event-stream")
		text = slices.Concat([]byte("event: message\ndata: "), text, []byte("\n\n"))
	}
	_, _ = w.Write(text)
}

// marshal is json.Marshal as the SDK uses it, which escapes nothing for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
