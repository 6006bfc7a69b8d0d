package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

const (
	maxAnswer  = 1 << 20         // bytes of a key set
	maxFetch   = 5 * time.Second // one fetch, everything together
	maxKeys    = 128             // in one set
	unknownGap = 30 * time.Second
	retryGap   = 30 * time.Second // after a failed fetch, while there are keys to use
	coldGap    = 5 * time.Second  // after a failed fetch, while there are none
)

// A keySet holds the keys of one issuer. They are fetched by the requests that
// need them: one at a time, and no goroutine of its own. A fetch goes on when
// the client of its request goes away, so that nobody can stop the keys from
// coming by hanging up.
type keySet struct {
	endpoint          *egress.Endpoint
	refresh, maxStale time.Duration
	leeway            time.Duration

	mu       sync.Mutex
	byID     map[string][]jose.JSONWebKey
	fetched  time.Time     // when the fetch began that brought them; zero: there are none
	next     time.Time     // when a scheduled fetch is due
	unknown  time.Time     // when an unknown key may cause the next fetch
	lastErr  error         // of the last fetch, for operators
	underway chan struct{} // closed at the end of a fetch; nil: there is none
}

func newKeySet(p egress.Profile, opts *egress.Options, refresh, maxStale, leeway time.Duration) (*keySet, error) {
	refresh, maxStale = def(refresh, 10*time.Minute), def(maxStale, max(refresh, 24*time.Hour))
	if refresh < time.Minute || refresh > 24*time.Hour {
		return nil, errors.New("the option Refresh must be from 1 min to 24 h; 0 is 10 min")
	}
	if maxStale < refresh || maxStale > 7*24*time.Hour {
		return nil, errors.New("the option MaxStale must be from Refresh to 7 days; 0 is 24 h")
	}
	e, err := newEndpoint(p, opts, maxAnswer)
	if err != nil {
		return nil, err
	}
	return &keySet{endpoint: e, refresh: refresh, maxStale: maxStale, leeway: leeway}, nil
}

// newEndpoint is the way to one document of an issuer.
func newEndpoint(p egress.Profile, opts *egress.Options, bytes int64) (*egress.Endpoint, error) {
	u, err := url.Parse(p.BaseURL)
	switch {
	case err != nil:
		return nil, errors.New("the profile's base URL is no URL")
	case p.Redirects != 0:
		return nil, errors.New("the profile must allow no redirects: what an issuer says comes from the issuer")
	case p.Plaintext && u.Scheme != "https" && !isLoopback(u.Hostname()):
		return nil, errors.New("the profile must be https; http is for loopback")
	case p.Limits.Total > maxFetch || p.Limits.ResponseBytes > bytes:
		return nil, fmt.Errorf("the profile's limits are at most %v and %d bytes", maxFetch, bytes)
	}
	p.Limits.Total = def(p.Limits.Total, maxFetch)
	p.Limits.ResponseBytes = def(p.Limits.ResponseBytes, bytes)
	return egress.New(p, opts)
}

// find returns the keys with an id. issued is when the token claims to have been
// made, which decides only what a refused caller is told.
func (s *keySet) find(ctx context.Context, kid string, issued time.Time) ([]jose.JSONWebKey, *failure) {
	for own := false; ; {
		next := s.look(kid, issued, own)
		switch {
		case next.fetch:
			own = s.fetch(ctx) || own
		case next.wait != nil:
			select {
			case <-next.wait:
			case <-ctx.Done():
				return nil, outage("the caller went away while keys were fetched", retryAfter, ctx.Err())
			}
		default:
			return next.keys, next.failure
		}
	}
}

// A step is what to do next: fetch and look again, wait and look again, or
// return.
type step struct {
	fetch   bool
	wait    <-chan struct{}
	keys    []jose.JSONWebKey
	failure *failure
}

// look says what to do about a key id, which came with a token. own says that
// the caller fetched since. Fetching is for whoever is told to.
//
// Keys that are there are used while somebody else fetches. An id that a fetch
// since it came did not bring is nobody's. One that could have been published since
// the last fetch is not called invalid: the client would throw a good token away.
func (s *keySet) look(kid string, issued time.Time, own bool) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	usable := s.usable(now)
	keys := s.byID[kid]
	switch {
	case s.underway == nil && !now.Before(s.next):
		s.underway = make(chan struct{})
		return step{fetch: true}
	case usable && keys != nil:
		return step{keys: keys}
	case s.underway != nil:
		return step{wait: s.underway}
	case !usable:
		return step{failure: outage("the issuer's keys cannot be fetched", s.next.Sub(now), s.lastErr)}
	case own:
		return step{failure: refused("the key is not the issuer's")}
	case !now.Before(s.unknown):
		s.unknown = now.Add(unknownGap)
		s.underway = make(chan struct{})
		return step{fetch: true}
	case issued.Before(s.fetched.Add(-s.leeway)):
		return step{failure: refused("the key is not the issuer's, or not any more")}
	}
	return step{failure: outage("the key is unknown, and it is too early to fetch keys again", s.unknown.Sub(now), s.lastErr)}
}

func (s *keySet) usable(now time.Time) bool {
	return !s.fetched.IsZero() && now.Before(s.fetched.Add(s.maxStale))
}

// fetch asks for the keys, ends what look began, and reports whether they came.
// A failure leaves the keys that there are.
func (s *keySet) fetch(ctx context.Context) bool {
	began := time.Now()
	keys, err := map[string][]jose.JSONWebKey(nil), errors.New("fetching panicked")
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.underway)
		s.underway, s.lastErr = nil, err
		switch now := time.Now(); {
		case err == nil:
			s.byID, s.fetched, s.next = keys, began, began.Add(s.refresh)
		case s.usable(now):
			s.next = now.Add(retryGap)
		default:
			s.next = now.Add(coldGap)
		}
	}()
	keys, err = s.get(context.WithoutCancel(ctx))
	return err == nil
}

func (s *keySet) get(ctx context.Context) (map[string][]jose.JSONWebKey, error) {
	session := s.endpoint.Open(ctx, nil)
	defer session.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.endpoint.BaseURL(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := session.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("bearer: the issuer answered status %d for its keys", resp.StatusCode)
	}
	return parseKeys(text)
}

// parseKeys reads a JSON Web Key Set (RFC 7517, section 5). Keys that cannot
// verify, are not for it, are too weak or have no id are left out; a set that is
// no set is an error.
func parseKeys(text []byte) (map[string][]jose.JSONWebKey, error) {
	if _, err := strictjson.Parse(text); err != nil {
		return nil, fmt.Errorf("bearer: the issuer's key set: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || set.Keys == nil {
		return nil, errors.New("bearer: the issuer's key set has no list of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("bearer: the issuer's key set has %d keys; the limit is %d", len(set.Keys), maxKeys)
	}
	out := map[string][]jose.JSONWebKey{}
	for _, raw := range set.Keys {
		var use struct {
			Ops []string `json:"key_ops"`
		}
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &use) != nil || k.UnmarshalJSON(raw) != nil || k.KeyID == "" {
			continue
		}
		if (k.Use == "" || k.Use == "sig") && (use.Ops == nil || slices.Contains(use.Ops, "verify")) && family(k.Key) != "" {
			out[k.KeyID] = append(out[k.KeyID], k)
		}
	}
	return out, nil
}
