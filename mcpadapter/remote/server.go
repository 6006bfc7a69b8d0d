package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Party says whose server it is. The zero Party is refused.
type Party uint8

const (
	PartyUnknown  Party = iota
	PartyOwn            // the operator's own
	PartyProvider       // of the provider whose system it is about
	PartyThird          // of somebody in between, such as an aggregator: one more who sees the data
)

var parties = [...]string{"unknown", "own", "provider", "third"}

// String returns the word for it.
func (p Party) String() string {
	if int(p) < len(parties) {
		return parties[p]
	}
	return parties[PartyUnknown]
}

// Server is an MCP server as the operator describes it. Either Profile or Launch
// says where it is.
type Server struct {
	// ID, Version and Owner are those of the connector: Version is the operator's,
	// and rises when what is approved changes.
	ID, Version, Owner string

	// Party says whose server it is. Only an own server's answers can be trusted.
	Party Party

	// Profile is where it is on the network, and Path its address below that
	// ("/mcp"). The same profile is one of the invoker's endpoints. It is not
	// used with Launch.
	Profile egress.Profile
	Path    string

	// Launch starts a local server. Nil: it is on the network.
	Launch Launcher

	// Auth is as in connector.Info. A local server says AuthNone: its credential
	// is a matter of its launch.
	Auth connector.Auth

	// Tools are those that may be used. No other is offered, and one that the
	// server adds stays closed. Each has a pin.
	Tools []Tool

	// Approval says which changes a person must approve.
	Approval Approval

	// Defer marks the tools as deferred: a host need not show them all to a model,
	// which finds them with the tool search_tools. See [Connector.Bind].
	Defer bool

	// Prefix stands before the names of the capabilities: "github" for
	// "github.search_issues". Empty: the ID with underscores for dashes.
	Prefix string

	// Hosts are those whose addresses in answers stay as they are, by their exact
	// names. Empty: none. Nothing is fetched from them.
	Hosts []string

	// Markup leaves markup and addresses in answers as they are, for a server
	// whose text is code. What cannot be seen is still removed.
	Markup bool
}

// Approval says which changes a person must approve. The zero Approval is each.
type Approval uint8

const (
	ApprovalAlways Approval = iota // each change, whatever Tool says
	ApprovalByTool                 // as Tool.Approval says
	ApprovalNever                  // none; a change that always needs one is refused by New
)

// Launcher starts the approved program of a local server for one caller, and
// returns its standard output and input. Close ends it, and whatever it started.
type Launcher func(ctx context.Context, who authz.Principal) (io.ReadWriteCloser, error)

// Tool is what the operator says about one tool of a server.
type Tool struct {
	// Name is the server's name for it.
	Name string

	// As is the name of the capability behind the prefix. Empty: Name in lower
	// case, with an underscore for everything but letters and digits.
	As string

	// Class says what it may change and reveal. What is not said is refused: the
	// server's annotations are not asked.
	Class risk.Class

	// Approval says when a person must approve a change, if the server says
	// ApprovalByTool.
	Approval connector.ApprovalRule

	// Description replaces the server's, which is a stranger's text before a
	// model. Empty: the server's, cleaned.
	Description string

	// Touches says which objects a call touches, by the arguments:
	// "repository:{#/params/arguments/owner}/{#/params/arguments/repo}". See
	// connector.Route. Empty: whatever the account reaches, which needs a grant of
	// the whole connection. A local server's tools touch the whole connection.
	Touches []string

	// Fixed are arguments that the operator sets. A model neither sees them nor
	// says them.
	Fixed map[string]json.RawMessage

	// Business says why a model may say what looks like the runtime's, by JSON
	// Pointer into the arguments: {"/account": "the customer whose invoices are
	// listed"}.
	Business map[string]string

	// Trust labels its answers. FirstParty needs an own server, and content that
	// the organisation writes itself.
	Trust toolresult.Trust

	// Scopes are the provider's scopes that it needs.
	Scopes []string

	// Limits bound one call. Zero fields are as in connector.Limits, but for
	// Requests: 64, because a session's list is read within the call.
	Limits connector.Limits
}

// Options are options of New and Review. Nil is the zero Options.
type Options struct {
	// Name and Version are how this client introduces itself. Empty: "drawbridge".
	Name, Version string

	// Recheck is how old a session's list of tools may be when a tool is called.
	// 0: five minutes.
	Recheck time.Duration

	// Probe is how long a local server may be silent to the newest revision of
	// the protocol before an older one is tried. 0: five seconds.
	Probe time.Duration

	// Sessions is how many callers have a session at a time; the one that was
	// used longest ago gives way, and if all are in use a new caller waits for
	// nobody and is refused. 0: 1000, and 16 for a local server.
	Sessions int

	// Frame bounds one message of the server, in bytes. 0: 4 MiB.
	Frame int64

	// Pages and ToolsListed bound a list. 0: 50 pages and 1000 tools.
	Pages, ToolsListed int

	// Artifacts keeps originals: the same store as the invoker's. Nil: they are
	// not kept, and what was removed from an answer is gone.
	Artifacts artifact.Store

	// Keep is how long originals are kept. 0: one hour.
	Keep time.Duration

	// Elicit answers a question that a server asks before it answers a call that
	// changes nothing. Nil: such a call fails.
	Elicit func(ctx context.Context, who authz.Principal, q *Question) (*Reply, error)

	// Credentials is for Review, which is no call. New does not use it, except
	// for a BrokerWithChallenge: give the invoker's.
	Credentials credential.Broker

	// Egress is for Review. Nil: the system's resolver and dialer.
	Egress *egress.Options
}

// Question is what a server asks. Everything in it is a stranger's: show it as
// such, with the server's name, and never answer with a secret.
type Question struct {
	Server string // ID
	Tool   string
	Text   string // cleaned
	Schema json.RawMessage
}

// Reply is the answer to a question. Action is "accept", "decline" or "cancel".
type Reply struct {
	Action  string
	Content map[string]any
}

func (o *Options) complete(local bool) Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Name == "" {
		out.Name = "drawbridge"
	}
	if out.Version == "" {
		out.Version = "1"
	}
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&out.Recheck, 5*time.Minute)
	set(&out.Probe, 5*time.Second)
	set(&out.Keep, time.Hour)
	if out.Frame <= 0 {
		out.Frame = 4 << 20
	}
	if out.Sessions <= 0 {
		if out.Sessions = 1000; local {
			out.Sessions = 16
		}
	}
	return out
}

// check lists what is wrong with a server, but for its tools.
func (s *Server) check() (errs []error) {
	wrong := func(text string) { errs = append(errs, fmt.Errorf("remote: %q %s", s.ID, text)) }
	switch {
	case s.Party < PartyOwn || s.Party > PartyThird:
		wrong("does not say whose server it is; set Party")
	case s.Launch != nil && s.Profile.Name != "":
		wrong("is local and on the network; set Launch or Profile")
	case s.Launch == nil && (s.Profile.Name == "" || s.Profile.BaseURL == ""):
		wrong("is nowhere; set Profile and Path, or Launch")
	case s.Launch == nil && (!strings.HasPrefix(s.Path, "/") || strings.ContainsAny(s.Path, " {}#?")):
		wrong("has a Path that is not of the form /mcp")
	case s.Launch != nil && s.Auth.Mode != connector.AuthNone:
		wrong("is local and asks for a credential; its launch carries one, so say AuthNone")
	}
	if !slices.Contains([]Approval{ApprovalAlways, ApprovalByTool, ApprovalNever}, s.Approval) {
		wrong("has no Approval that is known")
	}
	for _, h := range s.Hosts {
		if h != strings.ToLower(h) || strings.ContainsAny(h, "/:*@ ") || h == "" {
			wrong("has a host that is not a plain name in lower case")
		}
	}
	return errs
}

func (s *Server) prefix() string {
	if s.Prefix != "" {
		return s.Prefix
	}
	return strings.ReplaceAll(s.ID, "-", "_")
}

// capability is the name under which a tool is offered.
func (s *Server) capability(t *Tool) string {
	as := t.As
	if as == "" {
		as = strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
				return r
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			}
			return '_'
		}, t.Name)
		if as != "" && (as[0] < 'a' || as[0] > 'z') {
			as = "t" + as
		}
	}
	return s.prefix() + "." + as
}

var errNoServer = errors.New("remote: the server cannot be used")
