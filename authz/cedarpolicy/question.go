package cedarpolicy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cedar-policy/cedar-go"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
)

// asker is what all questions of one request have in common.
type asker struct {
	req       *authz.Request
	users     []cedar.EntityUID // the principal and its ancestors
	actions   []cedar.EntityUID // the action and its ancestors
	tenant    cedar.EntityUID
	connector cedar.EntityUID
	prefix    string // of the ids of the connection's objects

	context *cedar.Record // made when a rule needs it
	user    *cedar.Entity // likewise
}

func newAsker(req *authz.Request, groups []string, actionParents []cedar.EntityUID) (*asker, error) {
	key := req.Principal.Key()
	connector := ConnectorID(key.Tenant, req.Action.Connector)
	a := &asker{
		req:       req,
		tenant:    uid(typeTenant, key.Tenant),
		connector: uid(typeConnector, connector),
		prefix:    connector + "/",
	}
	a.users = append(make([]cedar.EntityUID, 0, 2+len(groups)), uid(typeUser, UserID(key)), a.tenant)
	for _, g := range groups {
		a.users = append(a.users, uid(typeGroup, GroupID(key.Tenant, g)))
	}
	a.actions = append(append(make([]cedar.EntityUID, 0, 1+len(actionParents)), uid(typeAction, req.Action.Capability)), actionParents...)
	for k := range req.Context {
		if slices.Contains(contextNames, k) {
			return nil, fmt.Errorf("cedarpolicy: the request's context has its own %q", k)
		}
	}
	return a, checkFacts(req.Context)
}

// question asks about one resource. It is the [cedar.EntityGetter] of the
// evaluation, so that entities are made only when a rule looks at them.
type question struct {
	*asker
	object    *authz.Object // nil: the connection
	resources []cedar.EntityUID
	resource  *cedar.Entity // made when a rule needs it
}

// about returns the question about an object, or about the connection if o is
// nil.
func (a *asker) about(o *authz.Object) (*question, error) {
	if o == nil {
		return &question{asker: a, resources: []cedar.EntityUID{a.connector, a.tenant}}, nil
	}
	q := &question{asker: a, object: o, resources: make([]cedar.EntityUID, 0, 3+len(o.Parents))}
	q.resources = append(q.resources, uid(o.Type, a.prefix+o.ID))
	for _, p := range o.Parents {
		q.resources = append(q.resources, uid(p.Type, a.prefix+p.ID))
	}
	for _, u := range q.resources {
		if !isName(string(u.Type)) {
			return nil, fmt.Errorf("cedarpolicy: %q cannot be the type of an object: it is no Cedar identifier, or one that this package uses itself", u.Type)
		}
	}
	for _, own := range objectNames {
		if _, ok := o.Attributes[own]; ok {
			return nil, fmt.Errorf("cedarpolicy: an object of type %q has its own attribute %q", o.Type, own)
		}
	}
	q.resources = append(q.resources, a.connector, a.tenant)
	return q, checkFacts(o.Attributes)
}

var (
	contextNames = []string{"purpose", "side_effect", "sensitivity", "account"}
	objectNames  = []string{"id", "tenant", "connector"}
)

// Get implements [cedar.EntityGetter].
func (q *question) Get(u cedar.EntityUID) (cedar.Entity, bool) {
	switch u {
	case q.users[0]:
		if q.user == nil {
			q.user = &cedar.Entity{UID: u, Parents: cedar.NewEntityUIDSet(q.users[1:]...), Attributes: q.userFacts()}
		}
		return *q.user, true
	case q.resources[0]:
		if q.resource == nil {
			q.resource = &cedar.Entity{UID: u, Parents: cedar.NewEntityUIDSet(q.resources[1:]...), Attributes: q.resourceFacts()}
		}
		return *q.resource, true
	case q.actions[0]:
		return cedar.Entity{UID: u, Parents: cedar.NewEntityUIDSet(q.actions[1:]...)}, true
	}
	return cedar.Entity{}, false
}

func (a *asker) userFacts() cedar.Record {
	id := a.req.Principal.Identity()
	facts := cedar.RecordMap{
		"tenant":    cedar.String(id.Tenant),
		"issuer":    cedar.String(id.Issuer),
		"subject":   cedar.String(id.Subject),
		"client":    cedar.String(id.Client),
		"authority": cedar.String(a.req.Principal.Authority()),
		"scopes":    stringSet(a.req.Principal.Scopes()),
	}
	if d := id.Delegation; d != nil {
		facts["delegation"] = cedar.NewRecord(cedar.RecordMap{
			"actor": cedar.String(d.Actor), "run": cedar.String(d.Run), "scopes": stringSet(d.Scopes),
		})
	}
	return cedar.NewRecord(facts)
}

func (q *question) resourceFacts() cedar.Record {
	tenant, name := cedar.String(q.req.Principal.Key().Tenant), cedar.String(q.req.Action.Connector)
	if q.object == nil {
		return cedar.NewRecord(cedar.RecordMap{"tenant": tenant, "name": name, "version": cedar.String(q.req.Action.Version)})
	}
	facts := values(q.object.Attributes, len(objectNames))
	facts["id"], facts["tenant"], facts["connector"] = cedar.String(q.object.ID), tenant, name
	return cedar.NewRecord(facts)
}

func (a *asker) contextFacts() cedar.Record {
	if a.context == nil {
		facts := values(a.req.Context, len(contextNames))
		facts["purpose"] = purpose(a.req.Purpose)
		facts["side_effect"], facts["sensitivity"] = class(a.req.Action.Class)
		facts["account"] = cedar.String(a.req.Account)
		made := cedar.NewRecord(facts)
		a.context = &made
	}
	return *a.context
}

// purpose returns the word for p. One that this package does not know is
// "execute", the strictest.
func purpose(p authz.Purpose) cedar.String {
	switch p {
	case authz.Discover:
		return "discover"
	case authz.Recheck:
		return "recheck"
	case authz.Read:
		return "read"
	}
	return "execute"
}

// class returns the words for both axes, the highest for what nobody
// classified.
func class(c risk.Class) (sideEffect, sensitivity cedar.String) {
	if !c.SideEffect.Known() {
		c.SideEffect = risk.IrreversibleWrite
	}
	if !c.Sensitivity.Known() {
		c.Sensitivity = risk.Secret
	}
	return cedar.String(c.SideEffect.String()), cedar.String(c.Sensitivity.String())
}

var errFact = errors.New("facts are bool, int64, string, time.Time or []string")

func checkFacts(facts map[string]any) error {
	for k, v := range facts {
		switch v.(type) {
		case bool, int64, string, time.Time, []string:
		default:
			return fmt.Errorf("cedarpolicy: fact %q is a %T: %w", k, v, errFact)
		}
	}
	return nil
}

// values turns facts that were checked into Cedar's, with room for more.
func values(facts map[string]any, more int) cedar.RecordMap {
	m := make(cedar.RecordMap, len(facts)+more)
	for k, v := range facts {
		switch v := v.(type) {
		case bool:
			m[cedar.String(k)] = cedar.Boolean(v)
		case int64:
			m[cedar.String(k)] = cedar.Long(v)
		case string:
			m[cedar.String(k)] = cedar.String(v)
		case time.Time:
			m[cedar.String(k)] = cedar.NewDatetime(v)
		case []string:
			m[cedar.String(k)] = stringSet(v)
		}
	}
	return m
}

func stringSet(list []string) cedar.Set {
	set := make([]cedar.Value, len(list))
	for i, s := range list {
		set[i] = cedar.String(s)
	}
	return cedar.NewSet(set...)
}
