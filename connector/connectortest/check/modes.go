package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// LiveVariable is the environment variable that has to hold the connector's id
// before mode InLive touches a real account.
const LiveVariable = "CONNECTORTEST_LIVE"

// livePace is the least time between two requests to a real account.
const livePace = 200 * time.Millisecond

// virtual reports whether time is.
func (m Mode) virtual() bool { return m == InDouble || m == InReplay }

// hold finds the provider of a mode. The error says what the fixture lacks.
func (s *Subject) hold(t *testing.T) error {
	f := s.Fixture
	switch s.Mode {
	case InDouble:
		if f.Double == nil {
			return errors.New("connectortest: Fixture.Double is needed: it makes the provider that the connector talks to")
		}
		s.double = f.Double
	case InReplay:
		if f.Recording == nil {
			return errors.New("connectortest: mode replay needs Fixture.Recording, which Record makes")
		}
		r, err := decodeRecording(f.Recording)
		if err != nil {
			return err
		}
		s.double = func(testing.TB) Double { return &recorded{list: r.Exchanges, next: map[string]int{}} }
	default:
		return s.real(t)
	}
	return nil
}

func (s *Subject) real(t *testing.T) error {
	if s.Fixture.Real == nil {
		return fmt.Errorf("connectortest: mode %s needs Fixture.Real", s.Mode)
	}
	if s.Mode == InLive && os.Getenv(LiveVariable) != s.Manifest.ID {
		return fmt.Errorf("connectortest: mode live reads a real account; say so with %s=%s", LiveVariable, s.Manifest.ID)
	}
	real, err := s.Fixture.Real(t.Context(), t)
	if err != nil {
		return fmt.Errorf("connectortest: the real system cannot be opened: %w", err)
	}
	target, err := url.Parse(real.URL)
	if err != nil || target.Host == "" || real.Token == nil {
		return errors.New("connectortest: Real needs a URL such as https://sandbox.example.com, and a Token")
	}
	if real.Sweep != nil && s.Mode == InSandbox {
		if err := real.Sweep(t.Context(), time.Hour); err != nil {
			return fmt.Errorf("connectortest: what older runs left cannot be swept: %w", err)
		}
		t.Cleanup(func() {
			if err := real.Sweep(context.WithoutCancel(t.Context()), 0); err != nil {
				t.Errorf("connectortest: what this run left cannot be swept: %v", err)
			}
		})
	}
	d := &realDouble{real: real, proxy: &httputil.ReverseProxy{
		Transport:    &http.Transport{TLSHandshakeTimeout: 10 * time.Second},
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	if s.Mode == InLive {
		d.pace = livePace
	}
	s.double = func(testing.TB) Double { return d }
	return nil
}

// realDouble passes requests on to a real system, so that the suite's faults are
// in front of it.
type realDouble struct {
	real  Real
	proxy *httputil.ReverseProxy
	pace  time.Duration

	mu   sync.Mutex
	last time.Time
}

// ServeHTTP implements [Double].
func (d *realDouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.pace > 0 {
		d.mu.Lock()
		if wait := d.pace - time.Since(d.last); wait > 0 {
			time.Sleep(wait)
		}
		d.last = time.Now()
		d.mu.Unlock()
	}
	d.proxy.ServeHTTP(w, r)
}

// Token implements [Double].
func (d *realDouble) Token(tenant, user string) string { return d.real.Token(tenant, user) }

// Snapshot implements [Double].
func (d *realDouble) Snapshot() ([]byte, error) {
	if d.real.Snapshot == nil {
		return nil, errors.New("Real.Snapshot is not set")
	}
	return d.real.Snapshot()
}

// recording is what a provider once answered: a list and not a map, because a
// provider answers the same request differently after a change.
type recording struct {
	Schema    string         `json:"schema"`
	Connector string         `json:"connector"`
	Version   string         `json:"version"`
	Date      string         `json:"date"`
	Mode      Mode           `json:"mode"`
	Exchanges []recordedCall `json:"exchanges"`
}

const recordingSchema = "connectortest/recording/v1"

type recordedCall struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body"`
}

// kept are the headers of an answer that matter to a connector.
var kept = [...]string{"Content-Type", "Link", "Etag", "Retry-After", "X-Request-Id", "X-Total-Count", "Location", "Last-Modified"}

// Record makes the ordinary calls of the samples that read, and returns what the
// provider answered, for Fixture.Recording. It refuses to return anything in
// which a credential is left, or something that looks like one.
func Record(s *Subject, now time.Time) ([]byte, error) {
	out := recording{Schema: recordingSchema, Connector: s.Manifest.ID, Version: s.Manifest.Version, Date: now.UTC().Format(time.DateOnly), Mode: s.Mode}
	for i, o := range s.Ordinary {
		if d := s.Declaration(s.Fixture.Samples[i].Capability); d == nil || d.Kind == "write" {
			continue
		}
		if !o.Works {
			return nil, fmt.Errorf("connectortest: the ordinary call of %s does not work: %s", s.Fixture.Samples[i].Capability, o.Why)
		}
		for _, x := range o.Sent {
			c := recordedCall{Method: x.Method, URL: x.URL, Status: x.Status, Header: map[string]string{}, Body: string(x.Answer)}
			for _, k := range kept {
				if v := x.AnswerHeader.Get(k); v != "" {
					c.Header[k] = v
				}
			}
			out.Exchanges = append(out.Exchanges, c)
		}
	}
	text, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return nil, err
	}
	return text, clean(string(text), s.secrets())
}

func (s *Subject) secrets() []string {
	d := s.double(nil)
	out := slices.Clone(s.Fixture.Canaries)
	for _, who := range [][2]string{{TenantA, Alice}, {TenantA, Carol}, {TenantB, Bob}} {
		out = append(out, d.Token(who[0], who[1]))
	}
	return out
}

// shapes of credentials of well-known kinds.
var shapes = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.eyJ|xox[a-z]-[A-Za-z0-9-]{8,}|gh[a-z]_[A-Za-z0-9]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY|Basic [A-Za-z0-9+/=]{12,}|Bearer [A-Za-z0-9._-]{12,}|AKIA[A-Z0-9]{12,}`)

func clean(text string, secrets []string) error {
	for _, c := range secrets {
		if c != "" && strings.Contains(text, c) {
			return errors.New("connectortest: the recording holds a credential of the suite; it is not returned to be kept")
		}
	}
	if at := shapes.FindStringIndex(text); at != nil {
		return fmt.Errorf("connectortest: the recording holds something that looks like a credential, at byte %d; it is not to be kept", at[0])
	}
	return nil
}

func decodeRecording(text []byte) (*recording, error) {
	var r recording
	if err := json.Unmarshal(text, &r); err != nil || r.Schema != recordingSchema || len(r.Exchanges) == 0 {
		return nil, errors.New("connectortest: Fixture.Recording is not what Record makes")
	}
	for _, c := range r.Exchanges {
		if c.Status < 200 || c.Status > 999 {
			return nil, fmt.Errorf("connectortest: Fixture.Recording has an answer with status %d", c.Status)
		}
	}
	if err := clean(string(text), nil); err != nil {
		return nil, err
	}
	return &r, nil
}

// recorded answers as the provider once did. A request that is not in the
// recording is answered 599, which is no answer of any provider.
type recorded struct {
	mu   sync.Mutex
	list []recordedCall
	next map[string]int
}

// ServeHTTP implements [Double].
func (d *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := r.Method + " " + r.URL.RequestURI()
	var same []recordedCall
	for _, c := range d.list {
		if c.Method+" "+c.URL == key {
			same = append(same, c)
		}
	}
	if len(same) == 0 {
		w.WriteHeader(599)
		_, _ = fmt.Fprintf(w, "the recording has no %s", key)
		return
	}
	c := same[min(d.next[key], len(same)-1)]
	d.next[key]++
	for k, v := range c.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(c.Status)
	_, _ = w.Write([]byte(c.Body))
}

// Token implements [Double].
func (*recorded) Token(tenant, user string) string { return "recorded-token-" + tenant + "-" + user }

// Snapshot implements [Double].
func (*recorded) Snapshot() ([]byte, error) { return nil, errors.New("a recording has no state") }
