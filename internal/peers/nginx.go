package peers

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Nginx starts an nginx in front of upstream (a base URL) and returns its own.
// Below it
//
//	/plain/...         reaches upstream
//	/lost-receipt/...  reaches upstream and gives up on the answer after 10 ms:
//	                   504, although upstream goes on with the request
//	/limited/...       429 with Retry-After: 1
//	/maintenance/...   503 with Retry-After: 120
//	/elsewhere/...     302 to another port
//	/drop/...          the connection is closed without an answer
//
// Only an upstream that takes longer than 10 ms loses its receipts, such as
// Redmine. It needs the program nginx (Debian package nginx-light).
func Nginx(t testing.TB, upstream string) string {
	t.Helper()
	program := find(t, "nginx-light", "nginx")[0]
	dir, addr := t.TempDir(), freePort(t)
	config := strings.NewReplacer("ADDR", addr, "UPSTREAM", upstream).Replace(nginxConfig)
	write(t, filepath.Join(dir, "nginx.conf"), config)
	cmd := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log"))
	s := start(t, dir, cmd)
	s.ready(t, fmt.Sprintf("http://%s/ready", addr), nil, http.StatusOK)
	return "http://" + addr
}

const nginxConfig = `daemon off;
pid nginx.pid;
worker_processes 1;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
	proxy_set_header Host $http_host;
	server {
		listen ADDR;
		location / { return 404; }
		location = /ready { return 200; }
		location /plain/ { proxy_pass UPSTREAM/; }
		location /lost-receipt/ { proxy_pass UPSTREAM/; proxy_read_timeout 10ms; }
		location /limited/ { add_header Retry-After 1 always; return 429; }
		location /maintenance/ { add_header Retry-After 120 always; return 503; }
		location /elsewhere/ { return 302 http://127.0.0.1:1/; }
		location /drop/ { return 444; }
	}
}
`
