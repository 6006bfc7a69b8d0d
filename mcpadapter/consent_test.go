package mcpadapter_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func change(key string) map[string]any {
	return map[string]any{"name": "notes.write", "arguments": map[string]any{"id": "n"}, "_meta": map[string]any{mcpadapter.OperationMeta: key}}
}

func with(p map[string]any, extra map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range []map[string]any{p, extra} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// agree answers the adapter's own question.
func agree(action string) map[string]any {
	return map[string]any{"drawbridge_consent": map[string]any{"action": action}}
}

// W1, A5: an approval over MCP. A client's accept is an approval only if policy
// says that its user may approve; otherwise it is nothing, and the result says
// where a person can.
func TestApprovals_W1_C7(t *testing.T) {
	approval := func(context.Context, authz.Principal, string) string { return "https://approvals.test/a" }
	code := func(r map[string]any) any { return at(t, r, "result", "structuredContent", "error", "code") }
	link := func(r map[string]any) any { return at(t, r, "result", "structuredContent", "error", "approval", "url") }
	state := func(r map[string]any) any { return at(t, r, "result", "requestState") }

	t.Run("a page, and a person who approves there", func(t *testing.T) {
		d := newDesk(t, false)
		d.approver = "bob"
		opts := d.options()
		opts.ApprovalURL = approval
		srv := d.serve(t, opts)
		r := rpc(t, srv.URL, "alice", "tools/call", change("op-1"), pages)
		ask := at(t, r, "result", "inputRequests", "drawbridge_consent", "params")
		require.Equal(t, "url", at(t, ask, "mode"))
		require.Equal(t, "https://approvals.test/a", at(t, ask, "url"))
		back := with(change("op-1"), map[string]any{"requestState": state(r), "inputResponses": agree("accept")})
		r = rpc(t, srv.URL, "alice", "tools/call", back, pages)
		require.Equal(t, "APPROVAL_REQUIRED", code(r), "the client says accept, and nobody has approved")
		require.Equal(t, "https://approvals.test/a", link(r))
		require.Zero(t, d.writes())

		all, err := d.inv.Approvals(t.Context(), d.bob, 10)
		require.NoError(t, err)
		require.Len(t, all, 1)
		r = rpc(t, srv.URL, "alice", "tools/call", change("op-1"), pages)
		_, err = d.inv.Approve(t.Context(), &connector.ApproveRequest{Principal: d.bob, ID: all[0].ID, Digest: all[0].Statement.Digest()})
		require.NoError(t, err)
		r = rpc(t, srv.URL, "alice", "tools/call", with(change("op-1"), map[string]any{"requestState": state(r), "inputResponses": agree("accept")}), pages)
		require.Equal(t, "success", at(t, r, "result", "structuredContent", "status"), r)
		require.Equal(t, 1, d.writes())
	})
	t.Run("a client that can show no page gets the link", func(t *testing.T) {
		d := newDesk(t, false)
		opts := d.options()
		opts.ApprovalURL = approval
		srv := d.serve(t, opts)
		for _, client := range []string{noMode, forms} {
			r := rpc(t, srv.URL, "alice", "tools/call", change("op-1"), client)
			require.Equal(t, "APPROVAL_REQUIRED", code(r), r)
			require.Equal(t, "https://approvals.test/a", link(r))
			require.Equal(t, true, at(t, r, "result", "isError"))
		}
		require.Zero(t, d.writes())
	})
	t.Run("a user who may approve is asked, and accepts", func(t *testing.T) {
		d := newDesk(t, true)
		srv := d.serve(t, d.options())
		r := rpc(t, srv.URL, "alice", "tools/call", change("op-1"), forms)
		require.Contains(t, at(t, r, "result", "inputRequests", "drawbridge_consent", "params", "message"), "notes.write")
		r = rpc(t, srv.URL, "alice", "tools/call", with(change("op-1"), map[string]any{"requestState": state(r), "inputResponses": agree("accept")}), forms)
		require.Equal(t, "success", at(t, r, "result", "structuredContent", "status"), r)
		require.Equal(t, 1, d.writes())
	})
	t.Run("a change that does not fit into a form whole is not asked about there", func(t *testing.T) {
		d := newDesk(t, true)
		srv := d.serve(t, d.options())
		long := with(change("op-1"), map[string]any{"arguments": map[string]any{"id": strings.Repeat("\u200b", 1100) + "pay mallory"}})
		r := rpc(t, srv.URL, "alice", "tools/call", long, forms)
		require.Equal(t, "APPROVAL_REQUIRED", code(r), r)
		require.Nil(t, r["result"].(map[string]any)["inputRequests"], "a person would see the beginning only")
		require.Zero(t, d.writes())
	})
	t.Run("and one who declines, or answers nothing, or without a question", func(t *testing.T) {
		d := newDesk(t, true)
		srv := d.serve(t, d.options())
		for _, answers := range []map[string]any{agree("decline"), agree("cancel"), {}} {
			r := rpc(t, srv.URL, "alice", "tools/call", change("op-1"), forms)
			r = rpc(t, srv.URL, "alice", "tools/call", with(change("op-1"), map[string]any{"requestState": state(r), "inputResponses": answers}), forms)
			require.Equal(t, "APPROVAL_REQUIRED", code(r), r)
		}
		r := rpc(t, srv.URL, "alice", "tools/call", with(change("op-1"), map[string]any{"inputResponses": agree("accept")}), forms)
		require.Equal(t, "input_required", at(t, r, "result", "resultType"), "nobody had been asked: %v", r)
		require.Zero(t, d.writes())
	})
	t.Run("a user whom policy does not let approve is not asked", func(t *testing.T) {
		for _, self := range []bool{true, false} {
			d := newDesk(t, self)
			if self {
				d.approver = "bob"
			}
			srv := d.serve(t, d.options())
			r := rpc(t, srv.URL, "alice", "tools/call", change("op-1"), forms)
			require.Equal(t, "APPROVAL_REQUIRED", code(r), r)
		}
	})
	t.Run("the right to approve goes between question and accept", func(t *testing.T) {
		d := newDesk(t, true)
		srv := d.serve(t, d.options())
		r := rpc(t, srv.URL, "alice", "tools/call", change("op-1"), forms)
		d.mu.Lock()
		d.approver = "bob"
		d.mu.Unlock()
		r = rpc(t, srv.URL, "alice", "tools/call", with(change("op-1"), map[string]any{"requestState": state(r), "inputResponses": agree("accept")}), forms)
		require.Equal(t, "APPROVAL_REQUIRED", code(r), r)
		require.Zero(t, d.writes())
	})
	t.Run("the accept of one change is no approval of another", func(t *testing.T) {
		d := newDesk(t, true)
		srv := d.serve(t, d.options())
		r := rpc(t, srv.URL, "alice", "tools/call", change("op-1"), forms)
		for _, other := range []map[string]any{change("op-2"), with(change("op-1"), map[string]any{"arguments": map[string]any{"id": "other"}})} {
			r2 := rpc(t, srv.URL, "alice", "tools/call", with(other, map[string]any{"requestState": state(r), "inputResponses": agree("accept")}), forms)
			require.EqualValues(t, -32602, at(t, r2, "error", "code"), r2)
		}
		require.Zero(t, d.writes())
	})
}

// W1, M1: a client of 2025-11-25 with a connection is asked while its call runs.
func TestApprovalsOfAnOlderClient_W1(t *testing.T) {
	d := newDesk(t, true)
	a, err := mcpadapter.New(d.inv, d.byToken, d.options())
	require.NoError(t, err)
	for action, status := range map[string]string{"decline": "error", "accept": "success"} {
		server, client := mcp.NewInMemoryTransports()
		ss, err := a.Connect(t.Context(), server)
		require.NoError(t, err)
		asked := 0
		cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked++
				require.Contains(t, r.Params.Message, "notes.write")
				return &mcp.ElicitResult{Action: action}, nil
			},
		}).Connect(t.Context(), client, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		require.NoError(t, err)
		r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Meta: mcp.Meta{mcpadapter.OperationMeta: "op-" + action}, Name: "notes.write", Arguments: map[string]any{"id": action}})
		require.NoError(t, err)
		require.EqualValues(t, status, decoded(t, r).Status)
		require.Equal(t, 1, asked)
		require.NoError(t, cs.Close())
		_ = ss.Wait()
	}
	require.Equal(t, 1, d.writes())
}

// C5, C7: an account that is not connected. The user is sent to a page if the
// client can show one, and otherwise the result has the link; that the client
// says "accept" connects nothing.
func TestConnect_C5_C7(t *testing.T) {
	alice, host := authztest.Principal(t, "acme", "alice")
	c, err := connector.New(connector.Info{ID: "crm", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthDelegatedOAuth}},
		connector.Read(connector.Spec{Name: "crm.get", Description: "about", Sensitivity: risk.Internal}, connector.OnConnection[noteID],
			func(context.Context, *connector.ReadCall, noteID) (*connector.Answer[string], error) {
				return connector.Found("the customer"), nil
			}))
	require.NoError(t, err)
	accounts := &unconnected{}
	inv, err := connector.NewInvoker(authztest.Policy(func(*authz.Request) (authz.Decision, error) {
		return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r1"}, nil
	}), []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{Credentials: accounts})
	require.NoError(t, err)
	a, err := mcpadapter.New(inv, as(alice), nil)
	require.NoError(t, err)
	srv := httptest.NewServer(a.HTTP())
	t.Cleanup(srv.Close)
	get := map[string]any{"name": "crm.get", "arguments": map[string]any{"id": "7"}}
	code := func(r map[string]any) any { return at(t, r, "result", "structuredContent", "error", "code") }
	for _, client := range []string{noMode, forms} {
		r := rpc(t, srv.URL, "alice", "tools/call", get, client)
		require.Equal(t, "CONNECTION_REQUIRED", code(r), r)
		require.Contains(t, at(t, r, "result", "content").([]any)[0].(map[string]any)["text"], "https://connect.test/crm", "never in a form")
	}
	r := rpc(t, srv.URL, "alice", "tools/call", get, pages)
	require.Equal(t, "https://connect.test/crm", at(t, r, "result", "inputRequests", "drawbridge_consent", "params", "url"))
	back := with(get, map[string]any{"requestState": at(t, r, "result", "requestState"), "inputResponses": agree("accept")})
	require.Equal(t, "CONNECTION_REQUIRED", code(rpc(t, srv.URL, "alice", "tools/call", back, pages)), "an accept is no account")
	r = rpc(t, srv.URL, "alice", "tools/call", get, pages)
	accounts.connected.Store(true)
	back["requestState"] = at(t, r, "result", "requestState")
	require.Equal(t, "the customer", at(t, rpc(t, srv.URL, "alice", "tools/call", back, pages), "result", "structuredContent", "data"))
}

// unconnected is a broker without an account, until there is one.
type unconnected struct {
	keys
	connected atomic.Bool
}

func (u *unconnected) Resolve(ctx context.Context, r *credential.ResolveRequest) (credential.Resolved, error) {
	if u.connected.Load() {
		return u.keys.Resolve(ctx, r)
	}
	e := toolresult.NewError(toolresult.ConnectionRequired, "the account is not connected")
	e.Connect = &toolresult.ConnectStep{Provider: "crm", URL: "https://connect.test/crm"}
	return credential.Resolved{}, e
}
