// Package scopeql proves what a PromQL or LogQL text can select.
package scopeql

import (
	"errors"
	"time"
)

// Dialect is a query language. The zero Dialect is none, and is refused.
type Dialect uint8

const (
	Undeclared Dialect = iota
	PromQL
	LogQL
)

// MaxText is the longest query that is looked at, in bytes.
const MaxText = 16 << 10

// Proof is what is certain about a query.
type Proof struct {
	// Selectors has one row for each distinct combination of values, in order
	// of appearance, with the value of each asked label.
	Selectors [][]string

	// Lookback is how far before its evaluation time the query reads.
	Lookback time.Duration
}

// Prove returns what query can select by labels, or an error.
func Prove(d Dialect, query string, labels []string) (Proof, error) {
	return Proof{}, errors.New("query: no language")
}
