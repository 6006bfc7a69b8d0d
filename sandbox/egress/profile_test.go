package egress

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// S3: a profile that is not understood reaches nothing.
func TestNewRefuses_S3(t *testing.T) {
	good := Profile{Name: "tickets", BaseURL: "https://tickets.example.com"}
	_, err := New(good, nil)
	require.NoError(t, err)
	for wrong, spoil := range map[string]func(*Profile){
		"the name must have":  func(p *Profile) { p.Name = "" },
		"the name must be of": func(p *Profile) { p.Name = "a b" },
		"scheme":              func(p *Profile) { p.BaseURL = "http://tickets.example.com" },
		"private range 0":     func(p *Profile) { p.Private = prefixes("0.0.0.0/0") },
		"private range 1":     func(p *Profile) { p.Private = prefixes("10.0.0.0/8", "169.254.0.0/16") },
		"loopback":            func(p *Profile) { p.BaseURL = "https://127.0.0.1" },
		"metadata":            func(p *Profile) { p.BaseURL = "https://169.254.169.254" },
		"no certificate":      func(p *Profile) { p.CA = []byte("hello") },
		"redirects":           func(p *Profile) { p.Redirects = -1 },
		"from 0 to 10":        func(p *Profile) { p.Redirects = 11 },
		"negative":            func(p *Profile) { p.Limits.Total = -time.Second },
		"1 GiB":               func(p *Profile) { p.Limits.ResponseBytes = 2 << 30 },
		"1100":                func(p *Profile) { p.Limits.Ratio = 1 << 40 },
	} {
		p := good
		spoil(&p)
		e, err := New(p, nil)
		require.ErrorContains(t, err, wrong)
		require.Nil(t, e)
	}
}

func TestEndpointIsACopy(t *testing.T) {
	p := Profile{Name: "tickets", BaseURL: "https://tickets.example.com/api/", Private: prefixes("10.0.0.0/8")}
	e, err := New(p, nil)
	require.NoError(t, err)
	p.Private[0] = prefixes("127.0.0.0/8")[0]
	e.Profile().Private[0] = prefixes("127.0.0.0/8")[0]
	require.Equal(t, prefixes("10.0.0.0/8"), e.Profile().Private)
	require.Equal(t, Limits{5 * time.Second, 15 * time.Second, 30 * time.Second, 1 << 20, 8 << 20, 64 << 10, 100}, e.Profile().Limits)
	require.Equal(t, "https://tickets.example.com:443", e.Origin())
	require.Equal(t, "https://tickets.example.com/api", e.BaseURL())

	zero := &Endpoint{}
	zero.CloseIdleConnections()
	require.Empty(t, zero.Origin()+zero.BaseURL())
}

const profilesYAML = `profiles:
  - name: tickets-prod
    base_url: https://tickets.example.com/api
    private: [10.20.0.0/16, "fd12::/16"]
    redirects: 2
    limits:
      total: 20s
      response_bytes: 4194304
  - name: search
    base_url: http://search
    plaintext: true
`

func TestParseProfiles_S3(t *testing.T) {
	got, err := ParseProfiles([]byte(profilesYAML))
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "tickets-prod", got[0].Name)
	require.Equal(t, prefixes("10.20.0.0/16", "fd12::/16"), got[0].Private)
	require.Equal(t, 20*time.Second, got[0].Limits.Total)
	require.Equal(t, int64(4<<20), got[0].Limits.ResponseBytes)
	require.True(t, got[1].Plaintext)
	for _, p := range got {
		_, err := New(p, nil)
		require.NoError(t, err)
	}
	for why, row := range map[string]struct{ from, to, wrong string }{
		"unknown field":   {"redirects: 2", "proxy: x", "line 5"},
		"unknown limit":   {"total: 20s", "totals: 20s", "line 7"},
		"repeated key":    {"redirects: 2", "name: other", "line 5"},
		"no https":        {"plaintext: true", "plaintext: false", "line 9"},
		"wide range":      {"10.20.0.0/16", "0.0.0.0/0", "private range 0"},
		"the same name":   {"name: search", "name: tickets-prod", "is taken"},
		"second document": {"  - name: search", "---\n  - name: search", "yaml"},
		"no profile":      {profilesYAML, "profiles: []\n", "names no profile"},
		"an empty text":   {profilesYAML, "", "yaml"},
		"bad certificate": {"redirects: 2", "ca: hello", "PEM"},
	} {
		got, err := ParseProfiles([]byte(strings.Replace(profilesYAML, row.from, row.to, 1)))
		require.ErrorContains(t, err, row.wrong, why)
		require.Empty(t, got)
	}
}

func FuzzParseProfiles_S3(f *testing.F) {
	f.Add([]byte(profilesYAML))
	f.Add([]byte("profiles: [{name: a, base_url: 'https://u:p@h'}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseProfiles(text)
		if err != nil {
			require.Empty(t, got)
			return
		}
		for _, p := range got {
			_, err := New(p, nil)
			require.NoError(t, err)
		}
	})
}
