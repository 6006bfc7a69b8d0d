package peers

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// Alertmanager starts an Alertmanager in which the day's two critical alerts
// fire, and returns its base URL. It needs the program prometheus-alertmanager
// (Debian package of that name).
func Alertmanager(t testing.TB) string {
	t.Helper()
	program := find(t, "prometheus-alertmanager", "prometheus-alertmanager")[0]
	dir, addr := t.TempDir(), freePort(t)
	write(t, filepath.Join(dir, "am.yml"), "route: {receiver: none, group_by: [alertname, service], group_wait: 0s, group_interval: 1s}\nreceivers: [{name: none}]\n")
	cmd := exec.Command(program, "--config.file=am.yml", "--storage.path=data", "--web.listen-address="+addr, "--cluster.listen-address=", "--log.level=warn")
	cmd.Dir = dir
	s := start(t, dir, cmd)
	base := "http://" + addr
	s.ready(t, base+"/-/ready", nil, http.StatusOK)
	postAlerts(t, base)
	return base
}

func postAlerts(t testing.TB, base string) {
	t.Helper()
	var list []map[string]any
	for _, a := range alr.Alerts() {
		if a.Severity != "critical" {
			continue
		}
		notes := map[string]string{"summary": a.Summary}
		if a.Evidence != "" {
			notes["evidence"], notes["verification_state"] = a.Evidence, a.Verification
		}
		list = append(list, map[string]any{
			"labels":      map[string]string{"alertname": a.Name, "alert_id": a.ID, "service": a.Service, "namespace": a.Namespace, "env": "prod", "severity": a.Severity},
			"annotations": notes, "startsAt": a.Start, "endsAt": "2099-01-01T00:00:00Z", "generatorURL": "http://127.0.0.1:19090/graph",
		})
	}
	body, err := json.Marshal(list)
	if err != nil {
		t.Fatalf("peers: %v", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startWithin}
	resp, err := client.Post(base+"/api/v2/alerts", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatalf("peers: posting the alerts: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("peers: posting the alerts: %s", resp.Status)
	}
}
