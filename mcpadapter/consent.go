package mcpadapter

import (
	"context"
	"log/slog"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// The name of the question that the adapter asks itself.
const consentKey = "drawbridge_consent"

// consent completes a result that only a person can help, and returns what to
// ask the client's user. It is nil if there is nothing to ask, if that was asked
// before in this call, or if the client cannot ask it: then the result with its
// link is the answer.
//
// What the client answers proves nothing: the call is made again, and the
// accounts and approvals say what has changed.
func (d *dialogue) consent(ctx context.Context, r *toolresult.Result) mcp.InputRequestMap {
	e := r.Error
	switch {
	case e == nil:
		return nil
	case e.Connect != nil && e.Connect.URL != "":
		return d.page("connect:"+e.Connect.Provider, e.Connect.URL, "An account has to be connected, or needs further rights, before this can be done.")
	case e.Code != toolresult.ApprovalRequired || e.Approval == nil:
		return nil
	}
	if e.Approval.URL == "" && d.a.opts.ApprovalURL != nil {
		step := *e.Approval
		step.URL = d.a.opts.ApprovalURL(ctx, d.who, step.ID)
		e.Approval = &step
	}
	if e.Approval.URL != "" && d.can("url") {
		return d.page("approve:"+e.Approval.ID, e.Approval.URL, "A person has to approve this change before it is made.")
	}
	return d.yesOrNo(ctx, e.Approval)
}

// page sends the user to a page, once.
func (d *dialogue) page(what, url, text string) mcp.InputRequestMap {
	if !d.can("url") || checkURL(url) != nil || slices.Contains(d.state.Asked, what) {
		return nil
	}
	d.state.Asked = append(d.state.Asked, what)
	d.state.Approval, d.state.Digest = "", ""
	return mcp.InputRequestMap{consentKey: &mcp.ElicitParams{Mode: "url", Message: text, URL: url, ElicitationID: newCallID()}}
}

// yesOrNo shows the change to a user who may approve it, and to no other: a
// client's accept from somebody else would mean nothing.
func (d *dialogue) yesOrNo(ctx context.Context, step *toolresult.ApprovalStep) mcp.InputRequestMap {
	what := "accept:" + step.ID
	if !d.can("form") || slices.Contains(d.state.Asked, what) || step.Rendering == "" {
		return nil
	}
	if a, err := d.a.inv.MayApprove(ctx, d.who, step.ID); err != nil || a.Statement.Digest() != step.Digest || a.Rendering != step.Rendering {
		return nil // what was cut is for a page that shows all of it
	}
	d.state.Asked = append(d.state.Asked, what)
	d.state.Approval, d.state.Digest = step.ID, step.Digest
	return mcp.InputRequestMap{consentKey: &mcp.ElicitParams{Mode: "form",
		Message:         "Do you approve this change? It is made exactly as shown:\n\n" + step.Rendering,
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}}
}

// accepted turns a client's accept into an approval if policy says that its user
// may approve, and returns the approval's id. Without a good state there was no
// such question, and an answer to it is nobody's.
func (d *dialogue) accepted(ctx context.Context) string {
	id := d.state.Approval
	if id == "" {
		return ""
	}
	answer, _ := d.responses[consentKey].(*mcp.ElicitResult)
	delete(d.responses, consentKey)
	if answer == nil || answer.Action != "accept" {
		return ""
	}
	if _, err := d.a.inv.Approve(ctx, &connector.ApproveRequest{Principal: d.who, ID: id, Digest: d.state.Digest}); err != nil {
		d.a.log(ctx, "an accept of a client was no approval", slog.String("error", err.Error()))
		return ""
	}
	return id
}
