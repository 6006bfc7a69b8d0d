// Package providers holds small servers, each an [http.Handler], that answer as
// the systems of the incident example do: Prometheus, Alertmanager and an alert
// history, Loki, the Kubernetes API, GitHub deployments, Redmine and a runbook
// store. They hold the data of package internal/alr.
//
// # Why they exist
//
// The examples must run from one command, without a network and without an
// installation, and the tests must be able to lose an answer at the worst
// moment. A connector that works against these works against the real server
// as far as the captures and the differential tests reach: the files under
// testdata were received from real servers, whose name and version are the
// folder's name, and the tests hold the answers against them byte for byte where
// the data are the same. The tests of this package also run the same requests
// against a real Prometheus, Alertmanager and Redmine where they are installed.
//
// GitHub is the exception: no server of it was reachable. [GitHub] follows the
// published OpenAPI description.
//
// # What they share
//
// Each provider embeds [Wire]: it counts the requests that arrived, can be told
// to be slow, to answer once with an error, and to lose the receipt of a change
// after the change was made. A nil options pointer gives the incident as it was.
// All methods may be called at any time, from any goroutine.
//
// # What they do not do
//
// They are doubles, and a result that they gave must be labelled as one. They
// evaluate no query language beyond what each type documents, keep nothing on
// disk, compress no answer, speak no TLS, and none listens by itself: put one
// behind an [net/http/httptest.Server] or an [http.Server].
package providers
