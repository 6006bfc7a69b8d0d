package connector

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// refForm is what an artifact's name is made of; anything else is replaced by
// its digest.
var refForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func refPart(s string) string {
	if refForm.MatchString(s) {
		return s
	}
	return strictjson.Digest(s)[len("sha256:"):][:16]
}

// keep puts an answer that is over the limit of a result into the artifact
// store.
func (p *path) keep(ctx context.Context, r *toolresult.Result) error {
	if p.v.opts.Artifacts == nil {
		return codeError(toolresult.ResultTooLarge)
	}
	run := p.req.Run
	if run == "" {
		run = p.req.CallID
	}
	k := p.req.Principal.Key()
	meta := &artifact.Meta{
		Ref: artifact.Ref{Run: refPart(run), Name: refPart(p.cap.decl.Name)}, Tenant: k.Tenant, Owner: k, Action: p.action(),
		Scope: p.grant.Scope(), Connection: p.conn.ID, MediaType: "application/json", Expires: time.Now().Add(p.v.opts.ArtifactLife),
	}
	const hardLimit = 64 // times what fits a result
	if err := p.v.opts.Artifacts.Put(ctx, meta, bytes.NewReader(r.Data), hardLimit*p.cap.limits.Bytes); err != nil {
		if toolresult.Code(err) == toolresult.ResultTooLarge {
			return codeError(toolresult.ResultTooLarge)
		}
		return toolresult.WrapError(toolresult.Internal, "the answer is too large for a result, and could not be kept", err)
	}
	r.Data, r.DataRef = nil, meta.Ref.String()
	return nil
}

// ArtifactRequest asks for what is behind a data_ref.
type ArtifactRequest struct {
	Principal authz.Principal
	Ref       artifact.Ref
}

// ReadArtifact authorizes the principal now, for what the artifact was read
// under, and returns its bytes, which the caller closes. Having the ref grants
// nothing: somebody else's, one that is not there and one that may not be read
// any more are all NOT_FOUND. It is safe for concurrent use.
func (v *Invoker) ReadArtifact(ctx context.Context, req *ArtifactRequest) (*artifact.Meta, io.ReadCloser, error) {
	missing := toolresult.NewError(toolresult.NotFound, "there is no such artifact, or none that may be read")
	if req == nil || !vouched(v.trusted, req.Principal) {
		return nil, nil, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known, or its identity is over")
	}
	if v.opts.Artifacts == nil {
		return nil, nil, missing
	}
	meta, body, err := v.opts.Artifacts.Open(ctx, req.Principal.Key().Tenant, req.Ref)
	if err != nil {
		if toolresult.Code(err) == toolresult.NotFound {
			return nil, nil, missing
		}
		return nil, nil, err
	}
	if err := v.mayRead(ctx, req.Principal, meta); err != nil {
		body.Close()
		if toolresult.Code(err) == toolresult.PermissionDenied {
			return nil, nil, missing
		}
		return nil, nil, err
	}
	return meta, body, nil
}

// mayRead asks the policy for as much as the artifact was read under.
func (v *Invoker) mayRead(ctx context.Context, who authz.Principal, meta *artifact.Meta) error {
	target := authz.OnConnection()
	if !meta.Scope.Whole() {
		var objects []authz.Object
		for _, r := range meta.Scope.Resources() {
			objects = append(objects, authz.Object{ResourceID: r.ResourceID})
		}
		target = authz.On(objects...)
	}
	g, err := authz.Authorize(ctx, v.policy, &authz.Request{Principal: who, Action: meta.Action, Purpose: authz.Read, Target: target})
	if err != nil {
		return err
	}
	covered := g.Scope().Whole()
	for _, r := range meta.Scope.Resources() {
		covered = g.Scope().Whole() || g.PermitsDuring(r.Window, r.ResourceID)
		if !covered {
			break
		}
	}
	if !covered || meta.Owner != who.Key() {
		return toolresult.NewError(toolresult.PermissionDenied, "not allowed")
	}
	return nil
}
