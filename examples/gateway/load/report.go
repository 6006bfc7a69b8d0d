package main

import (
	"fmt"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

func postgres(h testing.TB) string { return peers.PostgreSQL(h) }

// report is the line.
type report struct {
	Seconds  float64          `json:"seconds"`
	Store    string           `json:"store"`
	People   int              `json:"people"`
	Replicas int              `json:"replicas"`
	Killed   int              `json:"killed"`
	Releases map[string]int64 `json:"requests_by_release"`

	Reads       int64              `json:"reads"`
	Refused     int64              `json:"refused_foreign"` // somebody else's cursors and operations
	Unavailable int64              `json:"unanswered"`      // requests without an answer, or 502 or 503
	Excused     map[string]int     `json:"failed_by_code"`  // calls that said honestly that they could not be made
	P50         map[string]float64 `json:"p50_ms"`
	P99         map[string]float64 `json:"p99_ms"`

	Changes     int   `json:"changes"`
	Applied     int   `json:"applied"`
	Vanished    int   `json:"changes_unanswered"` // of which some call was not answered
	Hasty       int64 `json:"given_up_early"`     // calls whose client did not wait for the answer
	Late        int64 `json:"token_ended_on_the_way"`
	Replays     int64 `json:"replays"` // repeated with the same key after they were done
	Lost        int   `json:"lost"`
	Doubled     int   `json:"doubled"`
	Misreported int   `json:"misreported"`
	Unresolved  int   `json:"unresolved"`
	Phantom     int   `json:"phantom"`

	Refreshes int `json:"refreshes"`
	Expiries  int `json:"expiries"`
	Retried   int `json:"retried_after_kill"`
	Consents  int `json:"consents_after_kill"`
	Early     int `json:"early"`
	Repeated  int `json:"repeated"`

	CrossPrincipal int64  `json:"cross_principal"`
	Wrong          int64  `json:"wrong"`
	First          string `json:"first_wrong,omitempty"`
	Unclean        int    `json:"unclean"`
	Leaked         int    `json:"leaked"`
}

// wrong lists what must not be, and what must have happened and did not.
func (r *report) wrong() (out []string) {
	for name, n := range map[string]int64{
		"lost": int64(r.Lost), "doubled": int64(r.Doubled), "misreported": int64(r.Misreported), "unresolved": int64(r.Unresolved), "phantom": int64(r.Phantom),
		"early": int64(r.Early), "repeated": int64(r.Repeated), "cross_principal": r.CrossPrincipal, "wrong": r.Wrong, "unclean": int64(r.Unclean), "leaked": int64(r.Leaked),
	} {
		if n != 0 {
			out = append(out, fmt.Sprintf("%s: %d", name, n))
		}
	}
	if r.Refreshes != r.Expiries+r.Retried {
		out = append(out, "refreshes that no expiry explains")
	}
	for name, happened := range map[string]bool{
		"reads": r.Reads > 0, "changes": r.Applied > 0, "expiries": r.Expiries > 0, "kills": r.Killed > 0, "refusals": r.Refused > 0,
		"both releases": len(r.Releases) == 2,
	} {
		if !happened {
			out = append(out, "none happened: "+name)
		}
	}
	return out
}
