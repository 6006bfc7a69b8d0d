package release

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
)

// comparison collects changes.
type comparison struct {
	report *Report
	name   string // of the capability
	was    int    // changes before it
}

func (c *comparison) add(w Weight, where, format string, args ...any) {
	c.report.Changes = append(c.report.Changes, Change{w, c.name, where, fmt.Sprintf(format, args...)})
}

// Compare returns how the contract now differs from what it was. It fails never:
// what cannot be compared is a breaking change.
func Compare(was, now Contract) *Report {
	r := &Report{Connector: now.Connector, From: was.Version, To: now.Version}
	c := &comparison{report: r}
	c.connector(was, now)
	for _, old := range was.Capabilities {
		c.name, c.was = old.Name, len(r.Changes)
		if i := index(now, old.Name); i >= 0 {
			c.capability(old, now.Capabilities[i])
		} else {
			c.add(Breaking, "name", "the capability is gone")
		}
	}
	for _, fresh := range now.Capabilities {
		if c.name = fresh.Name; index(was, fresh.Name) < 0 {
			c.add(Compatible, "name", "the capability is new; it starts closed until a policy names it")
		}
	}
	r.sort()
	return r
}

func index(c Contract, name string) int {
	return slices.IndexFunc(c.Capabilities, func(x Capability) bool { return x.Name == name })
}

func (c *comparison) connector(was, now Contract) {
	c.same(Breaking, "connector_id", was.Connector, now.Connector)
	c.same(Breaking, "auth", was.Auth, now.Auth)
	c.same(Review, "provider_api_version", was.Provider, now.Provider)
	gone, fresh := differ(was.Exclude, now.Exclude)
	c.each(Review, "output_policy/exclude", gone, "%s is not held back any more")
	c.each(Breaking, "output_policy/exclude", fresh, "%s is held back now")
	gone, fresh = differ(was.Preserve, now.Preserve)
	c.each(Breaking, "output_policy/preserve", gone, "%s may be dropped now")
	c.each(Compatible, "output_policy/preserve", fresh, "%s is always kept now")
}

func (c *comparison) capability(was, now Capability) {
	c.same(Breaking, "kind", was.Kind, now.Kind)
	c.same(Breaking, "uri", was.URI, now.URI)
	c.same(Review, "title", was.Title, now.Title)
	c.same(Review, "description", was.Description, now.Description)
	c.axis("side_effect", was.SideEffect, now.SideEffect, effectRank)
	c.axis("sensitivity", was.Sensitivity, now.Sensitivity, sensitivityRank)
	gone, fresh := differ(was.Scopes, now.Scopes)
	c.each(Compatible, "scopes", gone, "%s is not needed any more")
	c.each(Breaking, "scopes", fresh, "%s is needed now: whoever has connected an account has to consent again")
	gone, fresh = differ(was.Routes, now.Routes)
	c.each(Review, "routes", gone, "it does not ask %s any more")
	c.each(Review, "routes", fresh, "it asks %s now")
	c.limit("timeout_ms", was.TimeoutMS, now.TimeoutMS)
	c.limit("page_size", int64(was.PageSize), int64(now.PageSize))
	c.limit("bytes", was.Bytes, now.Bytes)
	c.write(was, now)
	c.schemas("input", was.Input, now.Input, accepts)
	c.schemas("output", was.Output, now.Output, promises)
	if was.Digest != now.Digest && len(c.report.Changes) == c.was {
		c.add(Review, "digest", "the declaration differs in something that no other line names")
	}
}

func (c *comparison) write(was, now Capability) {
	switch {
	case was.Approval == "always" && now.Approval != "always":
		c.add(Review, "approval", "a person is not asked for every change any more: the policy decides")
	case was.Approval != now.Approval:
		c.add(Breaking, "approval", "a person has to approve every change now")
	}
	switch {
	case was.Reconcilable && !now.Reconcilable:
		c.add(Breaking, "reconcilable", "nobody can find out any more what became of a change whose answer was lost")
	case !was.Reconcilable && now.Reconcilable:
		c.add(Compatible, "reconcilable", "a change whose answer was lost can be looked up now")
	}
	c.same(Breaking, "repeats", was.Repeats, now.Repeats)
	c.same(Review, "compensation", was.Compensation, now.Compensation)
}

// same reports two texts that differ.
func (c *comparison) same(w Weight, where, was, now string) {
	if was != now {
		c.add(w, where, "was %s, is %s", quote(was), quote(now))
	}
}

func quote(s string) string {
	const most = 200
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// axis reports a class that differs: higher breaks, lower has to be looked at.
func (c *comparison) axis(where, was, now string, rank func(string) int) {
	switch a, b := rank(was), rank(now); {
	case b > a:
		c.add(Breaking, where, "is higher: %s after %s", now, was)
	case b < a:
		c.add(Review, where, "is said to be lower: %s after %s", now, was)
	}
}

// effectRank and sensitivityRank are the axes of package risk. A word that it
// does not have is the highest.
func effectRank(s string) int {
	var e risk.SideEffect
	_ = e.UnmarshalText([]byte(s)) // stays unclassified, which is the highest
	return int(e)
}

func sensitivityRank(s string) int {
	var x risk.Sensitivity
	_ = x.UnmarshalText([]byte(s))
	return int(x)
}

func (c *comparison) limit(where string, was, now int64) {
	switch {
	case now < was:
		c.add(Breaking, where, "is %d after %d", now, was)
	case now > was:
		c.add(Compatible, where, "is %d after %d", now, was)
	}
}

func (c *comparison) each(w Weight, where string, list []string, format string) {
	for _, s := range list {
		c.add(w, where, format, s)
	}
}

// differ returns what is only in the first list, and what is only in the second.
func differ(was, now []string) (gone, fresh []string) {
	for _, s := range was {
		if !slices.Contains(now, s) {
			gone = append(gone, s)
		}
	}
	for _, s := range now {
		if !slices.Contains(was, s) {
			fresh = append(fresh, s)
		}
	}
	return gone, fresh
}

// join is a path of schemas, readable as a JSON Pointer.
func join(at, step string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
}
