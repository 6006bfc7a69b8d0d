// Package writes holds the checks of what changes something or is kept: writes,
// approvals, rate limits, caches, leaks, concurrency, audit, revocation and
// webhooks.
package writes

import (
	"slices"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

// frozen is the set that a solid check belongs to.
const frozen = "2026.12"

// Checks returns them in a fixed order.
func Checks() []check.Check {
	return slices.Concat(changing(), approvals(), rateLimits(), caches(), audits(), leaks(), revocations(), afterwards(), concurrent(), webhooks())
}
