package mcpadapter

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// What is kept of classes. One that is not kept is made again, from tools that
// are encoded already: some ten microseconds for 20 tools.
const (
	maxClasses     = 256
	maxClassBytes  = 64 << 20 // of encoded lists
	maxViews       = 4096     // callers whose class is known
	afterItsTools  = `]}`
	beforeItsTools = `{"resultType":"complete","_meta":`
)

// A class is what all callers share who see the same tools: declarations, and
// nobody's data. It is immutable.
type class struct {
	tools  map[string]*tool
	sorted []*mcp.Tool
	size   int // of the encoded tools, in bytes

	once   sync.Once
	server *mcp.Server

	listed  sync.Once
	encoded []byte
	failed  error
}

// list returns the tools by name; the caller owns the slice.
func (c *class) list() []*mcp.Tool { return append([]*mcp.Tool{}, c.sorted...) }

// encode returns the result of tools/list as it is sent, made once. about is
// what is in _meta of each result.
func (c *class) encode(about []byte) ([]byte, error) {
	c.listed.Do(func() {
		hint, err := marshal(private())
		if err != nil {
			c.failed = err
			return
		}
		out := make([]byte, 0, len(beforeItsTools)+len(about)+len(hint)+c.size+len(c.sorted)+32)
		out = append(append(out, beforeItsTools...), about...)
		out = append(append(out, ','), hint[1:len(hint)-1]...)
		out = append(out, `,"tools":[`...)
		for i, t := range c.sorted {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, c.tools[t.Name].encoded...)
		}
		c.encoded = append(out, afterItsTools...)
	})
	return c.encoded, c.failed
}

// A classKey names a class by its tools.
type classKey [sha256.Size]byte

// classes keeps the classes that were used last.
type classes struct {
	mu    sync.Mutex
	by    map[classKey]*list.Element
	order list.List // of *kept, the last used one first
	bytes int
}

type kept struct {
	key   classKey
	class *class
}

// find returns the class with the key, nil if it is not kept.
func (cs *classes) find(key classKey) *class {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	e, ok := cs.by[key]
	if !ok {
		return nil
	}
	cs.order.MoveToFront(e)
	return e.Value.(*kept).class
}

// get returns the class with the key, made by make if it is not kept.
func (cs *classes) get(key classKey, make func() *class) *class {
	if c := cs.find(key); c != nil {
		return c
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if e, ok := cs.by[key]; ok {
		return e.Value.(*kept).class
	}
	if cs.by == nil {
		cs.by = map[classKey]*list.Element{}
	}
	c := make()
	cs.by[key] = cs.order.PushFront(&kept{key, c})
	cs.bytes += c.size
	for cs.order.Len() > maxClasses || cs.bytes > maxClassBytes && cs.order.Len() > 1 {
		last := cs.order.Remove(cs.order.Back()).(*kept)
		delete(cs.by, last.key)
		cs.bytes -= last.class.size
	}
	return c
}

// views remember which class a caller was seen to have, under a key that says
// who and what that depended on. Another caller, another profile and another
// revision of the policy are other keys.
type views struct {
	mu    sync.Mutex
	by    map[string]*list.Element
	order list.List // of *viewed, the last used one first
}

type viewed struct {
	key   string
	class classKey
	until time.Time // zero: no end
}

func (vs *views) find(key string) (classKey, bool) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	e, ok := vs.by[key]
	if !ok {
		return classKey{}, false
	}
	v := e.Value.(*viewed)
	if !v.until.IsZero() && !time.Now().Before(v.until) {
		vs.order.Remove(e)
		delete(vs.by, key)
		return classKey{}, false
	}
	vs.order.MoveToFront(e)
	return v.class, true
}

func (vs *views) keep(v *viewed) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if e, ok := vs.by[v.key]; ok {
		e.Value = v
		return
	}
	if vs.by == nil {
		vs.by = map[string]*list.Element{}
	}
	vs.by[v.key] = vs.order.PushFront(v)
	if vs.order.Len() > maxViews {
		delete(vs.by, vs.order.Remove(vs.order.Back()).(*viewed).key)
	}
}

// classOf finds out what a caller may see now. If the policy says which of its
// revisions that depends on, it is asked about the tools once for each caller
// and revision, and else each time.
func (a *Adapter) classOf(ctx context.Context, who authz.Principal) (*class, error) {
	req := &connector.VisibleRequest{
		Principal: who, Profile: a.profile(ctx, who), Surface: surface,
		Kinds: []connector.Kind{connector.KindRead, connector.KindList, connector.KindWrite},
	}
	name, err := a.inv.ViewKey(ctx, req)
	if err != nil {
		return nil, err
	}
	if key, ok := a.views.find(name); ok {
		if c := a.classes.find(key); c != nil {
			return c, nil
		}
	}
	view, err := a.inv.View(ctx, req)
	if err != nil {
		return nil, err
	}
	tools, err := a.project(view.Names)
	if err != nil {
		a.log(ctx, "a capability cannot be shown as a tool", slog.String("error", err.Error()))
		return nil, toolresult.WrapError(toolresult.ContractViolation, "a capability cannot be shown as a tool", err)
	}
	key := keyOf(tools)
	if view.Key != "" {
		a.views.keep(&viewed{view.Key, key, view.Until})
	}
	return a.classes.get(key, func() *class { return newClass(tools) }), nil
}

// keyOf names a class. An Invoker's declarations never change, so that their
// names tell them apart; a name holds no line break.
func keyOf(tools []*tool) (key classKey) {
	h := sha256.New()
	for _, t := range tools {
		_, _ = io.WriteString(h, t.tool.Name+"\n")
	}
	h.Sum(key[:0])
	return key
}

func newClass(tools []*tool) *class {
	c := &class{tools: map[string]*tool{}, sorted: []*mcp.Tool{}}
	for _, t := range tools {
		c.tools[t.tool.Name] = t
		c.sorted = append(c.sorted, t.tool)
		c.size += len(t.encoded)
	}
	return c
}

// project returns the tools of capabilities by name.
func (a *Adapter) project(names []string) ([]*tool, error) {
	out := make([]*tool, 0, len(names)+1)
	writes := false
	for _, name := range names {
		t, err := a.tool(name)
		if err != nil {
			return nil, err
		}
		if t != nil {
			writes = writes || t.write
			out = append(out, t)
		}
	}
	if writes {
		out = append(out, a.known(StatusTool))
	}
	slices.SortFunc(out, func(x, y *tool) int { return strings.Compare(x.tool.Name, y.tool.Name) })
	return out, nil
}

// tool returns the tool of a capability, made once; nil if no tool has that
// name, whoever asks.
func (a *Adapter) tool(name string) (*tool, error) {
	if t := a.known(name); t != nil && name != StatusTool || a.notTools[name] {
		return t, nil
	}
	d, ok := a.inv.Declaration(name)
	switch {
	case !ok:
		return nil, nil
	case name == StatusTool:
		return nil, fmt.Errorf("mcpadapter: a capability is called %q, which is the name of the adapter's own tool; rename it", StatusTool)
	}
	t, err := newTool(&d)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if first := a.tools[name]; first != nil {
		return first, nil
	}
	a.tools[name] = t
	return t, nil
}

// serverOf returns the server of a class, for connections that last one request.
// It has the tools, so that the SDK lists them and checks the headers that
// describe their parameters.
func (a *Adapter) serverOf(c *class) *mcp.Server {
	c.once.Do(func() {
		c.server = a.server(nil)
		for _, t := range c.sorted {
			c.server.AddTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return nil, internalError() // calls are answered before they come here
			})
		}
	})
	return c.server
}

// callClass runs a tool of the class that this very request was given.
func (a *Adapter) callClass(ctx context.Context, req *mcp.CallToolRequest) (*result, error) {
	r, _ := ctx.Value(requestKey{}).(*request)
	if r == nil || r.class == nil || r.class.tools[req.Params.Name] == nil {
		return nil, unknownTool()
	}
	return a.call(ctx, req, r.principal, r.class.tools[req.Params.Name])
}

func (a *Adapter) profile(ctx context.Context, who authz.Principal) string {
	if a.opts.Profile == nil {
		return ""
	}
	return a.opts.Profile(ctx, who)
}
