package check

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
)

// AmbientVariable is one of the environment variables in which [Ambient] puts a
// canary.
const AmbientVariable = "API_TOKEN"

// ambientVariables are where libraries and programs look for a credential on
// their own.
var ambientVariables = [...]string{AmbientVariable, "TOKEN", "ACCESS_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "SLACK_TOKEN", "JIRA_API_TOKEN",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG",
	"NETRC", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"}

// AmbientCanary is what they hold meanwhile.
const AmbientCanary = "ambient-canary-93b1f7"

// ambient is process-wide because what it guards is: the environment and
// http.DefaultTransport. One check at a time has it.
var ambient struct {
	turn sync.Mutex
	once sync.Once
	mu   sync.Mutex
	note func(string)
}

var errTrapped = errors.New("connectortest: a connector uses the client of its call, and no other")

// setTrap puts itself into the dialer of http.DefaultTransport, before the first
// check. Unless a check is watching, it is as if it were not there. The transport
// stays a *http.Transport, because libraries clone it.
func setTrap() {
	ambient.once.Do(func() {
		t, ok := http.DefaultTransport.(*http.Transport)
		if !ok {
			return // the program has put its own there, and nothing of ours goes through it
		}
		next := t.DialContext
		if next == nil {
			next = (&net.Dialer{}).DialContext
		}
		t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			ambient.mu.Lock()
			note := ambient.note
			ambient.mu.Unlock()
			if note == nil {
				return next(ctx, network, addr)
			}
			note(addr)
			return nil, errTrapped
		}
	})
}

// Ambient runs f in an environment full of canaries, and returns the
// addresses that http.DefaultTransport, or a clone of it, was to connect to meanwhile.
func Ambient(f func()) (dialed []string) {
	ambient.turn.Lock()
	defer ambient.turn.Unlock()
	restore := plant()
	defer restore()
	ambient.mu.Lock()
	ambient.note = func(what string) {
		ambient.mu.Lock()
		defer ambient.mu.Unlock()
		dialed = append(dialed, what)
	}
	ambient.mu.Unlock()
	f()
	ambient.mu.Lock()
	defer ambient.mu.Unlock()
	ambient.note = nil
	return dialed
}

func plant() (restore func()) {
	old := map[string]*string{}
	for _, name := range ambientVariables {
		if v, ok := os.LookupEnv(name); ok {
			old[name] = &v
		} else {
			old[name] = nil
		}
		_ = os.Setenv(name, AmbientCanary) // none of the names can be refused
	}
	return func() {
		for name, v := range old {
			if v == nil {
				_ = os.Unsetenv(name)
			} else {
				_ = os.Setenv(name, *v)
			}
		}
	}
}
