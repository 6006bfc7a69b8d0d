package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// ServerOptions are options of [NewServer]. Zero fields take the values in the
// comments.
type ServerOptions struct {
	// Prefix comes before version and name in a URI: letters, digits, dots and
	// dashes, in segments, such as "acme/sre". Empty: "skills".
	Prefix string

	// Page is how many skills or files one answer holds. 0: 100.
	Page int

	// TTL is how long a client may keep an answer, for the caller it was given
	// to. 0: not at all.
	TTL time.Duration

	// Logger gets what operators need: a skill that cannot be served. Nil:
	// nothing is logged.
	Logger *slog.Logger
}

// Server serves what is published in one scope of a registry. It keeps nothing
// and is safe for concurrent use.
type Server struct {
	reg   *registry.Registry
	scope string
	opts  ServerOptions
}

var _ mcpadapter.Extension = (*Server)(nil)

// NewServer returns the extension that serves a scope, such as "prod". opts may
// be nil.
func NewServer(reg *registry.Registry, scope string, opts *ServerOptions) (*Server, error) {
	s := &Server{reg: reg, scope: scope}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Prefix, s.opts.Page = cmp.Or(s.opts.Prefix, "skills"), cmp.Or(max(s.opts.Page, 0), 100)
	for part := range strings.SplitSeq(s.opts.Prefix, "/") {
		if strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || strings.Trim(part, ".") == "" {
			return nil, errors.New("mcpadapter/skills: Prefix wants segments of a to z, 0 to 9, dots and dashes")
		}
	}
	if reg == nil || scope == "" || s.opts.TTL < 0 {
		return nil, errors.New("mcpadapter/skills: NewServer needs a registry, a scope, and a TTL that is not negative")
	}
	return s, nil
}

// Capabilities implements [mcpadapter.Extension].
func (s *Server) Capabilities(c *mcp.ServerCapabilities) {
	if c.Resources == nil {
		c.Resources = &mcp.ResourceCapabilities{}
	}
	c.AddExtension(Extension, map[string]any{"directoryRead": true})
}

// Methods implements [mcpadapter.Extension].
func (s *Server) Methods() []string { return []string{methodList, methodGet, methodDirectory} }

// Install implements [mcpadapter.Extension].
func (s *Server) Install(m *mcp.Server, caller func(context.Context) (authz.Principal, error)) error {
	return errors.Join(
		mcp.AddReceivingCustomMethod(m, methodList, func(ctx context.Context, _ *mcp.ServerSession, p *listParams) (*listResult, error) {
			who, err := caller(ctx)
			if err != nil {
				return nil, err
			}
			if p == nil {
				p = &listParams{}
			}
			return s.list(ctx, who, p.Cursor)
		}),
		mcp.AddReceivingCustomMethod(m, methodGet, func(ctx context.Context, _ *mcp.ServerSession, p *uriParams) (*getResult, error) {
			who, err := caller(ctx)
			if err != nil {
				return nil, err
			}
			if p == nil {
				return nil, unknown()
			}
			return s.get(ctx, who, p.URI)
		}),
		mcp.AddReceivingCustomMethod(m, methodDirectory, func(ctx context.Context, _ *mcp.ServerSession, p *uriParams) (*directoryResult, error) {
			who, err := caller(ctx)
			if err != nil {
				return nil, err
			}
			if p == nil {
				return nil, unknown()
			}
			return s.directory(ctx, who, p.URI, p.Cursor)
		}),
	)
}

// unknown is the one answer for what is not there and what may not be used.
func unknown() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such skill or file"}
}

// refused turns an error of the registry into one of JSON-RPC with a constant
// text.
func (s *Server) refused(ctx context.Context, err error) error {
	code := toolresult.Code(err)
	switch code {
	case toolresult.NotFound, toolresult.PermissionDenied:
		return unknown()
	}
	s.log(ctx, "skills were not served", err)
	switch code {
	case toolresult.AuthenticationRequired:
		return &jsonrpc.Error{Code: 401, Message: "the caller is not known", Data: json.RawMessage(`{"code":"AUTHENTICATION_REQUIRED"}`)}
	case toolresult.PolicyUnavailable, toolresult.Timeout, toolresult.Cancelled:
		return &jsonrpc.Error{Code: 503, Message: "it cannot be found out now whether this is allowed", Data: json.RawMessage(`{"code":"` + string(code) + `"}`)}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}

func (s *Server) log(ctx context.Context, text string, err error) {
	if s.opts.Logger != nil {
		s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, text, slog.String("error", err.Error()))
	}
}

func (s *Server) cacheable() mcp.Cacheable {
	return mcp.Cacheable{TTLMs: int(s.opts.TTL.Milliseconds()), CacheScope: "private"}
}

// root is the URI of a version's directory.
func (s *Server) root(version, name string) string {
	return "skill://" + s.opts.Prefix + "/" + version + "/" + name
}

// uri is that of a file or directory of a skill.
func uri(root, file string) string {
	var b strings.Builder
	b.WriteString(root)
	for part := range strings.SplitSeq(file, "/") {
		b.WriteString("/" + url.PathEscape(part))
	}
	return b.String()
}

// open returns the package that a URI lies in, and its path there; "" is the
// skill's directory.
func (s *Server) open(ctx context.Context, who authz.Principal, at string) (p *skill.Package, root, file string, err error) {
	rest, ok := strings.CutPrefix(at, "skill://"+s.opts.Prefix+"/")
	version, rest, ok2 := strings.Cut(rest, "/")
	name, escaped, _ := strings.Cut(rest, "/")
	file, err = url.PathUnescape(escaped)
	root = s.root(version, name)
	if !ok || !ok2 || err != nil || len(at) > 4096 || file == "" && at != root || file != "" && at != uri(root, file) {
		return nil, "", "", unknown() // one URI for each file
	}
	if p, err = s.published(ctx, who, name, version); err != nil {
		return nil, "", "", s.refused(ctx, err)
	}
	return p, root, file, nil
}

// published returns a version that is published in the scope.
func (s *Server) published(ctx context.Context, who authz.Principal, name, version string) (*skill.Package, error) {
	rec, err := s.reg.Record(ctx, who, name, version)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(rec.Scope, s.scope) {
		return nil, toolresult.NewError(toolresult.NotFound, "it is for other scopes")
	}
	p, err := s.reg.Peek(ctx, who, name, version)
	if err != nil {
		return nil, err
	}
	return p, p.Verify(rec.Artifact, nil)
}

func (s *Server) entry(p *skill.Package, version string) (wireEntry, error) {
	front, err := p.Document().JSON()
	if err != nil {
		return wireEntry{}, err
	}
	m := p.Manifest()
	if len(m) > maxFiles || m.Bytes() > maxBytes {
		return wireEntry{}, errors.New("it has more files or bytes than hosts take")
	}
	root := s.root(version, p.Name())
	files := make([]wireFile, 0, len(m))
	for _, f := range m {
		size := f.Size
		files = append(files, wireFile{uri(root, f.Path), string(f.Digest), &size})
	}
	list, err := json.Marshal(files)
	return wireEntry{uri(root, entryName), front, list}, err
}

// current lists what the caller may use, by name.
func (s *Server) current(ctx context.Context, who authz.Principal, after string, each func(rec registry.Record, p *skill.Package) error) (next string, err error) {
	recs, err := s.reg.Current(ctx, who, s.scope)
	if err != nil {
		return "", s.refused(ctx, err)
	}
	n, last := 0, ""
	for _, rec := range recs {
		if rec.Name <= after {
			continue
		}
		if n == s.opts.Page {
			return last, nil
		}
		p, err := s.published(ctx, who, rec.Name, rec.Version)
		if err == nil {
			err = each(rec, p)
		}
		if err != nil { // one that cannot be served does not hide the others
			s.log(ctx, "the skill "+rec.Name+" "+rec.Version+" cannot be served", err)
		}
		n, last = n+1, rec.Name
	}
	return "", nil
}

func (s *Server) list(ctx context.Context, who authz.Principal, cursor string) (*listResult, error) {
	if strings.Trim(cursor, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(cursor) > 64 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such cursor"}
	}
	out := &listResult{ResultType: "complete", Skills: []wireEntry{}, Cacheable: s.cacheable()}
	var err error
	out.NextCursor, err = s.current(ctx, who, cursor, func(rec registry.Record, p *skill.Package) error {
		e, err := s.entry(p, rec.Version)
		if err == nil {
			out.Skills = append(out.Skills, e)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Server) get(ctx context.Context, who authz.Principal, at string) (*getResult, error) {
	p, root, file, err := s.open(ctx, who, at)
	if err != nil {
		return nil, err
	}
	if file != entryName {
		return nil, unknown()
	}
	e, err := s.entry(p, path.Base(path.Dir(root)))
	if err != nil {
		return nil, s.refused(ctx, err)
	}
	return &getResult{ResultType: "complete", Skill: e, Cacheable: s.cacheable()}, nil
}

// directory answers with the direct children of a directory, by name.
func (s *Server) directory(ctx context.Context, who authz.Principal, at, cursor string) (*directoryResult, error) {
	p, root, dir, err := s.open(ctx, who, at)
	if err != nil {
		return nil, err
	}
	children := map[string]*mcp.Resource{}
	for _, f := range p.Manifest() {
		rest := f.Path
		if dir != "" {
			below, ok := strings.CutPrefix(f.Path, dir+"/")
			if !ok {
				continue
			}
			rest = below
		}
		name, _, deeper := strings.Cut(rest, "/")
		if deeper {
			children[name] = &mcp.Resource{URI: uri(root, path.Join(dir, name)), Name: name, MIMEType: dirType}
		} else {
			children[name] = resource(p, root, f)
		}
	}
	if len(children) == 0 {
		return nil, unknown()
	}
	out := &directoryResult{ResultType: "complete", Resources: []*mcp.Resource{}, Cacheable: s.cacheable()}
	names := make([]string, 0, len(children))
	for n := range children {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if n <= cursor {
			continue
		}
		if len(out.Resources) == s.opts.Page {
			out.NextCursor = out.Resources[len(out.Resources)-1].Name
			break
		}
		out.Resources = append(out.Resources, children[n])
	}
	return out, nil
}

// resource describes a file. A SKILL.md has the skill's name and description.
func resource(p *skill.Package, root string, f skill.File) *mcp.Resource {
	r := &mcp.Resource{URI: uri(root, f.Path), Name: path.Base(f.Path), MIMEType: mimeType(f.Path), Size: f.Size}
	if f.Path == entryName {
		r.Name, r.Description = p.Name(), p.Document().Description
	}
	return r
}

// mimeType is by the name alone, and the same on every machine.
func mimeType(file string) string {
	switch ext := strings.ToLower(path.Ext(file)); ext {
	case ".md":
		return "text/markdown"
	case ".json", ".html", ".css", ".xml", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".webp":
		t, _, _ := strings.Cut(mime.TypeByExtension(ext), ";")
		return t
	case "", ".txt", ".csv", ".sh", ".py", ".js", ".ts", ".yaml", ".yml", ".toml":
		return "text/plain"
	}
	return "application/octet-stream"
}

// Resources implements [mcpadapter.Extension]: the SKILL.md of each skill. What
// cannot be served is left out, and in the log.
func (s *Server) Resources(ctx context.Context, who authz.Principal) (out []*mcp.Resource, err error) {
	for after := ""; ; {
		after, err = s.current(ctx, who, after, func(rec registry.Record, p *skill.Package) error {
			f, _ := p.Manifest().Find(entryName)
			out = append(out, resource(p, s.root(rec.Version, rec.Name), f))
			return nil
		})
		if err != nil || after == "" {
			return out, err
		}
	}
}

// Read implements [mcpadapter.Extension].
func (s *Server) Read(ctx context.Context, who authz.Principal, at string) (*mcp.ReadResourceResult, bool, error) {
	if !strings.HasPrefix(at, "skill://") {
		return nil, false, nil
	}
	p, _, file, err := s.open(ctx, who, at)
	if err != nil {
		return nil, true, err
	}
	b, err := p.ReadFile(file)
	if err != nil {
		return nil, true, unknown()
	}
	c := &mcp.ResourceContents{URI: at, MIMEType: mimeType(file)}
	if utf8.Valid(b) {
		c.Text = string(b)
	} else {
		c.Blob = b
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}, Cacheable: s.cacheable()}, true, nil
}
