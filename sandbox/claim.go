package sandbox

import (
	"fmt"
	"slices"
)

// Claim names one promise about a program that runs.
type Claim string

// The claims. The comment is the promise.
const (
	FSRead       Claim = "fs.read"       // reads nothing outside allow_read, allow_write and, if given, the system
	FSWrite      Claim = "fs.write"      // creates, changes, renames and removes nothing outside allow_write
	FSDenyRead   Claim = "fs.deny_read"  // reads nothing that deny_read names
	FSDenyWrite  Claim = "fs.deny_write" // changes nothing that deny_write and the built-in list name
	FSLinks      Claim = "fs.links"      // reaches no file of the outside by a hard link that was there before
	FSMetadata   Claim = "fs.metadata"   // changes no mode, owner, time or attribute outside allow_write
	FSExistence  Claim = "fs.existence"  // cannot tell whether a path outside exists
	FSSocket     Claim = "fs.socket"     // connects to no unix socket of the host, by path or by abstract name
	NetEgress    Claim = "net.egress"    // reaches no host but allow_domains
	NetPrivate   Claim = "net.private"   // reaches no private, loopback, link-local or metadata address but allow_private
	NetFamilies  Claim = "net.families"  // opens no socket but TCP: no UDP, MPTCP, raw, netlink, packet, vsock
	ProcTimeout  Claim = "proc.timeout"  // does not run longer than timeout_seconds
	ProcTree     Claim = "proc.tree"     // leaves no process behind, however it detaches
	ProcCount    Claim = "proc.count"    // has no more processes and threads at a time than max_child_processes and itself
	ProcMemory   Claim = "proc.memory"   // uses no more memory than max_memory_bytes, all processes together
	ProcFile     Claim = "proc.file"     // writes no file longer than max_file_bytes
	ProcOutput   Claim = "proc.output"   // delivers no more output than max_output_bytes
	ProcPeers    Claim = "proc.peers"    // neither signals, traces nor reads another process
	ProcKernel   Claim = "proc.kernel"   // calls none of the denied system calls, under no architecture
	ProcImage    Claim = "proc.image"    // runs the very bytes whose digests the command pins
	ProcCommands Claim = "proc.commands" // runs none of blocked_commands; a match of strings, never a boundary
	CredEnv      Claim = "cred.env"      // sees no variable but those of the policy and the command
	CredFD       Claim = "cred.fd"       // inherits no descriptor but its three streams
)

// Strength is how well a claim holds. The zero value is None.
type Strength uint8

// The strengths, weakest first. Delegated does not compare: it satisfies only
// a policy that asks for it by name.
const (
	None      Strength = iota // does not hold
	Auxiliary                 // helps against accidents; bypassed by who wants to
	Snapshot                  // holds for what existed when the program started
	Enforced                  // by the kernel, or by our own proxy on the only way out
	Delegated                 // another executor says so; nobody here saw it
)

var strengths = [...]string{"none", "auxiliary", "snapshot", "enforced", "delegated"}

// String returns the word used in policies and reports.
func (s Strength) String() string {
	if int(s) < len(strengths) {
		return strengths[s]
	}
	return fmt.Sprintf("strength(%d)", uint8(s))
}

// MarshalText writes the word.
func (s Strength) MarshalText() ([]byte, error) {
	if int(s) >= len(strengths) {
		return nil, fmt.Errorf("sandbox: no such strength: %d", uint8(s))
	}
	return []byte(strengths[s]), nil
}

// UnmarshalText reads the word.
func (s *Strength) UnmarshalText(text []byte) error {
	i := slices.Index(strengths[:], string(text))
	if i < 0 {
		return fmt.Errorf("want one of none, auxiliary, snapshot, enforced, delegated")
	}
	*s = Strength(i)
	return nil
}

// satisfies reports whether having s is enough where want is required.
func (s Strength) satisfies(want Strength) bool {
	if want == Delegated || s == Delegated {
		// A remote executor's word is never taken for an observation, unless
		// the policy says that it is.
		return want == None || s == want || s == Enforced && want == Delegated
	}
	return s >= want
}

// holds reports whether having s is enough. Rules that take another machine's
// word also take what this one holds as strongly as the claim usually has to.
func (n need) holds(s, want Strength) bool {
	return s.satisfies(want) || want == Delegated && s.satisfies(n.least)
}

// Level is where a boundary lies. The zero Level is none.
type Level uint8

// The levels, lightest first.
const (
	NoLevel      Level = iota
	LevelPath          // file calls of this program
	LevelProcess       // a process of this kernel
	LevelContainer
	LevelRemote // another machine
)

var levels = [...]string{"none", "path", "process", "container", "remote"}

// String returns the word used in reports.
func (l Level) String() string {
	if int(l) < len(levels) {
		return levels[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// MarshalText writes the word.
func (l Level) MarshalText() ([]byte, error) {
	if int(l) >= len(levels) {
		return nil, fmt.Errorf("sandbox: no such level: %d", uint8(l))
	}
	return []byte(levels[l]), nil
}

// UnmarshalText reads the word.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levels[:], string(text))
	if i < 0 {
		return fmt.Errorf("want one of none, path, process, container, remote")
	}
	*l = Level(i)
	return nil
}

// A need says when a policy uses a claim, and how strong it must then be
// unless the policy's require says otherwise.
type need struct {
	claim Claim
	used  func(*Rules) bool // nil: always
	least Strength
}

// needs is also the order of claims in a report.
var needs = []need{
	{FSRead, nil, Enforced},
	{FSWrite, nil, Enforced},
	{FSDenyRead, func(r *Rules) bool { return len(r.DenyRead) > 0 }, Snapshot}, // no kernel has a rule for a name that does not exist yet
	{FSDenyWrite, func(r *Rules) bool { return len(r.Write) > 0 }, Snapshot},
	{FSLinks, func(r *Rules) bool { return !r.HardLinks && len(r.Read)+len(r.Write) > 0 }, Snapshot},
	{FSMetadata, nil, Enforced},
	{FSExistence, nil, None},
	{FSSocket, nil, Enforced},
	{NetEgress, nil, Enforced},
	{NetPrivate, nil, Enforced},
	{NetFamilies, nil, Enforced},
	{ProcTimeout, nil, Enforced},
	{ProcTree, nil, Enforced},
	{ProcCount, func(r *Rules) bool { return r.MaxChildren > 0 }, Enforced},
	{ProcMemory, func(r *Rules) bool { return r.MaxMemory > 0 }, Enforced},
	{ProcFile, func(r *Rules) bool { return r.MaxFile > 0 }, Enforced},
	{ProcOutput, nil, Enforced},
	{ProcPeers, nil, Enforced},
	{ProcKernel, nil, Enforced},
	{ProcImage, func(*Rules) bool { return false }, None}, // by the command, see Report.Check
	{ProcCommands, func(r *Rules) bool { return len(r.Blocked) > 0 }, Auxiliary},
	{CredEnv, nil, Enforced},
	{CredFD, nil, Enforced},
}

// Claims returns every claim, in the order of reports.
func Claims() []Claim {
	out := make([]Claim, len(needs))
	for i, n := range needs {
		out[i] = n.claim
	}
	return out
}

func known(c Claim) bool {
	return slices.ContainsFunc(needs, func(n need) bool { return n.claim == c })
}
