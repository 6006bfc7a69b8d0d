package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// HostOptions are options of [NewHost].
type HostOptions struct {
	// Approve is asked before the first file of a skill is retrieved. It is
	// given the entry with every file, and its digest binds them all. An error
	// refuses. Nil: nobody is asked.
	Approve func(ctx context.Context, e Entry) error

	// Skills bounds how many entries are listed. 0: 1000.
	Skills int

	// Rules are what SKILL.md is held to when it is loaded. Nil: skill.Spec.
	Rules *skill.Profile
}

// Prepare lets a client of the SDK send the methods of the extension. It is
// called before the client connects.
func Prepare(c *mcp.Client) error {
	return errors.Join(
		mcp.AddSendingCustomMethod[*listParams, *listResult](c, methodList),
		mcp.AddSendingCustomMethod[*uriParams, *getResult](c, methodGet),
	)
}

// Host reads the skills of one server. It keeps nothing and is safe for
// concurrent use.
type Host struct {
	label string
	cs    *mcp.ClientSession
	opts  HostOptions
}

// NewHost returns the host side of a session, whose client was prepared. label is
// the host's own name for the server: what a server says about itself is no
// identity. opts may be nil.
func NewHost(label string, cs *mcp.ClientSession, opts *HostOptions) (*Host, error) {
	if label == "" || cs == nil {
		return nil, errors.New("mcpadapter/skills: NewHost needs a label and a session")
	}
	h := &Host{label: label, cs: cs}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Skills <= 0 {
		h.opts.Skills = 1000
	}
	if h.opts.Rules == nil {
		spec := skill.Spec()
		h.opts.Rules = &spec
	}
	return h, nil
}

// Entry is a skill as a server listed it. It is text, can be kept, and belongs to
// the caller. Label and URI together are what it is; URI alone is a claim.
type Entry struct {
	Label       string
	URI         string // of SKILL.md
	Name        string
	Description string
	FrontMatter json.RawMessage // every field, as listed

	// Files are all that there is, SKILL.md among them, by path. None is
	// executable: MCP does not say.
	Files skill.Manifest

	// Digest binds label, URI, front matter and files: what was approved.
	Digest skill.Digest

	uris map[string]string // path: URI
}

// Rejected is something that a server listed and that cannot be used.
type Rejected struct {
	URI string // as listed, cut
	Err error
}

// Listing is what a server offers now. That a skill is not in it proves nothing.
type Listing struct {
	Entries  []Entry
	Rejected []Rejected
	More     bool // there were more than HostOptions.Skills
}

// ErrEntry says that an entry does not have the form of SEP-2640. It matches
// [toolresult.ContractViolation].
var ErrEntry = fmt.Errorf("mcpadapter/skills: the server's entry is not what the extension says: %w", toolresult.ContractViolation)

// MismatchError says that a file is not the one that was listed. It matches
// [toolresult.Conflict].
type MismatchError struct {
	URI  string
	What string // "size", "digest" or "frontmatter", with the fields
}

// Error says which.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("mcpadapter/skills: %.200q differs from its entry in %s: it is not used; list it again and approve it anew", e.URI, e.What)
}

// Unwrap returns the code.
func (e *MismatchError) Unwrap() error { return toolresult.Conflict }

// List asks for all pages of the server's list. No file is read.
func (h *Host) List(ctx context.Context) (*Listing, error) {
	out := &Listing{}
	seen := map[string]bool{}
	for cursor, pages := "", 0; ; pages++ {
		res, err := mcp.CallCustomMethod[*listParams, *listResult](ctx, h.cs, methodList, &listParams{Cursor: cursor})
		if err != nil {
			return nil, remoteError(err)
		}
		for _, w := range res.Skills {
			if len(out.Entries)+len(out.Rejected) >= h.opts.Skills {
				out.More = true
				return out, nil
			}
			e, err := h.entry(w)
			if err == nil && seen[e.URI] {
				err = fmt.Errorf("%w: it is listed twice", ErrEntry)
			}
			if err != nil {
				out.Rejected = append(out.Rejected, Rejected{fmt.Sprintf("%.200s", w.URI), err})
				continue
			}
			seen[e.URI] = true
			out.Entries = append(out.Entries, e)
		}
		if res.NextCursor == "" {
			return out, nil
		}
		if res.NextCursor == cursor || pages > h.opts.Skills {
			return nil, fmt.Errorf("%w: its pages do not end", ErrEntry)
		}
		cursor = res.NextCursor
	}
}

// Get asks for the entry of one SKILL.md, which need not be listed.
func (h *Host) Get(ctx context.Context, at string) (Entry, error) {
	res, err := mcp.CallCustomMethod[*uriParams, *getResult](ctx, h.cs, methodGet, &uriParams{URI: at})
	if err != nil {
		return Entry{}, remoteError(err)
	}
	if res.Skill.URI != at {
		return Entry{}, fmt.Errorf("%w: it is about another skill than was asked for", ErrEntry)
	}
	return h.entry(res.Skill)
}

// remoteError gives what a server answers a code of ours. Its text is foreign and
// stays behind.
func remoteError(err error) error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ok && e.Code == jsonrpc.CodeInvalidParams:
		return toolresult.WrapError(toolresult.NotFound, "the server has no such skill or file", err)
	case ok && e.Code == jsonrpc.CodeMethodNotFound:
		return toolresult.WrapError(toolresult.Unsupported, "the server has no skills", err)
	}
	return toolresult.WrapError(toolresult.ProviderUnavailable, "the server of skills did not answer as it should", err)
}

// entry checks the form of an entry.
func (h *Host) entry(w wireEntry) (Entry, error) {
	wrong := func(text string) (Entry, error) { return Entry{}, fmt.Errorf("%w: %s", ErrEntry, text) }
	root, ok := strings.CutSuffix(w.URI, "/"+entryName)
	u, err := url.Parse(w.URI)
	if !ok || err != nil || u.Scheme == "" || u.RawQuery != "" || u.Fragment != "" || len(w.URI) > 4096 {
		return wrong("its URI is not that of a SKILL.md")
	}
	front, err := fields(w.FrontMatter)
	if err != nil {
		return wrong("its frontmatter is not an object that every reader reads alike")
	}
	e := Entry{Label: h.label, URI: w.URI, FrontMatter: bytes.Clone(w.FrontMatter)}
	e.Name, _ = front["name"].(string)
	e.Description, _ = front["description"].(string)
	switch {
	case e.Name == "" || strings.TrimSpace(e.Description) == "":
		return wrong("its frontmatter has no name or no description")
	case root[strings.LastIndexByte(root, '/')+1:] != e.Name:
		return wrong("its URI does not end with its name")
	}
	if err := e.files(root, w.Resources); err != nil {
		return Entry{}, err
	}
	canonical, err := strictjson.Canonical(w.FrontMatter)
	if err != nil {
		return wrong("its frontmatter has numbers that readers read differently")
	}
	bound, err := json.Marshal([]string{e.Label, e.URI, string(canonical), string(e.Files.Digest())})
	e.Digest = skill.DigestOf(bound)
	return e, err
}

// fields reads an object in which no field is written twice.
func fields(text json.RawMessage) (map[string]any, error) {
	v, err := strictjson.Parse(text)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, ErrEntry
	}
	return m, nil
}

// files reads the list of an entry's files, which has to be whole.
func (e *Entry) files(root string, text json.RawMessage) error {
	wrong := func(what string) error { return fmt.Errorf("%w: resources: %s", ErrEntry, what) }
	if string(text) == `"dynamic"` {
		return fmt.Errorf("%w: its files are dynamic, so that nothing can be approved or verified", toolresult.Unsupported)
	}
	if _, err := strictjson.Parse(text); err != nil {
		return wrong("want a list of files")
	}
	var list []wireFile
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		return wrong("want a list of files")
	}
	if len(list) > maxFiles {
		return wrong(fmt.Sprintf("there are more than %d", maxFiles))
	}
	e.uris = map[string]string{}
	for _, f := range list {
		escaped, ok := strings.CutPrefix(f.URI, root+"/")
		file, err := url.PathUnescape(escaped)
		switch d := skill.Digest(f.Digest); {
		case !ok || err != nil || strings.ContainsAny(escaped, "?#") || !fs.ValidPath(file) || strings.ContainsAny(file, "\\\x00"):
			return wrong("a file lies outside of the skill")
		case e.uris[file] != "":
			return wrong("a file is listed twice")
		case !d.Valid() || f.Size == nil || *f.Size < 0 || *f.Size > maxBytes:
			return wrong("a file has no digest or size")
		default:
			e.uris[file] = f.URI
			e.Files = append(e.Files, skill.File{Path: file, Size: *f.Size, Digest: d})
		}
	}
	slices.SortFunc(e.Files, func(a, b skill.File) int { return strings.Compare(a.Path, b.Path) })
	if e.uris[entryName] == "" || e.Files.Bytes() > maxBytes {
		return wrong(fmt.Sprintf("there is no SKILL.md, or the files have more than %d bytes", maxBytes))
	}
	return nil
}

// Skill is a skill that was loaded. It is immutable and safe for concurrent use.
type Skill struct {
	h    *Host
	e    Entry
	body string
}

// Load retrieves SKILL.md, and nothing else, of an entry of this host. It refuses
// what [HostOptions.Approve] refuses, and with [*MismatchError] a file that is
// not the one that was listed. A text that breaks the rules is [*skill.Invalid].
func (h *Host) Load(ctx context.Context, e Entry) (*Skill, error) {
	if e.Label != h.label || e.uris == nil {
		return nil, toolresult.NewError(toolresult.InvalidInput, "the entry is not one of this server's; list or get it")
	}
	e = e.clone()
	if h.opts.Approve != nil {
		if err := h.opts.Approve(ctx, e.clone()); err != nil {
			return nil, err
		}
	}
	text, err := h.read(ctx, e, entryName)
	if err != nil {
		return nil, err
	}
	doc, err := skill.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := compare(e, doc); err != nil {
		return nil, err
	}
	if err := doc.Check(*h.opts.Rules, e.Name).Err(); err != nil {
		return nil, err
	}
	return &Skill{h, e, doc.Body}, nil
}

func (e Entry) clone() Entry {
	e.FrontMatter, e.Files, e.uris = bytes.Clone(e.FrontMatter), slices.Clone(e.Files), maps.Clone(e.uris)
	return e
}

// compare compares the front matter of a file with that of its entry, field by
// field.
func compare(e Entry, doc *skill.Document) error {
	text, err := doc.JSON()
	if err != nil {
		return err
	}
	listed, err1 := fields(e.FrontMatter)
	found, err2 := fields(text)
	if err := errors.Join(err1, err2); err != nil {
		return &MismatchError{e.URI, "frontmatter, which cannot be compared"}
	}
	var differ []string
	for name := range found {
		if !same(listed, found, name) {
			differ = append(differ, fmt.Sprintf("%.40q", name))
		}
	}
	for name := range listed {
		if _, ok := found[name]; !ok {
			differ = append(differ, fmt.Sprintf("%.40q", name))
		}
	}
	if differ == nil {
		return nil
	}
	slices.Sort(differ)
	return &MismatchError{e.URI, "frontmatter: " + strings.Join(differ[:min(len(differ), 8)], ", ")}
}

func same(a, b map[string]any, name string) bool {
	x, ok := a[name]
	if !ok {
		return false
	}
	one, err1 := canonical(x)
	two, err2 := canonical(b[name])
	return err1 == nil && err2 == nil && bytes.Equal(one, two)
}

func canonical(v any) ([]byte, error) {
	text, err := json.Marshal([]any{v})
	if err != nil {
		return nil, err
	}
	return strictjson.Canonical(text)
}

// read retrieves one listed file and verifies it.
func (h *Host) read(ctx context.Context, e Entry, file string) ([]byte, error) {
	f, ok := e.Files.Find(file)
	at, ok2 := e.uris[file]
	if !ok || !ok2 {
		return nil, toolresult.WrapError(toolresult.NotFound, "the skill has no such file", fs.ErrNotExist)
	}
	res, err := h.cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: at})
	if err != nil {
		return nil, remoteError(err)
	}
	if len(res.Contents) != 1 || res.Contents[0] == nil || res.Contents[0].URI != at {
		return nil, fmt.Errorf("%w: the answer holds another file, or several", ErrEntry)
	}
	b := res.Contents[0].Blob
	if b == nil {
		b = []byte(res.Contents[0].Text)
	}
	switch {
	case int64(len(b)) != f.Size:
		return nil, &MismatchError{at, "size"}
	case skill.DigestOf(b) != f.Digest:
		return nil, &MismatchError{at, "digest"}
	}
	return b, nil
}

// Entry returns what the skill was listed as.
func (s *Skill) Entry() Entry { return s.e.clone() }

// Body is the text of SKILL.md below the front matter. It comes from another
// server: show the model whose it is.
func (s *Skill) Body() string { return s.body }

// Read retrieves one of the entry's files, by its path, and verifies it. Anything
// else does not exist.
func (s *Skill) Read(ctx context.Context, file string) ([]byte, error) {
	return s.h.read(ctx, s.e, file)
}
