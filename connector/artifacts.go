package connector

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/internal/lazyre"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// refForm is what an artifact's name is made of; anything else is replaced by
// its digest.
var refForm = lazyre.New(`^[A-Za-z0-9._-]{1,64}$`)

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
	CallID    string // as in InvokeRequest
	Principal authz.Principal
	Ref       artifact.Ref
}

// ReadArtifact authorizes the principal now, for what the artifact was read
// under and with the account that it was read with, and returns its bytes, which
// the caller closes. Having the ref grants nothing: somebody else's, one that is
// not there and one that may not be read any more are all NOT_FOUND. Each reading
// is audited. It is safe for concurrent use.
func (v *Invoker) ReadArtifact(ctx context.Context, req *ArtifactRequest) (*artifact.Meta, io.ReadCloser, error) {
	if req == nil {
		req = &ArtifactRequest{}
	}
	p := v.start(&InvokeRequest{CallID: req.CallID, Principal: req.Principal, Surface: "artifact"})
	var meta *artifact.Meta
	var body io.ReadCloser
	r := p.finish(ctx, func(ctx context.Context) *toolresult.Result {
		var err error
		if meta, body, err = p.openArtifact(ctx, req.Ref); err != nil {
			return toolresult.Failure(p.req.CallID, err)
		}
		r := toolresult.Complete(p.req.CallID, nil)
		r.DataRef = req.Ref.String()
		return r
	})
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	return meta, body, nil
}

func noArtifact() error {
	return toolresult.NewError(toolresult.NotFound, "there is no such artifact, or none that may be read")
}

func (p *path) openArtifact(ctx context.Context, ref artifact.Ref) (*artifact.Meta, io.ReadCloser, error) {
	if err := p.principal(ctx); err != nil {
		return nil, nil, err
	}
	if p.v.opts.Artifacts == nil {
		return nil, nil, noArtifact()
	}
	meta, body, err := p.v.opts.Artifacts.Open(ctx, p.req.Principal.Key().Tenant, ref)
	if err != nil {
		if toolresult.Code(err) == toolresult.NotFound {
			err = noArtifact()
		}
		return nil, nil, err
	}
	if err := p.mayRead(ctx, meta); err != nil {
		body.Close()
		if toolresult.Code(err) != toolresult.PolicyUnavailable {
			err = noArtifact()
		}
		return nil, nil, err
	}
	return meta, body, nil
}

// mayRead asks for the account and the rights that the artifact was read with.
// Whose it is comes first: an outage must not tell a stranger that it is there.
func (p *path) mayRead(ctx context.Context, meta *artifact.Meta) error {
	if meta.Owner != p.req.Principal.Key() {
		return noArtifact()
	}
	p.req.Capability, p.req.Connection = meta.Action.Capability, meta.Connection
	if err := p.lookup(ctx); err != nil {
		return err
	}
	if err := p.binding(ctx); err != nil {
		return err
	}
	if p.conn.ID != meta.Connection {
		return noArtifact()
	}
	target := authz.OnConnection()
	if !meta.Scope.Whole() {
		var objects []authz.Object
		for _, r := range meta.Scope.Resources() {
			objects = append(objects, authz.Object{ResourceID: r.ResourceID})
		}
		target = authz.On(objects...)
	}
	p.target = target
	g, err := authz.Authorize(ctx, p.v.policy, p.question(authz.Read))
	if err != nil {
		return err
	}
	p.grant = g
	if g.Scope().Whole() {
		return nil
	}
	if meta.Scope.Whole() {
		return noArtifact()
	}
	for _, r := range meta.Scope.Resources() {
		if !g.PermitsDuring(r.Window, r.ResourceID) {
			return noArtifact()
		}
	}
	return nil
}
