package connection_test

import (
	"testing"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/connectiontest"
)

func TestMemory_C3(t *testing.T) {
	m := &connection.Memory{}
	connectiontest.Run(t, func(testing.TB) connection.Store { return m })
}
