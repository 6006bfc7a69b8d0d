package writes

import (
	"context"
	"fmt"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func afterwards() []check.Check {
	return []check.Check{
		{
			ID: "revoke/rotated-token-kept", Since: frozen, Needs: needsConsent, Kills: []string{"rotation-lost", "unstored-token-used"},
			Promise: "A refresh token that the issuer has replaced is kept before the new one is used: a host that dies loses no account.",
			Run:     inOffice(runRotated),
		},
		{
			ID: "revoke/disconnect-revokes", Since: frozen, Needs: needsConsent, Kills: []string{"disconnect-local-only"},
			Promise: "Disconnecting an account ends its tokens at the issuer, also if the issuer fails the first time.",
			Run:     inOffice(runDisconnect),
		},
		{
			ID: "revoke/stops-background", Since: frozen, Needs: check.NeedsCredential, Kills: []string{"poller-survives"},
			Promise: "After an account is disconnected nothing goes on by itself: no request in the day that follows.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					s.WantData(c, s.Do(ctx, c))
				}
				s.Broker.Disconnect(check.TenantA, check.Alice)
				n := s.Requests()
				s.Wait(24 * time.Hour)
				got := s.Requests() - n
				s.Expect(got == 0, fmt.Sprintf("%d requests in the day after the account was disconnected", got), "none")
				for _, c := range s.Calls() {
					s.WantCode(c, s.Do(ctx, c), toolresult.ConnectionRequired)
				}
			},
		},
	}
}
