package peers

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// Prometheus starts a Prometheus that holds the incident window and returns its
// base URL, such as http://127.0.0.1:9090. It needs the programs prometheus and
// promtool (Debian package prometheus).
func Prometheus(t testing.TB) string {
	t.Helper()
	programs := find(t, "prometheus", "prometheus", "promtool")
	dir, addr := t.TempDir(), freePort(t)
	var window bytes.Buffer
	if err := alr.WriteOpenMetrics(&window); err != nil {
		t.Fatalf("peers: %v", err)
	}
	write(t, filepath.Join(dir, "window.om"), window.String())
	write(t, filepath.Join(dir, "prometheus.yml"), "global: {scrape_interval: 1h}\n")
	run(t, dir, nil, programs[1], "tsdb", "create-blocks-from", "openmetrics", "window.om", "data")
	cmd := exec.Command(programs[0], "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		// the window is long past: nothing may expire
		"--storage.tsdb.retention.time=100y",
		"--web.listen-address="+addr, "--query.max-samples=50000", "--log.level=warn")
	cmd.Dir = dir
	s := start(t, dir, cmd)
	s.ready(t, "http://"+addr+"/-/ready", nil, http.StatusOK)
	return "http://" + addr
}
