package webhook_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook/webhooktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory_P5(t *testing.T) {
	var m webhook.Memory
	webhooktest.Run(t, func(testing.TB) webhook.Inbox { return &m })
}
