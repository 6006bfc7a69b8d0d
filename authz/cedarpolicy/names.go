package cedarpolicy

import (
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// The entity types of this package. No object may have them.
const (
	typeUser      = "User"
	typeGroup     = "Group"
	typeTenant    = "Tenant"
	typeConnector = "Connector"
	typeAction    = "Action"
)

// builtin holds for each of them how many slashes an id has at least.
var builtin = map[cedar.EntityType]int{typeUser: 2, typeGroup: 1, typeTenant: 0, typeConnector: 1, typeAction: 0}

// objectSlashes is the same for objects.
const objectSlashes = 2

// UserID returns the id of a principal's User entity, "tenant/issuer/subject".
func UserID(key authz.PrincipalKey) string {
	return escape(key.Tenant) + "/" + escape(key.Issuer) + "/" + key.Subject
}

// GroupID returns the id of a Group entity, "tenant/name".
func GroupID(tenant, name string) string { return escape(tenant) + "/" + name }

// ConnectorID returns the id of a Connector entity, "tenant/connector".
func ConnectorID(tenant, connector string) string { return escape(tenant) + "/" + escape(connector) }

// ObjectID returns the id of an object's entity, "tenant/connector/id".
func ObjectID(tenant, connector, id string) string {
	return ConnectorID(tenant, connector) + "/" + id
}

// escape writes a part so that it holds no slash. It is injective.
func escape(part string) string {
	if !strings.ContainsAny(part, "%/") {
		return part
	}
	return strings.ReplaceAll(strings.ReplaceAll(part, "%", "%25"), "/", "%2F")
}

func uid(typ, id string) cedar.EntityUID {
	return cedar.NewEntityUID(cedar.EntityType(typ), cedar.String(id))
}

// isName reports whether typ can be the type of an object: a Cedar identifier
// that this package does not use itself.
func isName(typ string) bool {
	for i, c := range []byte(typ) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	_, taken := builtin[cedar.EntityType(typ)]
	return typ != "" && !taken
}
