package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// How long a comparison of the double with the real system is believed.
const (
	StaleAfter   = 90 * 24 * time.Hour  // from then on there is a warning
	ExpiredAfter = 180 * 24 * time.Hour // from then on core checks that pass are inconclusive
)

const comparedSchema = "connectortest/double/v1"

// Compared is what a comparison of a double with the real system found. It is
// kept as JSON in testdata/double.json, for Fixture.Compared.
type Compared struct {
	Schema      string   `json:"schema"`
	Connector   string   `json:"connector"`
	Date        string   `json:"date"`      // 2026-11-30
	Exchanges   int      `json:"exchanges"` // that were compared
	Differences []string `json:"differences"`
}

// DecodeCompared reads testdata/double.json.
func DecodeCompared(text []byte) (*Compared, error) {
	var c Compared
	if err := json.Unmarshal(text, &c); err != nil || c.Schema != comparedSchema || c.Exchanges <= 0 {
		return nil, errors.New("connectortest: Fixture.Compared is not what CompareDouble gives")
	}
	if _, err := time.Parse(time.DateOnly, c.Date); err != nil {
		return nil, fmt.Errorf("connectortest: Fixture.Compared has the date %q", c.Date)
	}
	return &c, nil
}

// Age is how long ago the comparison was made, or negative if it is of the
// future.
func (c *Compared) Age(now time.Time) time.Duration {
	at, err := time.Parse(time.DateOnly, c.Date)
	if err != nil {
		return ExpiredAfter + 1
	}
	return now.Sub(at)
}

// Trust says in a sentence how far the double can be believed.
func (c *Compared) Trust(now time.Time) string {
	if c == nil {
		return "Double only: it was never compared with the real system."
	}
	text := fmt.Sprintf("Compared with the real system on %s: %d exchanges, %d differences", c.Date, c.Exchanges, len(c.Differences))
	if c.Stale(now) {
		text += fmt.Sprintf("; that is stale since it is older than %d days", int(StaleAfter.Hours()/24))
	}
	return text + "."
}

// Stale reports whether it is older than [StaleAfter], or of the future.
func (c *Compared) Stale(now time.Time) bool {
	age := c.Age(now)
	return age > StaleAfter || age < -48*time.Hour
}

// Expired reports whether it is older than [ExpiredAfter], or of the future.
func (c *Compared) Expired(now time.Time) bool {
	age := c.Age(now)
	return age > ExpiredAfter || age < -48*time.Hour
}
