package mcpadapter

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// maxClasses is how many classes are kept. One that is not kept is made again:
// a few milliseconds for 20 tools.
const maxClasses = 256

// A class is what all callers share who see the same tools: declarations, and
// nobody's data. It is immutable.
type class struct {
	tools  map[string]*tool
	sorted []*mcp.Tool

	once   sync.Once
	server *mcp.Server
}

// list returns the tools by name; the caller owns the slice.
func (c *class) list() []*mcp.Tool { return append([]*mcp.Tool{}, c.sorted...) }

// classes keeps the classes that were used last.
type classes struct {
	mu    sync.Mutex
	by    map[[sha256.Size]byte]*list.Element
	order list.List // of *kept, the last used one first
}

type kept struct {
	key   [sha256.Size]byte
	class *class
}

// get returns the class with the key, made by make if it is not kept.
func (cs *classes) get(key [sha256.Size]byte, make func() *class) *class {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if e, ok := cs.by[key]; ok {
		cs.order.MoveToFront(e)
		return e.Value.(*kept).class
	}
	if cs.by == nil {
		cs.by = map[[sha256.Size]byte]*list.Element{}
	}
	c := make()
	cs.by[key] = cs.order.PushFront(&kept{key, c})
	if cs.order.Len() > maxClasses {
		last := cs.order.Back()
		delete(cs.by, last.Value.(*kept).key)
		cs.order.Remove(last)
	}
	return c
}

// classOf asks what a caller may see now.
func (a *Adapter) classOf(ctx context.Context, who authz.Principal) (*class, error) {
	visible, err := a.inv.Visible(ctx, &connector.VisibleRequest{
		Principal: who, Profile: a.profile(ctx, who), Surface: surface,
		Kinds: []connector.Kind{connector.KindRead, connector.KindList, connector.KindWrite},
	})
	if err != nil {
		return nil, err
	}
	tools, err := a.project(visible)
	if err != nil {
		a.log(ctx, "a capability cannot be shown as a tool", slog.String("error", err.Error()))
		return nil, toolresult.WrapError(toolresult.ContractViolation, "a capability cannot be shown as a tool", err)
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.tool.Name
	}
	// An Invoker's declarations never change, so that their names tell them
	// apart; a name holds no line break.
	key := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return a.classes.get(key, func() *class { return newClass(tools) }), nil
}

func newClass(tools []*tool) *class {
	c := &class{tools: map[string]*tool{}, sorted: []*mcp.Tool{}}
	for _, t := range tools {
		c.tools[t.tool.Name] = t
		c.sorted = append(c.sorted, t.tool)
	}
	return c
}

// project returns the tools of declarations by name, each made once.
func (a *Adapter) project(visible []connector.Declaration) ([]*tool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []*tool
	writes := false
	for i := range visible {
		d := &visible[i]
		if a.notTools[d.Name] {
			continue
		}
		if d.Name == StatusTool {
			return nil, fmt.Errorf("mcpadapter: a capability is called %q, which is the name of the adapter's own tool; rename it", StatusTool)
		}
		t := a.tools[d.Name]
		if t == nil {
			var err error
			if t, err = newTool(d); err != nil {
				return nil, err
			}
			a.tools[d.Name] = t
		}
		writes = writes || t.write
		out = append(out, t)
	}
	if writes {
		out = append(out, a.tools[StatusTool])
	}
	slices.SortFunc(out, func(x, y *tool) int { return strings.Compare(x.tool.Name, y.tool.Name) })
	return out, nil
}

// serverOf returns the server of a class, for connections that last one request.
// It has the tools, so that the SDK lists them and checks the headers that
// describe their parameters.
func (a *Adapter) serverOf(c *class) *mcp.Server {
	c.once.Do(func() {
		c.server = a.server()
		for _, t := range c.sorted {
			c.server.AddTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return nil, internalError() // calls are answered before they come here
			})
		}
		c.server.AddReceivingMiddleware(a.serve)
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
