package operationtest_test

import (
	"testing"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/operation/operationtest"
)

func TestMemory_W2_W3_W4(t *testing.T) {
	var m operation.Memory
	operationtest.Run(t, func(testing.TB) operation.Store { return &m }, nil)
}
