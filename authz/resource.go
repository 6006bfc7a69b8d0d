package authz

import (
	"maps"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// ResourceID names an object of a provider. It is comparable. The type is the
// connector's word ("project", "service"), the id the provider's, byte for
// byte.
type ResourceID struct{ Type, ID string }

// Resource is an object, and when.
type Resource struct {
	ResourceID

	// Window limits what may be read of the object to a span of time. The
	// zero Window is any time. A window without a start or an end, or whose
	// end is before its start, covers nothing.
	Window toolresult.Interval
}

// covers reports whether w lies in the resource's window. A zero w asks for
// the object at any time, which only a resource without a window covers.
func (r Resource) covers(w toolresult.Interval) bool {
	switch {
	case r.Window.IsZero():
		return true
	case !proper(r.Window) || !proper(w):
		return false
	}
	return !w.Start.Before(r.Window.Start) && !w.End.After(r.Window.End)
}

func proper(w toolresult.Interval) bool {
	return !w.Start.IsZero() && !w.End.IsZero() && !w.End.Before(w.Start)
}

// Object is a resource with the facts that a policy may ask about. They come
// from trusted metadata: a target resolver's look-up or the operator's
// configuration, never from arguments.
type Object struct {
	ResourceID
	Version    string         // an ETag or revision; approvals are bound to it
	Parents    []ResourceID   // what contains it, nearest first; a scope that covers one covers it
	Attributes map[string]any // bool, int64, string, time.Time or []string
}

func (o Object) clone() Object {
	o.Parents = slices.Clone(o.Parents)
	o.Attributes = cloneFacts(o.Attributes)
	return o
}

// cloneFacts copies a map of facts with its slices. Values of other types than
// those that are allowed are kept as they are: policies refuse them.
func cloneFacts(facts map[string]any) map[string]any {
	c := maps.Clone(facts)
	for k, v := range c {
		if list, ok := v.([]string); ok {
			c[k] = slices.Clone(list)
		}
	}
	return c
}

// Target is what a call touches. The zero Target is none, and is refused:
// a capability says either which objects, or that it is the whole connection.
// A Target is immutable.
type Target struct {
	objects []Object
	whole   bool
}

// On is a target of the given objects, which it copies. On() is the zero
// Target.
func On(objects ...Object) Target { return Target{objects: cloneObjects(objects)} }

func cloneObjects(objects []Object) []Object {
	c := slices.Clone(objects)
	for i := range c {
		c[i] = c[i].clone()
	}
	return c
}

// OnConnection is everything that the caller's account reaches, for searches
// and for providers without smaller units.
func OnConnection() Target { return Target{whole: true} }

// IsZero reports whether t touches nothing, because nobody said what.
func (t Target) IsZero() bool { return !t.whole && len(t.objects) == 0 }

// Objects returns a copy of the objects, and whether the target is the whole
// connection instead.
func (t Target) Objects() (objects []Object, whole bool) { return cloneObjects(t.objects), t.whole }

// Scope returns exactly what t touches, for a policy that grants what was
// asked for.
func (t Target) Scope() Scope {
	s := Scope{whole: t.whole}
	for _, o := range t.objects {
		s.entries = append(s.entries, Resource{ResourceID: o.ResourceID})
	}
	return s
}

// object returns the object of t with the id.
func (t Target) object(id ResourceID) (Object, bool) {
	i := slices.IndexFunc(t.objects, func(o Object) bool { return o.ResourceID == id })
	if i < 0 {
		return Object{}, false
	}
	return t.objects[i], true
}

// utc removes what does not change the moment: the zone and the monotonic
// reading.
func utc(t time.Time) time.Time { return t.UTC().Round(0) }
