// Package alr is the incident ALR-20260429-017 as data: what each provider of
// the incident example knows about the 45 minutes from 02:20Z to 03:05Z on
// 2026-04-29.
//
// There is one table, so that the providers embedded in the examples and the
// real servers started by internal/peers tell the same story:
//
//	02:33Z  the rollout of order-service 1.42.0 begins in namespace prod
//	02:35Z  the rollout is complete
//	02:37Z  P95 of order-service goes from 210 ms to 2.1 s; the log shows
//	        timeouts of payment-client; payment itself answers as before
//	02:49Z  the last slow sample
//
// Beside prod there is a second tenant, whose namespace is secret. Its data
// carry [Canary], a text and a number that appear nowhere else: a test that
// finds one of them in an answer has found a leak.
//
// Everything is a function of nothing: two runs give the same bytes.
//
// The package knows no wire format except the two loading formats that servers
// read (OpenMetrics here, SQL and Ruby seeds in internal/peers).
package alr

import "time"

// Names that the incident uses everywhere.
const (
	AlertID        = "ALR-20260429-017"
	Namespace      = "prod"
	Service        = "order-service"
	Dependency     = "payment"
	OtherNamespace = "secret"
	OtherService   = "ledger"

	// Ticket is the number of the first issue created in the ticket system.
	Ticket = 4821
	// OperationKey marks the incident's ticket in the ticket system.
	OperationKey = "alert-ALR-20260429-017-incident"

	// Canary is text that only the other tenant's records hold.
	Canary = "canary-of-the-other-tenant"
	// CanaryLatency is the other tenant's P95 in seconds, at every instant.
	CanaryLatency = 7.77
)

// at returns an instant of the incident's day (UTC).
func at(hour, minute, second int) time.Time {
	return time.Date(2026, 4, 29, hour, minute, second, 0, time.UTC)
}

// Start is the first instant of the data, 02:20:00Z.
func Start() time.Time { return at(2, 20, 0) }

// End is the last instant of the data, 03:05:00Z.
func End() time.Time { return at(3, 5, 0) }

// Deployed is the instant at which the rollout was complete, 02:35:00Z.
func Deployed() time.Time { return at(2, 35, 0) }

// SlowFrom is the first slow sample, 02:37:00Z.
func SlowFrom() time.Time { return at(2, 37, 0) }

// SlowUntil is the last slow sample, 02:49:00Z.
func SlowUntil() time.Time { return at(2, 49, 0) }

// Step is the distance between two samples of a series.
const Step = 15 * time.Second

// Pods lists the pods of a service, in the order of their names.
func Pods(service string) []string {
	switch service {
	case Service:
		return []string{"order-service-7d9f8b6c5d-4k2xq", "order-service-7d9f8b6c5d-9m7tp", "order-service-7d9f8b6c5d-zq5wl"}
	case Dependency:
		return []string{"payment-5c6d7f8b9-h8v2m", "payment-5c6d7f8b9-wq4jd"}
	case OtherService:
		return []string{"ledger-6f7b8c9d5-canary"}
	}
	return nil
}

// API keys of the ticket system's two users: the connector, who may create and
// see issues of the project "inc", and one who may see nothing. They are keys of
// test servers that live as long as a test.
const (
	TicketKey        = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	TicketKeyNoRight = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)
