// Package pods is a connector for Kubernetes: the pods of one service in a
// namespace.
//
//	c, err := pods.New("cluster", nil)
//
// What is granted is a namespace, as Kubernetes itself does it: a request names
// the namespace in its path, and the service only in a selector, which no route
// can prove. A namespace that the account may not read is an error and never an
// empty list.
//
// # What comes out
//
// A pod's object holds environment variables, and those hold secrets. Nothing of
// it comes out but the members of [Pod]: name, node, phase, readiness, restarts,
// images and when it started.
//
// # Pages
//
// A continue token of Kubernetes is good for any selector; ours is sealed with
// the arguments. A token that is too old is CURSOR_INVALID: the API server offers
// another one for the rest, of another state of the cluster, and a listing of two
// states is none.
//
// # What it does not do
//
// It reads no logs, events or other objects, watches nothing and changes nothing.
// What it reads is the state now: pods that were replaced since an incident are
// not there any more.
package pods

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// List is what kubernetes_get_pods takes.
type List struct {
	Namespace string `json:"namespace" jsonschema:"namespace of the service"`
	Service   string `json:"service" jsonschema:"name of the service"`
}

// Pod is what comes out of a pod.
type Pod struct {
	Name     string     `json:"name"`
	Node     string     `json:"node,omitempty" jsonschema:"missing until it is scheduled"`
	Phase    string     `json:"phase"`
	Ready    bool       `json:"ready"`
	Restarts int        `json:"restarts" jsonschema:"of all containers since the pod was made"`
	Images   []string   `json:"images"`
	Started  *time.Time `json:"started_at,omitempty"`
}

// Options are options of [New]. Nil is the zero value.
type Options struct {
	// Label is the label that holds a service's name. Empty: app.
	Label string
}

// New returns the connector. endpoint names the operator's egress profile.
func New(endpoint string, opts *Options) (connector.Connector, error) {
	l := label("app")
	if opts != nil && opts.Label != "" {
		l = label(opts.Label)
	}
	const name = `{"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$","maxLength":63}`
	return connector.New(
		connector.Info{ID: "pods", Version: "1.0.0", Owner: "platform", ProviderAPIVersion: "v1", Endpoint: endpoint,
			Auth: connector.Auth{Mode: connector.AuthServiceAccount}, Rules: rules},
		connector.List(connector.ListSpec{
			Spec: connector.Spec{
				Name: "kubernetes_get_pods", Title: "Pods of a service",
				Description: "Lists the pods of one service as they are now. It says nothing about pods that are gone.",
				Sensitivity: risk.Internal,
				Routes: []connector.Route{{Pattern: "GET " + listPath, Effect: connector.Reads,
					Touches: []string{"namespace:{namespace}"}, Params: []string{"labelSelector", "limit", "continue"}}},
				Input:  json.RawMessage(`{"properties":{"namespace":` + name + `,"service":` + name + `}}`),
				Limits: connector.Limits{PageSize: 100},
			},
			More: provider.Pointer("/metadata/continue"),
		}, connector.ByArgs(func(in List) authz.ResourceID { return authz.ResourceID{Type: "namespace", ID: in.Namespace} }), l.list))
}

const listPath = "/api/v1/namespaces/{namespace}/pods"

// label is the name of the label that holds a service's name.
type label string

func (l label) list(ctx context.Context, c *connector.ReadCall, in List, page connector.PageRequest) (*connector.Page[Pod], error) {
	p := connector.Params{"namespace": in.Namespace, "labelSelector": string(l) + "=" + in.Service, "limit": strconv.Itoa(page.Size)}
	if token, later := page.From.Token(); later {
		p["continue"] = token
	}
	var body struct {
		Metadata struct{ Continue, ResourceVersion string }
		Items    []pod
	}
	if _, err := c.Get(ctx, listPath, p, &body); err != nil {
		return nil, err
	}
	next := cursor.End()
	if body.Metadata.Continue != "" {
		next = cursor.At(body.Metadata.Continue)
	}
	out := connector.NewPage(make([]Pod, len(body.Items)), next)
	for i, x := range body.Items {
		out.Items[i] = x.out()
	}
	out.Source = connector.Source{Object: "pods of " + in.Namespace, Version: body.Metadata.ResourceVersion}
	return out, nil
}

// pod is what is read of a pod. Its environment is not among it.
type pod struct {
	Metadata struct{ Name string }
	Spec     struct{ NodeName string }
	Status   struct {
		Phase      string
		StartTime  *time.Time
		Conditions []struct{ Type, Status string }
		Containers []struct {
			Image        string
			RestartCount int
		} `json:"containerStatuses"`
	}
}

func (p pod) out() Pod {
	out := Pod{Name: p.Metadata.Name, Node: p.Spec.NodeName, Phase: p.Status.Phase, Started: p.Status.StartTime, Images: []string{}}
	for _, c := range p.Status.Conditions {
		out.Ready = out.Ready || c.Type == "Ready" && c.Status == "True"
	}
	for _, c := range p.Status.Containers {
		out.Restarts += c.RestartCount
		out.Images = append(out.Images, c.Image)
	}
	return out
}

// rules read Status objects. Answers of the layers in front of the API, such as
// 429, are plain text, and are left to the rules of HTTP.
func rules(r *provider.Response) (provider.Ruling, bool) {
	var body struct{ Kind, Reason, Message string }
	err := json.Unmarshal(r.Body, &body)
	if r.Status == 200 {
		return provider.Ruling{OK: err == nil && body.Kind == "PodList", Text: body.Message, ProviderCode: body.Reason}, true
	}
	if err != nil || body.Kind != "Status" {
		return provider.Ruling{}, false
	}
	v := provider.Classify(nil, r)
	v.ProviderCode, v.Text = body.Reason, body.Message
	if r.Status == 410 {
		v.Code = toolresult.CursorInvalid
	}
	return v, true
}
