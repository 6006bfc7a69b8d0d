package mcpadapter

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// Extension is a further set of methods and resources, such as package skills
// serves. What it answers depends on the caller of the very request, as for
// tools: it keeps nothing about a caller and asks a policy each time. It is safe
// for concurrent use.
type Extension interface {
	// Capabilities adds what the extension offers, the same to everybody.
	Capabilities(c *mcp.ServerCapabilities)

	// Methods are the names of the methods that Install adds.
	Methods() []string

	// Install adds the methods to a server of the SDK. caller says who makes
	// the request of a method's context; its error goes to the client as it is.
	Install(s *mcp.Server, caller func(ctx context.Context) (authz.Principal, error)) error

	// Resources are listed for a caller beside the host's.
	Resources(ctx context.Context, who authz.Principal) ([]*mcp.Resource, error)

	// Read reads a resource of the extension. False: the URI is not one of its
	// kind. What is not there, and what the caller may not read, is one error.
	Read(ctx context.Context, who authz.Principal, uri string) (*mcp.ReadResourceResult, bool, error)
}

// install adds the methods of the extensions to a server. New has tried it.
func (a *Adapter) install(s *mcp.Server) error {
	for _, e := range a.opts.Extensions {
		if err := e.Install(s, a.identify); err != nil {
			return err
		}
	}
	return nil
}

func (a *Adapter) extended(method string) bool {
	return slices.ContainsFunc(a.opts.Extensions, func(e Extension) bool { return slices.Contains(e.Methods(), method) })
}

func (a *Adapter) extensionResources(ctx context.Context) (out []*mcp.Resource, err error) {
	if len(a.opts.Extensions) == 0 {
		return nil, nil
	}
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range a.opts.Extensions {
		some, err := e.Resources(ctx, who)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

func (a *Adapter) readExtension(ctx context.Context, who authz.Principal, uri string) (*mcp.ReadResourceResult, bool, error) {
	for _, e := range a.opts.Extensions {
		if out, ok, err := e.Read(ctx, who, uri); ok {
			return out, true, err
		}
	}
	return nil, false, nil
}
