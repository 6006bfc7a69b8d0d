package bearer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// offline is the scope that a resource must not ask for: whether a client gets a
// refresh token is between it and the issuer.
const offline = "offline_access"

// ownScopes copies and checks the scopes in the options.
func (b *Bearer) ownScopes() error {
	b.opts.Scopes = unique(b.opts.Scopes)
	if b.opts.ScopesSupported == nil {
		b.opts.ScopesSupported = b.opts.Scopes
	}
	b.opts.ScopesSupported = unique(b.opts.ScopesSupported)
	for _, s := range slices.Concat(b.opts.Scopes, b.opts.ScopesSupported) {
		if !isScope(s) || s == offline {
			return fmt.Errorf("%q is no scope to ask for: want visible ASCII without quotes and backslashes, and not offline_access", s)
		}
	}
	b.opts.Confirm = maps.Clone(b.opts.Confirm)
	b.implied = map[string][]string{}
	for s := range b.opts.Implies {
		reached := map[string]bool{}
		reach(b.opts.Implies, s, reached)
		b.implied[s] = slices.Sorted(maps.Keys(reached))
	}
	for s, more := range b.implied {
		if !isScope(s) || slices.ContainsFunc(more, func(m string) bool { return !isScope(m) }) {
			return errors.New("the option Implies names something that is no scope")
		}
	}
	return nil
}

// reach collects what a scope includes; circles are all one.
func reach(implies map[string][]string, from string, reached map[string]bool) {
	for _, s := range implies[from] {
		if !reached[s] {
			reached[s] = true
			reach(implies, s, reached)
		}
	}
}

func unique(scopes []string) []string {
	out := slices.Clone(scopes)
	slices.Sort(out)
	return slices.Compact(out)
}

// with returns scopes with what they imply, sorted.
func (b *Bearer) with(scopes []string) []string {
	out := slices.Clone(scopes)
	for _, s := range scopes {
		out = append(out, b.implied[s]...)
	}
	return unique(out)
}

// needs returns every scope that an attempt needs, sorted.
func (b *Bearer) needs(ctx context.Context, who authz.Principal, a attempt) ([]string, *failure) {
	if !a.call || b.opts.ToolScopes == nil {
		return b.opts.Scopes, nil
	}
	all := unique(slices.Concat(b.opts.Scopes, b.opts.ToolScopes(ctx, who, a.tool)))
	for _, s := range all {
		if !isScope(s) || s == offline {
			return nil, &failure{kind: broken, why: "ToolScopes named something that is no scope to ask for"}
		}
	}
	return all, nil
}

// covers reports whether a principal has every scope.
func covers(who authz.Principal, need []string) bool {
	return !slices.ContainsFunc(need, func(s string) bool { return !who.HasScope(s) })
}
