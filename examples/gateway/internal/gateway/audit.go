package gateway

import (
	"context"
	"encoding/json"
	"os"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/connector"
)

// audit is a file of one line an event. Events of changes are on disk before
// Record returns; what is read survives the process, and not the machine.
type audit struct {
	mu sync.Mutex
	f  *os.File
}

func openAudit(file string) (*audit, error) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &audit{f: f}, nil
}

// Record implements [connector.Audit].
func (a *audit) Record(_ context.Context, e *connector.AuditEvent) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.f.Write(append(line, '\n')); err != nil || e.Key == "" {
		return err
	}
	return a.f.Sync()
}

func (a *audit) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Close()
}
