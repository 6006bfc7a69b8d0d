package window_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/internal/window"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func at(minute int) time.Time { return time.Date(2026, 4, 29, 2, minute, 0, 0, time.UTC) }

func span(from, to int) toolresult.Interval {
	return toolresult.Interval{Start: at(from), End: at(to)}
}

func TestAsked(t *testing.T) {
	w, err := window.Asked(at(35).In(time.FixedZone("", 8*3600)), at(50), time.Hour)
	require.NoError(t, err)
	require.Equal(t, span(35, 50), w, "in UTC")
	for why, w := range map[string]toolresult.Interval{"backwards": span(50, 35), "empty": span(35, 35), "too long": span(0, 16)} {
		_, err := window.Asked(w.Start, w.End, 15*time.Minute)
		require.ErrorIs(t, err, toolresult.InvalidInput, why)
	}
	_, err = window.Asked(time.Time{}, at(0), time.Hour)
	require.ErrorIs(t, err, toolresult.InvalidInput, "long ago")
}

func TestGranted_A6(t *testing.T) {
	orders, other := authz.ResourceID{Type: "service", ID: "prod/order-service"}, authz.ResourceID{Type: "service", ID: "prod/payment"}
	during := func(from, to int) authz.Resource { return authz.Resource{ResourceID: orders, Window: span(from, to)} }
	for _, row := range []struct {
		why   string
		scope authz.Scope
		want  toolresult.Interval
		cut   bool
	}{
		{"granted at any time", authz.Only(orders), span(30, 50), false},
		{"granted for longer", authz.OnlyDuring(during(20, 59)), span(30, 50), false},
		{"granted for the middle", authz.OnlyDuring(during(35, 40)), span(35, 40), true},
		{"granted for the end", authz.OnlyDuring(during(45, 59)), span(45, 50), true},
		{"two windows", authz.OnlyDuring(during(20, 32), during(40, 59)), span(40, 50), true},
		{"another time: the transport refuses it", authz.OnlyDuring(during(10, 20)), span(30, 50), false},
		{"another object: likewise", authz.OnlyDuring(during(10, 20), authz.Resource{ResourceID: other, Window: span(35, 40)}), span(30, 50), false},
	} {
		alice, _ := authztest.Principal(t, "acme", "alice")
		g, err := authz.Authorize(t.Context(), authztest.AllowScope(row.scope), &authz.Request{Principal: alice, Target: authz.On(authz.Object{ResourceID: orders})})
		require.NoError(t, err)
		part, missing := window.Granted(g, span(30, 50), orders)
		require.Equal(t, row.want, part, row.why)
		require.Equal(t, row.cut, len(missing) > 0, row.why)
	}
}
