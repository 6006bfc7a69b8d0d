package fault_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
)

// counting is a provider that counts what it applied.
type counting struct{ applied int }

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	c.applied++
	fmt.Fprintf(w, `{"applied":%d,"body":%q}`, c.applied, b)
}

// Each fault is where it is said to be: the provider applied the request or did
// not, and the client sees what a client of net/http would. T3.
func TestFaults_T3(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   fault.Fault
		applied int
		status  int    // 0: an error
		body    string // prefix
		broken  bool   // the body breaks off
	}{
		{"nothing", fault.Fault{}, 1, 200, `{"applied":1`, false},
		{"lost before the provider saw it", fault.Fault{DropBefore: true}, 0, 0, "", false},
		{"answer lost after the provider applied it", fault.Fault{DropAfter: true}, 1, 0, "", false},
		{"answered in its place", fault.Fault{Status: 503, Body: "no", Header: http.Header{"Retry-After": {"17"}}}, 0, 503, "no", false},
		{"redirected", fault.Fault{Redirect: "http://elsewhere.example/"}, 0, 307, "", false},
		{"delivered twice", fault.Fault{Duplicate: 1}, 2, 200, `{"applied":2`, false},
		{"cut in the body", fault.Fault{Cut: 5}, 1, 200, `{"app`, true},
		{"cut behind the headers", fault.Fault{CutHeaders: true}, 1, 200, "", true},
		{"cut behind the whole body", fault.Fault{Cut: 500}, 1, 200, `{"applied":1`, true},
		{"rewritten", fault.Fault{Rewrite: func(b []byte) []byte { return []byte(strings.ToUpper(string(b))) }}, 1, 200, `{"APPLIED`, false},
		{"large", fault.Fault{Huge: 5}, 1, 200, `     {"app`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &counting{}
			client := &http.Client{Transport: fault.Transport(p, fault.Once(1, c.fault)), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			resp, err := client.Post("http://provider.test/x", "text/plain", strings.NewReader("hello"))
			require.Equal(t, c.applied, p.applied)
			if c.status == 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.status, resp.StatusCode)
			b, err := io.ReadAll(resp.Body)
			require.True(t, strings.HasPrefix(string(b), c.body), "%q", b)
			require.Equal(t, c.broken, errors.Is(err, io.ErrUnexpectedEOF))
		})
	}
}

// What takes time takes virtual time, and ends with the client's context. T3.
func TestSlow_T3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: fault.Transport(&counting{}, fault.Seq(fault.Fault{Delay: time.Hour}, fault.Fault{Pace: time.Minute}, fault.Fault{Hang: true}))}
		start := time.Now()
		resp, err := client.Get("http://provider.test/")
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(start))
		require.NoError(t, resp.Body.Close())

		start = time.Now()
		resp, err = client.Get("http://provider.test/")
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, time.Duration(len(b)+1)*time.Minute, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://provider.test/", nil)
		require.NoError(t, err)
		_, err = client.Do(r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Plans count: for all, for one, from one on, in order, for some requests only.
func TestPlans(t *testing.T) {
	bad := fault.Fault{Status: 500}
	post := &http.Request{Method: http.MethodPost}
	get := &http.Request{Method: http.MethodGet}
	on := fault.On(fault.Methods(http.MethodPost), fault.Once(2, bad))
	for _, c := range []struct {
		name string
		plan fault.Plan
		want []int
	}{
		{"always", fault.Always(bad), []int{1, 2, 3, 4}},
		{"once", fault.Once(2, bad), []int{2}},
		{"from", fault.From(3, bad), []int{3, 4}},
		{"seq", fault.Seq(bad, fault.Fault{}, bad), []int{1, 3}},
		{"the second POST", func(n int, _ *http.Request) fault.Fault {
			if n%2 == 1 {
				return on(n, get)
			}
			return on(n, post)
		}, []int{4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []int
			for n := 1; n <= 4; n++ {
				if !c.plan(n, post).IsZero() {
					got = append(got, n)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A compressed answer is one, whatever the client accepts.
func TestGzip(t *testing.T) {
	client := &http.Client{Transport: fault.Transport(&counting{}, fault.Always(fault.Fault{Gzip: true, Huge: 100_000}))}
	resp, err := client.Get("http://provider.test/")
	require.NoError(t, err)
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	small, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Less(t, len(small), 2000)
	z, err := gzip.NewReader(strings.NewReader(string(small)))
	require.NoError(t, err)
	whole, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Greater(t, len(whole), 100_000)
}

// Every fault has a name for transcripts, and none of them is a secret.
func TestString(t *testing.T) {
	require.Empty(t, fault.Fault{}.String())
	for _, f := range []fault.Fault{{Hang: true}, {DropBefore: true}, {Status: 500, Body: "secret"}, {Redirect: "http://x.example/?token=secret"}, {Duplicate: 1}, {DropAfter: true}, {Cut: 1}, {Pace: 1}, {Huge: 1}, {Gzip: true}} {
		require.NotEmpty(t, f.String())
		require.NotContains(t, f.String(), "secret")
	}
}

func ExampleTransport() {
	provider := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Println("applied"); fmt.Fprint(w, "ok") })
	client := &http.Client{Transport: fault.Transport(provider, fault.Once(1, fault.Fault{DropAfter: true}))}
	_, err := client.Post("http://provider.test/", "text/plain", nil)
	fmt.Println(errors.Is(err, fault.ErrLost))
	// Output:
	// applied
	// true
}
