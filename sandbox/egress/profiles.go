package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
)

// file is a file of profiles.
type file struct {
	Profiles []entry `yaml:"profiles"`
}

type entry struct {
	Name      string         `yaml:"name"`
	BaseURL   string         `yaml:"base_url"`
	Plaintext bool           `yaml:"plaintext"`
	Private   []netip.Prefix `yaml:"private"`
	CA        string         `yaml:"ca"`
	Redirects int            `yaml:"redirects"`
	Limits    struct {
		Connect       time.Duration `yaml:"connect"`
		Headers       time.Duration `yaml:"headers"`
		Total         time.Duration `yaml:"total"`
		RequestBytes  int64         `yaml:"request_bytes"`
		ResponseBytes int64         `yaml:"response_bytes"`
		HeaderBytes   int64         `yaml:"header_bytes"`
		Ratio         int           `yaml:"ratio"`
	} `yaml:"limits"`
}

func (e entry) profile() Profile {
	return Profile{
		Name: e.Name, BaseURL: e.BaseURL, Plaintext: e.Plaintext, Private: e.Private, CA: []byte(e.CA),
		Redirects: e.Redirects, Limits: Limits(e.Limits),
	}
}

// ParseProfiles reads profiles from YAML:
//
//	profiles:
//	  - name: tickets-prod
//	    base_url: https://tickets.example.com/api
//	    private: [10.20.0.0/16]
//	    redirects: 2
//	    limits: {total: 20s, response_bytes: 4194304}
//
// The other fields are plaintext, ca (certificates in PEM, not a file's name)
// and the rest of the limits, in the names of [Limits] with underscores. It
// refuses unknown fields, repeated keys, aliases, a second document, two
// profiles with one name and whatever [New] would refuse, each with its line.
func ParseProfiles(text []byte) ([]Profile, error) {
	var f file
	if err := strictyaml.Decode(text, &f); err != nil {
		return nil, fmt.Errorf("egress: profiles: %w", err)
	}
	if len(f.Profiles) == 0 {
		return nil, fmt.Errorf("egress: profiles: %w", strictyaml.At(text, "profiles", "names no profile"))
	}
	var (
		out  []Profile
		errs []error
	)
	names := map[string]bool{}
	for i, e := range f.Profiles {
		p := e.profile()
		err := p.verify()
		if names[p.Name] {
			err = errors.Join(err, errors.New("the name is taken by a profile above"))
		}
		if err != nil {
			errs = append(errs, strictyaml.At(text, fmt.Sprintf("profiles[%d]", i), err.Error()))
		}
		names[p.Name] = true
		out = append(out, p)
	}
	if errs != nil {
		return nil, fmt.Errorf("egress: profiles: %w", errors.Join(errs...))
	}
	return out, nil
}

// verify is what New checks, on a copy.
func (p Profile) verify() error {
	if _, err := p.check(); err != nil {
		return err
	}
	_, err := p.roots()
	return err
}

// roots are the certificates of CA; nil for those of the system.
func (p Profile) roots() (*x509.CertPool, error) {
	if len(p.CA) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p.CA) {
		return nil, errors.New("the CA holds no certificate in PEM")
	}
	return pool, nil
}
