package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

// kinds is how many sets of tools there are.
const kinds = 8

// A host serves a connector that tells callers who they are.
type host struct {
	who map[string]authz.Principal // by token
	inv *connector.Invoker
	h   http.Handler
}

// subject and token are those of client n; no name is a part of another.
func subject(n int) string { return fmt.Sprintf("client-%04d", n) }

func token(n int) string { return fmt.Sprintf("token-%04d", n) }

// own is the tool that only clients of the same kind see.
func own(n int) string { return fmt.Sprintf("own.k%d", n%kinds) }

type question struct {
	Nonce string `json:"nonce" jsonschema:"comes back"`
	Wait  int    `json:"wait" jsonschema:"milliseconds"`
}

type reply struct {
	Subject string `json:"subject"`
	Nonce   string `json:"nonce"`
}

func newHost(clients int) (*host, error) {
	h := &host{who: map[string]authz.Principal{}}
	a := authz.NewAuthority("soak")
	for n := range clients {
		p, err := a.Principal(authz.Identity{Tenant: fmt.Sprintf("tenant-%d", n%5), Issuer: "https://issuer.test", Subject: subject(n)})
		if err != nil {
			return nil, err
		}
		h.who[token(n)] = p
	}
	caps := []connector.Capability{whoami("who.am_i")}
	for k := range kinds {
		caps = append(caps, whoami(own(k)))
	}
	c, err := connector.New(connector.Info{ID: "soak", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}}, caps...)
	if err != nil {
		return nil, err
	}
	if h.inv, err = connector.NewInvoker(rules{}, []*authz.Authority{a}, []connector.Connector{c}, nil); err != nil {
		return nil, err
	}
	adapter, err := mcpadapter.New(h.inv, h.principal, &mcpadapter.Options{MaxRequestBytes: 64 << 10})
	if err != nil {
		return nil, err
	}
	h.h = adapter.HTTP()
	return h, nil
}

func whoami(name string) connector.Capability {
	return connector.Read(connector.Spec{Name: name, Description: "Says who asks.", Sensitivity: risk.Internal}, connector.OnConnection[question],
		func(ctx context.Context, call *connector.ReadCall, in question) (*connector.Answer[reply], error) {
			call.Progress(connector.Progress{Done: 1, Total: 2, Note: call.Principal().Key().Subject})
			if in.Wait > 0 {
				t := time.NewTimer(time.Duration(min(in.Wait, 100)) * time.Millisecond)
				defer t.Stop()
				select {
				case <-t.C:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return connector.Found(reply{call.Principal().Key().Subject, in.Nonce}), nil
		})
}

func (h *host) principal(_ context.Context, r *http.Request) (authz.Principal, error) {
	if r == nil {
		return authz.Principal{}, errors.New("there is nobody here")
	}
	p, ok := h.who[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		return authz.Principal{}, errors.New("a token that nobody knows")
	}
	return p, nil
}

// rules shows everybody who.am_i and the tool of their kind.
type rules struct{}

func (rules) Decide(_ context.Context, r *authz.Request) (authz.Decision, error) {
	d := authz.Decision{Verdict: authz.Deny, Revision: "1", Scope: r.Target.Scope()}
	var n int
	if _, err := fmt.Sscanf(r.Principal.Key().Subject, "client-%d", &n); err != nil {
		return d, err
	}
	if name := r.Action.Capability; name == "who.am_i" || name == own(n) {
		d.Verdict = authz.Allow
	}
	return d, nil
}

func (rules) Revision(context.Context, string) (string, error) { return "1", nil }
