// Package cedarpolicy decides by policies written in Cedar
// (https://docs.cedarpolicy.com/), the language of cedar-go.
//
//	policy, err := cedarpolicy.New(map[string][]byte{"tickets.cedar": text}, nil)
//
// # A first policy
//
// A capability is seen before it is called, so a policy answers two questions.
// With Options.Candidates listing the objects, one permit answers both:
//
//	permit (
//	    principal in Group::"acme/on-call",
//	    action == Action::"get_ticket",
//	    resource == project::"acme/tickets/inc"
//	);
//
// Without candidates, discovery asks about the Connector alone, and needs a
// permit of its own:
//
//	permit (principal in Group::"acme/on-call", action == Action::"get_ticket", resource == Connector::"acme/tickets")
//	when { context.purpose == "discover" };
//
// # What a policy sees
//
// The principal is User::"tenant/issuer/subject". Its parents are
// Tenant::"tenant" and a Group::"tenant/name" for each name that
// [Options.Groups] returns. Its attributes are tenant, issuer, subject, client,
// authority, scopes (those that the token and the delegation both hold) and,
// if somebody acts for the subject, delegation (a record of actor, run and
// scopes).
//
// The action is Action::"capability". Its parents are the
// [Options.ActionGroups] that hold the capability.
//
// The resource is an object, type::"tenant/connector/id", or the connection as
// a whole, Connector::"tenant/connector". An object's parents are
// [authz.Object.Parents], the Connector and the Tenant; its attributes are id,
// tenant, connector, and [authz.Object.Attributes]. The type is the
// connector's word and must be a Cedar identifier other than User, Group,
// Tenant, Connector and Action. A Connector has the attributes name, tenant
// and version.
//
// The context has purpose ("execute", "discover", "recheck", "read", "approve"),
// side_effect and sensitivity (the words of authz/risk; an unclassified
// capability shows the highest), account, and [authz.Request.Context].
//
// Tenant, issuer and connector are part of the ids, with "%" and "/" in them
// written as %25 and %2F, so that the first slashes divide the parts and no id
// of one tenant can be read as another's, whatever characters it holds:
// [UserID], [GroupID], [ConnectorID] and [ObjectID] make them. A policy that
// names no tenant holds for all of them.
//
// # Verdicts
//
// A satisfied forbid denies; with @prohibit it is final, and the capability is
// not shown. Else a satisfied permit allows, and nothing else does. A permit
// with @approval("required") allows once a person has approved; where a plain
// permit is satisfied too, the plain one decides, within its own limits. A
// permit with @window("2026-04-29T02:35:00Z/2026-04-29T02:50:00Z") allows the
// objects in that window of time only, and never the whole connection.
//
// If the evaluation of any policy fails, there is no allow: a forbid that fails
// could have been satisfied. Write "resource has owner && resource.owner ==
// ...". The reason of the decision names the policy and its line.
//
// # Objects, searches, discovery
//
// A call with targets is asked object by object, and needs all of them. The
// strictest verdict is that of the call.
//
// A search is asked candidate by candidate, for the candidates of the
// request's types that [Options.Candidates] lists, and its scope is those that
// are allowed. Without candidates it needs a permit on the Connector, and is
// denied while a forbid may apply to some object but not to the Connector: the
// search would see that object. Objects inside a candidate are not asked one by
// one; where a policy tells them apart, list them as candidates.
//
// Discovery asks about the Connector, and shows a capability that is allowed
// there or for any candidate.
//
// # What this package does not do
//
// It loads no files, keeps no entity store, supports no templates, and checks
// no schema: names that are not known are [Policy.Warnings]. It has no idea of
// the current time: a policy that needs it gets it from the request's Context.
// It is no [authz.PolicyWithRevision], because groups and candidates change
// without it.
package cedarpolicy
