package skills_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/skills"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/registrytest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a registry behind an adapter on HTTP. The bearer token is the name of
// the caller; bob may use nothing called "secret".
type world struct {
	t     *testing.T
	url   string
	reg   *registry.Registry
	alice authz.Principal
	carol authz.Principal
	down  bool // the policy cannot be asked
}

func newWorld(t *testing.T, opts *skills.ServerOptions) *world {
	w := &world{t: t}
	var authority *authz.Authority
	w.alice, authority = authztest.Principal(t, "acme", "alice")
	w.carol = authztest.Caller(t, authority, "acme", "carol")
	bob := authztest.Caller(t, authority, "acme", "bob")
	trusted := []*authz.Authority{authority}
	policy := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		if w.down {
			return authz.Decision{}, errors.New("canary: the policy is at db.internal")
		}
		objects, _ := r.Target.Objects()
		secret := slices.ContainsFunc(objects, func(o authz.Object) bool { return strings.HasPrefix(o.ID, "secret") })
		if secret && r.Principal.Key().Subject == "bob" {
			return authz.Decision{Verdict: authz.Deny, Revision: "r1"}, nil
		}
		return authz.Decision{Verdict: authz.Allow, Scope: r.Target.Scope(), Revision: "r1"}, nil
	})
	var err error
	w.reg, err = registry.New("acme", &registry.Memory{}, policy, trusted, nil)
	require.NoError(t, err)
	s, err := skills.NewServer(w.reg, "prod", opts)
	require.NoError(t, err)
	inv, err := connector.NewInvoker(authztest.AllowAsked(), trusted, nil, nil)
	require.NoError(t, err)
	a, err := mcpadapter.New(inv, func(_ context.Context, r *http.Request) (authz.Principal, error) {
		switch r.Header.Get("Authorization") {
		case "Bearer alice":
			return w.alice, nil
		case "Bearer bob":
			return bob, nil
		}
		return authz.Principal{}, toolresult.NewError(toolresult.AuthenticationRequired, "who?")
	}, &mcpadapter.Options{Extensions: []mcpadapter.Extension{s}})
	require.NoError(t, err)
	srv := httptest.NewServer(a.HTTP())
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

func (w *world) release(name, version, previous string, scope ...string) *skill.Package {
	w.t.Helper()
	ctx := context.Background()
	if scope == nil {
		scope = []string{"prod"}
	}
	p := registrytest.Package(w.t, name, version)
	_, err1 := w.reg.Register(ctx, w.alice, p, registry.Record{Name: name, Version: version, Owner: "sre", Scope: scope, SideEffect: risk.ReadOnly,
		Sensitivity: risk.Internal, Changelog: "c", PreviousStable: previous})
	_, err2 := w.reg.Attach(ctx, w.alice, name, version, registry.Evidence{Suite: "s", URI: "eval://x", Artifact: p.Digest(), Context: p.Digest(), Passed: true})
	_, err3 := w.reg.Review(ctx, w.carol, name, version, registry.Review{Artifact: p.Digest(), Approved: true})
	require.NoError(w.t, errors.Join(err1, err2, err3))
	w.move(name, version, registry.Validated, registry.Published)
	return p
}

func (w *world) move(name, version string, to ...registry.Status) {
	w.t.Helper()
	for _, s := range to {
		_, err := w.reg.Move(context.Background(), w.alice, registry.MoveRequest{Name: name, Version: version, To: s, Reason: "r"})
		require.NoError(w.t, err)
	}
}

// bearer puts a token on each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (w *world) session(who string) *mcp.ClientSession {
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	require.NoError(w.t, skills.Prepare(c))
	require.NoError(w.t, mcp.AddSendingCustomMethod[*raw, *rawResult](c, "resources/directory/read"))
	cs, err := c.Connect(w.t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url, HTTPClient: &http.Client{Transport: bearer(who)}, DisableStandaloneSSE: true}, nil)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { cs.Close(); http.DefaultClient.CloseIdleConnections() })
	return cs
}

type raw struct {
	mcp.ParamsBase
	URI    string `json:"uri"`
	Cursor string `json:"cursor,omitempty"`
}

type rawResult struct {
	mcp.ResultBase
	Resources  []*mcp.Resource `json:"resources"`
	NextCursor string          `json:"nextCursor"`
}

func (w *world) host(who string) *skills.Host {
	h, err := skills.NewHost("sre", w.session(who), nil)
	require.NoError(w.t, err)
	return h
}

func names(l *skills.Listing) (out []string) {
	for _, e := range l.Entries {
		out = append(out, e.Name)
	}
	return out
}

const at = "skill://skills/1.0.0/a/SKILL.md"

// What is served by one side is loaded by the other, a step at a time, and is the
// package that was released.
//
// L2, L4: digests and steps.
func TestServedAndLoaded_L2_L4(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, nil)
	p := w.release("a", "1.0.0", "")
	h := w.host("alice")
	l, err := h.List(ctx)
	require.NoError(t, err)
	require.Empty(t, l.Rejected)
	require.Len(t, l.Entries, 1)
	e := l.Entries[0]
	require.Equal(t, at, e.URI)
	for _, f := range e.Files {
		want, ok := p.Manifest().Find(f.Path)
		require.True(t, ok)
		require.Equal(t, want.Digest, f.Digest)
	}
	got, err := h.Get(ctx, at)
	require.NoError(t, err)
	require.Equal(t, e, got)
	s, err := h.Load(ctx, e)
	require.NoError(t, err)
	require.Equal(t, p.Document().Body, s.Body())
	text, err := s.Read(ctx, "scripts/check.sh")
	require.NoError(t, err)
	require.Equal(t, "#!/bin/sh\n", string(text))
	for _, path := range []string{"", "..", "../b/SKILL.md", "scripts", "scripts/../SKILL.md", "/etc/passwd", "skill.md"} {
		_, err := s.Read(ctx, path)
		require.ErrorIs(t, err, toolresult.NotFound, path)
	}
	d, err := mcp.CallCustomMethod[*raw, *rawResult](ctx, w.session("alice"), "resources/directory/read", &raw{URI: "skill://skills/1.0.0/a"})
	require.NoError(t, err)
	require.Len(t, d.Resources, 2)
	require.Equal(t, "inode/directory", d.Resources[1].MIMEType)
	list, err := w.session("alice").ListResources(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, at, list.Resources[0].URI)
	require.Equal(t, "private", list.CacheScope)
}

// An upgrade changes no bytes behind a URI, and what is retired is not there for
// whoever holds an entry of it.
//
// L3: versions and retirement.
func TestUpgradeAndRetirement_L3(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, nil)
	w.release("a", "1.0.0", "")
	h := w.host("alice")
	old, err := h.Get(ctx, at)
	require.NoError(t, err)
	w.release("a", "1.1.0", "1.0.0")
	l, err := h.List(ctx)
	require.NoError(t, err)
	require.Equal(t, "skill://skills/1.1.0/a/SKILL.md", l.Entries[0].URI)
	s, err := h.Load(ctx, old)
	require.NoError(t, err, "a task goes on with the version that it has")
	w.move("a", "1.0.0", registry.Deprecated, registry.Retired)
	_, err = s.Read(ctx, "scripts/check.sh")
	require.ErrorIs(t, err, toolresult.NotFound)
	_, err = h.Load(ctx, old)
	require.ErrorIs(t, err, toolresult.NotFound)
}

// Who may not use a skill cannot tell that there is one, by any method.
//
// A7: skills pass through the same gate as tools.
func TestSameGate_A7(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, &skills.ServerOptions{Page: 1})
	for _, name := range []string{"a", "secret-plan", "z"} {
		w.release(name, "1.0.0", "")
	}
	w.release("elsewhere", "1.0.0", "", "staging")
	_, err := w.reg.Register(ctx, w.alice, registrytest.Package(t, "draft", ""), registry.Record{Name: "draft", Version: "1.0.0", Owner: "sre", Scope: []string{"prod"}, SideEffect: risk.ReadOnly, Sensitivity: risk.Internal})
	require.NoError(t, err)
	l, err := w.host("alice").List(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "secret-plan", "z"}, names(l), "a page at a time")
	l, err = w.host("bob").List(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "z"}, names(l))
	cs := w.session("bob")
	ask := map[string]func(uri string) error{
		"get":  func(uri string) error { _, err := w.host("bob").Get(ctx, uri); return foreignError(err) },
		"read": func(uri string) error { _, err := cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri}); return err },
		"directory": func(uri string) error {
			_, err := mcp.CallCustomMethod[*raw, *rawResult](ctx, cs, "resources/directory/read", &raw{URI: strings.TrimSuffix(uri, "/SKILL.md")})
			return err
		},
	}
	for what, do := range ask {
		var texts []string
		for _, uri := range []string{"skill://skills/1.0.0/secret-plan/SKILL.md", "skill://skills/1.0.0/no-such/SKILL.md", "skill://skills/9.0.0/a/SKILL.md", "skill://skills/1.0.0/elsewhere/SKILL.md",
			"skill://skills/1.0.0/draft/SKILL.md", "skill://other/1.0.0/a/SKILL.md", "skill://skills/1.0.0/%61/SKILL.md", "skill://skills/1.0.0/a/../a/SKILL.md", "skill://skills/1.0.0/a//SKILL.md", "skill://skills/1.0.0/a/SKILL%2Emd", "skill://skills"} {
			err := do(uri)
			e, ok := errors.AsType[*jsonrpc.Error](err)
			require.True(t, ok, "%s %s: %v", what, uri, err)
			require.Equal(t, int64(jsonrpc.CodeInvalidParams), e.Code)
			texts = append(texts, e.Message)
		}
		require.Len(t, slices.Compact(texts), 1, what)
		if what != "directory" {
			require.NoError(t, do("skill://skills/1.0.0/a/SKILL.md"), "control")
		}
	}
	w.down = true
	_, err = w.host("alice").List(ctx)
	require.ErrorIs(t, err, toolresult.ProviderUnavailable)
	require.NotContains(t, fmt.Sprint(err, foreignError(err)), "canary", "no text of an error leaves")
}

// foreignError is what a server answered, behind an error of ours.
func foreignError(err error) error {
	if e, ok := errors.AsType[*toolresult.Error](err); ok {
		return e.Cause()
	}
	return err
}

// foreign is a server that serves what it is told to.
type foreign struct {
	entries string // of skills/list, in JSON
	next    string
	files   map[string]*mcp.ResourceContents
	reads   []string
}

type anyResult struct {
	mcp.ResultBase
	text string
}

func (r *anyResult) MarshalJSON() ([]byte, error) { return []byte(r.text), nil }

func (f *foreign) host(t *testing.T, opts *skills.HostOptions) *skills.Host {
	s := mcp.NewServer(&mcp.Implementation{Name: "foreign", Version: "0"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{}}})
	require.NoError(t, mcp.AddReceivingCustomMethod(s, "skills/list", func(context.Context, *mcp.ServerSession, *raw) (*anyResult, error) {
		return &anyResult{text: `{"resultType":"complete","ttlMs":0,"cacheScope":"private","skills":[` + f.entries + `],"nextCursor":"` + f.next + `"}`}, nil
	}))
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			r, ok := req.(*mcp.ReadResourceRequest)
			if !ok {
				return next(ctx, method, req)
			}
			f.reads = append(f.reads, r.Params.URI)
			c := f.files[r.Params.URI]
			if c == nil {
				return nil, mcp.ResourceNotFoundError(r.Params.URI)
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
		}
	})
	here, there := mcp.NewInMemoryTransports()
	ss, err := s.Connect(t.Context(), there, nil)
	require.NoError(t, err)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	require.NoError(t, skills.Prepare(c))
	cs, err := c.Connect(t.Context(), here, nil)
	require.NoError(t, err)
	t.Cleanup(func() { cs.Close(); _ = ss.Wait() })
	h, err := skills.NewHost("foreign", cs, opts)
	require.NoError(t, err)
	return h
}

const (
	root = "skill://x/a"
	text = "---\nname: a\ndescription: Does A.\nversion: 1.10\n---\nBody.\n"
	note = "p95\n"
)

func listed(file, content string) string {
	return fmt.Sprintf(`{"uri":%q,"digest":%q,"size":%d}`, root+"/"+file, skill.DigestOf([]byte(content)), len(content))
}

func entry(front string, files ...string) string {
	return `{"uri":"` + root + `/SKILL.md","frontmatter":` + front + `,"resources":[` + strings.Join(files, ",") + `]}`
}

const front = `{"name":"a","description":"Does A.","version":1.1}`

func serving() *foreign {
	return &foreign{entries: entry(front, listed("SKILL.md", text), listed("n.md", note)), files: map[string]*mcp.ResourceContents{
		root + "/SKILL.md": {URI: root + "/SKILL.md", Text: text}, root + "/n.md": {URI: root + "/n.md", Text: note},
	}}
}

// An entry that does not have the form of the extension is named and not loaded;
// no file is read for it.
//
// L2: what cannot be verified is refused.
func TestForeignEntries_L2(t *testing.T) {
	skillFile := listed("SKILL.md", text)
	for _, row := range []struct{ name, entry, says string }{
		{"no frontmatter", `{"uri":"skill://x/a/SKILL.md","resources":[` + skillFile + `]}`, "frontmatter"},
		{"a field twice", entry(`{"name":"a","name":"b","description":"x"}`, skillFile), "frontmatter"},
		{"frontmatter that is a list", entry(`["a"]`, skillFile), "frontmatter"},
		{"no name", entry(`{"description":"x"}`, skillFile), "no name"},
		{"a name that is a number", entry(`{"name":1,"description":"x"}`, skillFile), "no name"},
		{"no description", entry(`{"name":"a","description":" "}`, skillFile), "no description"},
		{"a name that is not the URI's", entry(`{"name":"b","description":"x"}`, skillFile), "does not end with its name"},
		{"a URI of another file", `{"uri":"skill://x/a/README.md","frontmatter":` + front + `,"resources":[]}`, "not that of a SKILL.md"},
		{"a URI without a scheme", `{"uri":"a/SKILL.md","frontmatter":` + front + `,"resources":[]}`, "not that of a SKILL.md"},
		{"no resources", `{"uri":"skill://x/a/SKILL.md","frontmatter":` + front + `}`, "resources"},
		{"resources that are null", `{"uri":"skill://x/a/SKILL.md","frontmatter":` + front + `,"resources":null}`, "resources"},
		{"resources that are dynamic", `{"uri":"skill://x/a/SKILL.md","frontmatter":` + front + `,"resources":"dynamic"}`, "dynamic"},
		{"no SKILL.md among them", entry(front, listed("n.md", note)), "no SKILL.md"},
		{"a file twice", entry(front, skillFile, skillFile), "listed twice"},
		{"a file twice, written in two ways", entry(front, skillFile, listed("n.md", note), listed("%6e.md", note)), "listed twice"},
		{"a file of another skill", entry(front, skillFile, strings.Replace(listed("n.md", note), "x/a", "x/b", 1)), "outside of the skill"},
		{"a file that leaves", entry(front, skillFile, listed("../b/n.md", note)), "outside of the skill"},
		{"a file that leaves, in disguise", entry(front, skillFile, listed("%2e%2e/b/n.md", note)), "outside of the skill"},
		{"a backslash", entry(front, skillFile, listed("..%5cn.md", note)), "outside of the skill"},
		{"no digest", entry(front, skillFile, `{"uri":"skill://x/a/n.md","size":4}`), "no digest or size"},
		{"a digest of another kind", entry(front, skillFile, `{"uri":"skill://x/a/n.md","size":4,"digest":"md5:00"}`), "no digest or size"},
		{"an upper-case digest", entry(front, strings.ToUpper(skillFile[:40])+skillFile[40:]), "resources"},
		{"no size", entry(front, skillFile, `{"uri":"skill://x/a/n.md","digest":"`+string(skill.DigestOf(nil))+`"}`), "no digest or size"},
		{"a negative size", entry(front, skillFile, `{"uri":"skill://x/a/n.md","size":-1,"digest":"`+string(skill.DigestOf(nil))+`"}`), "no digest or size"},
		{"more bytes than may be", entry(front, skillFile, `{"uri":"skill://x/a/n.md","size":16777216,"digest":"`+string(skill.DigestOf(nil))+`"}`), "more than 16777216 bytes"},
		{"more files than may be", entry(front, slices.Repeat([]string{skillFile}, 513)...), "more than 512"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := serving()
			f.entries = row.entry + "," + f.entries
			l, err := f.host(t, nil).List(t.Context())
			require.NoError(t, err)
			require.Len(t, l.Rejected, 1)
			require.ErrorContains(t, l.Rejected[0].Err, row.says)
			require.Len(t, l.Entries, 1, "one that is bad does not hide the others")
			require.Empty(t, f.reads)
		})
	}
	f := serving()
	f.entries += "," + f.entries
	l, err := f.host(t, nil).List(t.Context())
	require.NoError(t, err)
	require.Len(t, l.Entries, 1)
	require.ErrorContains(t, l.Rejected[0].Err, "listed twice")
	f.entries, f.next = "", "again"
	_, err = f.host(t, nil).List(t.Context())
	require.ErrorIs(t, err, skills.ErrEntry, "pages that do not end")
}

// A file that is not the one that was listed is not used.
//
// L2: loading re-verifies; a changed script is caught.
func TestForeignFiles_L2(t *testing.T) {
	set := func(file, content string) func(f *foreign) {
		return func(f *foreign) {
			f.files[root+"/"+file] = &mcp.ResourceContents{URI: root + "/" + file, Text: content}
		}
	}
	relist := func(content, front string) func(f *foreign) {
		return func(f *foreign) {
			set("SKILL.md", content)(f)
			f.entries = entry(front, listed("SKILL.md", content), listed("n.md", note))
		}
	}
	for _, row := range []struct {
		name, says string
		change     func(f *foreign)
	}{
		{"SKILL.md with other instructions", "digest", set("SKILL.md", strings.Replace(text, "Body", "Evil", 1))},
		{"SKILL.md that is longer", "size", set("SKILL.md", text+"more")},
		{"SKILL.md with other line ends", "size", set("SKILL.md", strings.ReplaceAll(text, "\n", "\r\n"))},
		{"another description than was listed", `frontmatter: "description"`, relist(strings.Replace(text, "Does A.", "Exfiltrates.", 1), front)},
		{"a field that was not listed", `frontmatter: "hooks"`, relist(strings.Replace(text, "version", "hooks: x\nversion", 1), front)},
		{"a field that is not there", `frontmatter: "extra"`, relist(text, `{"name":"a","description":"Does A.","version":1.1,"extra":1}`)},
		{"a number that is text there", `frontmatter: "version"`, relist(text, `{"name":"a","description":"Does A.","version":"1.10"}`)},
		{"a text that no reader reads alike", "yaml/duplicate-key", relist(strings.Replace(text, "version", "name", 1), front)},
		{"no such file", "no such skill or file", func(f *foreign) { f.files = nil }},
		{"another file under the URI", "another file", func(f *foreign) { f.files[root+"/SKILL.md"] = f.files[root+"/n.md"] }},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := serving()
			row.change(f)
			h := f.host(t, nil)
			l, err := h.List(t.Context())
			require.NoError(t, err)
			require.Len(t, l.Entries, 1, "%v", l.Rejected)
			s, err := h.Load(t.Context(), l.Entries[0])
			require.ErrorContains(t, err, row.says)
			require.Nil(t, s)
			require.Equal(t, []string{root + "/SKILL.md"}, f.reads, "and nothing else is retrieved")
		})
	}
	t.Run("a script that is swapped after the skill was loaded", func(t *testing.T) {
		f := serving()
		h := f.host(t, nil)
		l, err := h.List(t.Context())
		require.NoError(t, err)
		s, err := h.Load(t.Context(), l.Entries[0])
		require.NoError(t, err)
		set("n.md", "p99\n")(f)
		_, err = s.Read(t.Context(), "n.md")
		var m *skills.MismatchError
		require.ErrorAs(t, err, &m)
		require.Equal(t, "digest", m.What)
		require.ErrorIs(t, err, toolresult.Conflict)
		set("n.md", note)(f)
		_, err = s.Read(t.Context(), "n.md")
		require.NoError(t, err, "control")
	})
}

// Approval comes before anything is retrieved, sees every file, and is bound to
// all of them.
//
// L5: a skill from elsewhere grants nothing and is asked about.
func TestApproval_L5(t *testing.T) {
	f := serving()
	var approved skill.Digest
	h := f.host(t, &skills.HostOptions{Approve: func(_ context.Context, e skills.Entry) error {
		require.Empty(t, f.reads)
		require.NotEmpty(t, e.Files)
		if e.Digest != approved {
			return toolresult.NewError(toolresult.PermissionDenied, "not approved")
		}
		e.Files[0].Digest = "sha256:spoilt"
		return nil
	}})
	l, err := h.List(t.Context())
	require.NoError(t, err)
	_, err = h.Load(t.Context(), l.Entries[0])
	require.ErrorIs(t, err, toolresult.PermissionDenied)
	approved = l.Entries[0].Digest
	s, err := h.Load(t.Context(), l.Entries[0])
	require.NoError(t, err)
	require.Equal(t, "Body.\n", s.Body())
	f.reads = nil
	for _, change := range []string{
		entry(front, listed("SKILL.md", text), listed("n.md", "p99\n")),
		entry(front, listed("SKILL.md", text), listed("n.md", note), listed("more.sh", "")),
		entry(front, listed("SKILL.md", text)),
	} {
		f.entries = change
		l, err := h.List(t.Context())
		require.NoError(t, err)
		_, err = h.Load(t.Context(), l.Entries[0])
		require.ErrorIs(t, err, toolresult.PermissionDenied, "another set of files is another question")
	}
	_, err = h.Load(t.Context(), skills.Entry{Label: "foreign", URI: at})
	require.ErrorIs(t, err, toolresult.InvalidInput, "an entry that somebody made")
	e := l.Entries[0]
	e.Label = "another"
	_, err = h.Load(t.Context(), e)
	require.ErrorIs(t, err, toolresult.InvalidInput, "an entry of another server")
}

func TestNew(t *testing.T) {
	reg, err := registry.New("acme", &registry.Memory{}, nil, nil, nil)
	require.NoError(t, err)
	for _, prefix := range []string{"A", "a//b", "a/..", "a b", "/", "%41"} {
		_, err := skills.NewServer(reg, "prod", &skills.ServerOptions{Prefix: prefix})
		require.ErrorContains(t, err, "Prefix", prefix)
	}
	_, err = skills.NewServer(nil, "prod", nil)
	require.Error(t, err)
	_, err = skills.NewServer(reg, "", nil)
	require.Error(t, err)
	_, err = skills.NewHost("", nil, nil)
	require.Error(t, err)
}
