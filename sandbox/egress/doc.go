// Package egress is the only way out: HTTP to one provider as an administrator
// described it, and to nothing else.
//
// A [Profile] is the administrator's: where the provider is and how much may
// come back. [New] checks it and makes an [Endpoint], which holds the
// connections. Each call opens a [Session] on it with the call's hooks; the
// session's client is what a connector is given:
//
//	e, err := egress.New(profile, nil)
//	s := e.Open(ctx, &egress.Hooks{Allow: guard, Authorize: inject, Commit: record, Observe: watch})
//	defer s.Close()
//	resp, err := s.Client().Do(req)
//
// The package knows nothing of users, grants or capabilities; those are behind
// the hooks, so that the same transport serves connectors, token endpoints and
// the proxy of a sandboxed process.
//
// # What happens to a request
//
// In this order: the session must be alive; the destination, the path and the
// headers must be what the profile and this package allow; the body is read
// into memory; Allow decides and says whether the request changes anything;
// the wire request is built afresh, so that nothing of the handler's but
// method, URL, headers and body reaches the wire; Authorize puts the credential
// on it; Commit is the last thing before the first byte of a change; it is
// sent; the answer is read whole, decoded, and rid of the credential wherever
// the provider echoes it; Observe is told; the handler gets a rebuilt answer
// whose Request is its own.
//
// # What it refuses
//
// Other schemes, hosts, ports and path prefixes; a Host header that differs;
// user information and fragments; an encoded slash, a dot segment, a backslash
// or a control character in a path; CONNECT, TRACE and upgrades; credentials,
// cookies, hop-by-hop and method-override headers set by the handler; a host of
// which any resolved address is private, loopback, link-local, metadata,
// translated, reserved or otherwise not public, unless the profile names the
// range. It never asks the environment for a proxy, keeps no cookies, and
// verifies TLS 1.2 or later.
//
// # What it guarantees about a request
//
// A request that may change something is sent at most once, on a connection of
// its own. (net/http's own transport repeats a POST that bears an
// Idempotency-Key when a used connection dies.) Reads share connections; one
// that meets a used connection which had died is sent once more on a new one,
// and that is the only repetition. Every failure is an [Error] that says how far
// the request got.
//
// # What it does not do
//
// It does not retry, cache, parse bodies or speak HTTP/2; it starts no goroutine
// that outlives a request. It cannot tell a plaintext answer without a length
// that was cut off from one that was whole. It does not print URLs: a
// query may hold a secret. Note that [net/http.Client] wraps every error of its
// transport in a [net/url.Error], which does print the handler's own URL; find
// the [Error] in it with errors.As.
//
// It does not see what a process does beside it: a connector that uses
// http.DefaultClient is stopped by an analyser and by the process's own
// sandbox, not here.
package egress
