// Package connection keeps the accounts that users have connected at
// providers: consent, refresh, disconnect. It is the second of two hops; the
// first is from the caller to us, and no token ever crosses from one to the
// other.
package connection
