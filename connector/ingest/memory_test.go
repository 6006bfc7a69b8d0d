package ingest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/connector/ingest"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest/ingesttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory_P6(t *testing.T) {
	var m ingest.Memory
	ingesttest.Run(t, func(testing.TB) ingest.Index { return &m })
}
