package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Config is what an operator says. All replicas get the same file, and differ in
// their flags only. It holds secrets: a real one has them mounted from elsewhere.
type Config struct {
	// Public is the URL that clients call, which their tokens are for.
	Public string

	// DSN is the connection string of a PostgreSQL. Empty: an SQLite file in
	// Dir, which the replicas of one machine can share.
	DSN string
	// Dir holds the audit log of each replica, and the SQLite file.
	Dir string

	// Keys seal tokens, stored arguments, cursors and what travels through
	// clients; Key names the one that is used for new ones. 32 bytes each.
	Key  string
	Keys map[string][]byte

	// Issuer is the authorization server of the callers, which is asked about
	// each token at /introspect.
	Issuer string
	// People are who may call: their tenant and groups by subject. A real
	// gateway asks a directory.
	People map[string]Person

	// Provider is the base URL of the provider's host, and ProviderIssuer what
	// its authorization server calls itself.
	Provider, ProviderIssuer string
	// Client, ClientSecret and Return are the gateway's registration at both
	// authorization servers.
	Client, ClientSecret, Return string
	// ConnectPage is where people connect accounts; the id of the transaction is
	// appended. See authz/connection/connectpage.
	ConnectPage string

	// WriteTimeout and Settle replace those of the ticket connector: how long a
	// change may take, and how long after that its effect could still be hidden.
	// 0: as declared.
	WriteTimeout, Settle Duration

	// Grace is how long a replica that is to end goes on serving, so that whoever
	// sends it requests can notice; Drain how long calls have after that. 0: 3 s
	// and 30 s.
	Grace, Drain Duration
}

// Person is what a directory knows of a caller.
type Person struct {
	Tenant string
	Groups []string
}

// Duration is a [time.Duration] that JSON has as "1.5s".
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err == nil && v < 0 {
		err = errors.New("negative")
	}
	*d = Duration(v)
	return err
}

// Load reads a configuration. No value of it is in an error.
func Load(file string) (*Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	c := &Config{}
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("gateway: the configuration %s is not JSON of the fields of Config, at byte %d", file, d.InputOffset())
	}
	return c, c.check()
}

func (c *Config) check() error {
	var errs []error
	for name, value := range map[string]string{"Public": c.Public, "Dir": c.Dir, "Key": c.Key, "Issuer": c.Issuer, "Provider": c.Provider,
		"ProviderIssuer": c.ProviderIssuer, "Client": c.Client, "ClientSecret": c.ClientSecret, "Return": c.Return, "ConnectPage": c.ConnectPage} {
		if value == "" {
			errs = append(errs, fmt.Errorf("gateway: the configuration needs %s", name))
		}
	}
	if len(c.Keys[c.Key]) != 32 {
		errs = append(errs, errors.New("gateway: the configuration needs a key of 32 bytes that Key names"))
	}
	for name, p := range c.People {
		if p.Tenant == "" || name == "" {
			errs = append(errs, errors.New("gateway: somebody in People has no tenant or no name"))
		}
	}
	return errors.Join(errs...)
}

func (d Duration) or(otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}
