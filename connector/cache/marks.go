package cache

import (
	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/cache/generation"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// mark makes the mark of a thing of a tenant.
func mark(tenant string, parts ...string) generation.Mark {
	return generation.Mark(strictjson.Digest(append([]string{"cache mark 1", tenant}, parts...)...))
}

func objectMark(tenant, connector string, id authz.ResourceID) generation.Mark {
	return mark(tenant, "object", connector, id.Type, id.ID)
}

// anyMark is that of everything of a connector: it advances with each object.
func anyMark(tenant, connector string) generation.Mark { return mark(tenant, "any", connector) }

func connectionMark(tenant, connection string) generation.Mark {
	return mark(tenant, "connection", connection)
}
