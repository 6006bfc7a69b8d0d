package connection

import (
	"context"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// linkKey says what a link is for. Calls that lack the same get the same link.
type linkKey struct {
	owner                        authz.PrincipalKey
	provider, connection, scopes string
	generation                   int64
}

const maxLinks = 4096

// withLink adds the way to connect an account to an error. If none can be made,
// the error stands as it is: nothing else is wrong because of that.
func (m *Manager) withLink(ctx context.Context, e *toolresult.Error, p authz.Principal, rec *Record, need []string) error {
	if m.opts.ConnectURL == nil || rec.Provider == "" || rec.ID != "" && rec.Owner != p.Key() {
		return e
	}
	missing := lacking(need, rec.Scopes)
	l, err := m.link(ctx, p, rec, missing)
	if err != nil {
		m.log.InfoContext(ctx, "no link could be made for a caller", "provider", rec.Provider, "code", string(toolresult.Code(err)))
		return e
	}
	with := *e // one renewal's failure is everybody's who waited for it
	with.Connect = &toolresult.ConnectStep{Provider: rec.Provider, URL: l.URL, Missing: missing, Expires: l.Expires.UTC()}
	return &with
}

// link returns a link that was made for the same, if it has half of its time
// left and nobody has followed it, or makes one.
func (m *Manager) link(ctx context.Context, p authz.Principal, rec *Record, missing []string) (Link, error) {
	key := linkKey{p.Key(), rec.Provider, rec.ID, strings.Join(missing, " "), rec.Generation}
	m.mu.Lock()
	old, ok := m.links[key]
	m.mu.Unlock()
	if ok && time.Until(old.Expires) > m.opts.LinkFor/2 {
		if tx, err := m.store.Transaction(ctx, key.owner.Tenant, old.ID); err == nil && tx.Stage == Begun {
			return old, nil
		}
	}
	l, err := m.Begin(ctx, p, &BeginRequest{Provider: rec.Provider, Scopes: missing, Connection: rec.ID})
	if err != nil {
		return Link{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, v := range m.links { // few, and the map is bounded
		if len(m.links) >= maxLinks || !time.Now().Before(v.Expires) {
			delete(m.links, k)
		}
	}
	m.links[key] = l
	return l, nil
}
