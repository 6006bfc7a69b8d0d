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
	names     map[string]bool   // the attributes that policies mention: others are left out
	users     []cedar.EntityUID // the principal and its ancestors
	actions   []cedar.EntityUID // the action and its ancestors
	tenant    cedar.EntityUID
	connector cedar.EntityUID
	prefix    string // of the ids of the connection's objects

	user *cedar.Entity // made when a rule needs it
}

func newAsker(set *ruleset, req *authz.Request, groups []string) (*asker, error) {
	key := req.Principal.Key()
	connector := ConnectorID(key.Tenant, req.Action.Connector)
	a := &asker{
		req:       req,
		names:     set.names,
		tenant:    uid(typeTenant, key.Tenant),
		connector: uid(typeConnector, connector),
		prefix:    connector + "/",
	}
	a.users = append(make([]cedar.EntityUID, 0, 2+len(groups)), uid(typeUser, UserID(key)), a.tenant)
	for _, g := range groups {
		a.users = append(a.users, uid(typeGroup, GroupID(key.Tenant, g)))
	}
	parents := set.actions[req.Action.Capability]
	a.actions = append(append(make([]cedar.EntityUID, 0, 1+len(parents)), uid(typeAction, req.Action.Capability)), parents...)
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
	p := a.req.Principal
	var id authz.Identity
	if a.names == nil || a.names["delegation"] || a.names["client"] {
		id = p.Identity()
	}
	key, facts := p.Key(), record{a.names, cedar.RecordMap{}}
	facts.text("tenant", key.Tenant)
	facts.text("issuer", key.Issuer)
	facts.text("subject", key.Subject)
	facts.text("client", id.Client)
	facts.text("authority", p.Authority())
	if facts.wants("scopes") {
		facts.m["scopes"] = stringSet(p.Scopes())
	}
	if d := id.Delegation; d != nil && facts.wants("delegation") {
		facts.m["delegation"] = cedar.NewRecord(cedar.RecordMap{
			"actor": cedar.String(d.Actor), "run": cedar.String(d.Run), "scopes": stringSet(d.Scopes),
		})
	}
	return cedar.NewRecord(facts.m)
}

func (q *question) resourceFacts() cedar.Record {
	facts := record{q.names, cedar.RecordMap{}}
	facts.text("tenant", q.req.Principal.Key().Tenant)
	if q.object == nil {
		facts.text("name", q.req.Action.Connector)
		facts.text("version", q.req.Action.Version)
		return cedar.NewRecord(facts.m)
	}
	facts.text("id", q.object.ID)
	facts.text("connector", q.req.Action.Connector)
	facts.add(q.object.Attributes)
	return cedar.NewRecord(facts.m)
}

// contextFacts returns the context, with all its attributes if a rule compares
// it as a whole.
func (a *asker) contextFacts(whole bool) cedar.Record {
	facts := record{a.names, cedar.RecordMap{}}
	if whole {
		facts.names = nil
	}
	sideEffect, sensitivity := class(a.req.Action.Class)
	facts.text("purpose", purpose(a.req.Purpose))
	facts.text("side_effect", sideEffect)
	facts.text("sensitivity", sensitivity)
	facts.text("account", a.req.Account)
	facts.add(a.req.Context)
	return cedar.NewRecord(facts.m)
}

// purpose returns the word for p. One that this package does not know is
// "execute", the strictest.
func purpose(p authz.Purpose) string {
	switch p {
	case authz.Discover:
		return "discover"
	case authz.Recheck:
		return "recheck"
	case authz.Read:
		return "read"
	case authz.Approve:
		return "approve"
	}
	return "execute"
}

// class returns the words for both axes, the highest for what nobody
// classified.
func class(c risk.Class) (sideEffect, sensitivity string) {
	if !c.SideEffect.Known() {
		c.SideEffect = risk.IrreversibleWrite
	}
	if !c.Sensitivity.Known() {
		c.Sensitivity = risk.Secret
	}
	return c.SideEffect.String(), c.Sensitivity.String()
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

// record collects attributes, of which it keeps those that names holds; all if
// names is nil.
type record struct {
	names map[string]bool
	m     cedar.RecordMap
}

func (r record) wants(name string) bool { return r.names == nil || r.names[name] }

func (r record) text(name, value string) {
	if r.wants(name) {
		r.m[cedar.String(name)] = cedar.String(value)
	}
}

// add adds facts that were checked.
func (r record) add(facts map[string]any) {
	for k, v := range facts {
		if !r.wants(k) {
			continue
		}
		switch v := v.(type) {
		case bool:
			r.m[cedar.String(k)] = cedar.Boolean(v)
		case int64:
			r.m[cedar.String(k)] = cedar.Long(v)
		case string:
			r.m[cedar.String(k)] = cedar.String(v)
		case time.Time:
			r.m[cedar.String(k)] = cedar.NewDatetime(v)
		case []string:
			r.m[cedar.String(k)] = stringSet(v)
		}
	}
}

func stringSet(list []string) cedar.Set {
	set := make([]cedar.Value, len(list))
	for i, s := range list {
		set[i] = cedar.String(s)
	}
	return cedar.NewSet(set...)
}
