package registry

import (
	"context"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/skill"
)

// Store keeps what a [Registry] knows, for one tenant. It decides nothing and
// is safe for concurrent use by several processes. What it returns belongs to
// the caller. Package registrytest holds every implementation to this text.
type Store interface {
	Records
	Packages
	Pins
}

// Records keeps every revision of every record.
type Records interface {
	// Put writes rec as the revision after rec.Revision, with the event that
	// led to it, and returns it with its new revision. If that is not the
	// revision after the last one, it is CONFLICT and nothing is written. Both
	// are durable when it returns nil.
	Put(ctx context.Context, rec Record, ev Event) (Record, error)

	// Get returns the last revision, or NOT_FOUND.
	Get(ctx context.Context, name, version string) (Record, error)

	// List returns the last revision of every version of a skill, or of every
	// skill for "", by name and then by version. None is not an error.
	List(ctx context.Context, name string) ([]Record, error)

	// History returns the events of one version, oldest first.
	History(ctx context.Context, name, version string) ([]Event, error)
}

// Packages keeps packages by digest. None is ever changed or removed: what a
// run used can be looked at when its version is long retired.
type Packages interface {
	// PutPackage keeps a package. Keeping one that is there is not an error.
	PutPackage(ctx context.Context, p *skill.Package) error

	// Package returns the package with a digest, or NOT_FOUND. It reads every
	// byte and verifies the digest each time: bytes that were changed in the
	// store are an error.
	Package(ctx context.Context, d skill.Digest) (*skill.Package, error)
}

// Pins keeps which run has which version.
type Pins interface {
	// PutPin keeps a pin, and returns the one that is kept: the run's first pin
	// of a skill wins, for good. A run that was finished is CONFLICT.
	PutPin(ctx context.Context, p Pin) (Pin, error)

	// PinsOf returns the pins of a run, finished or not, by name of skill.
	PinsOf(ctx context.Context, run string) ([]Pin, error)

	// Running returns the pins of a skill by runs that are not finished, by run.
	Running(ctx context.Context, name string) ([]Pin, error)

	// FinishRun marks a run as finished. A second time, or a run without pins,
	// is not an error.
	FinishRun(ctx context.Context, run string, at time.Time) error
}

// Pin says which package a run uses for a skill. It is what a run records.
type Pin struct {
	Run      string       `json:"run"`
	Name     string       `json:"name"`
	Version  string       `json:"version"`
	Artifact skill.Digest `json:"artifact_digest"`
	Scope    string       `json:"scope"`
	Revision int64        `json:"revision"` // of the record, when it was pinned
	At       time.Time    `json:"at"`
	Finished time.Time    `json:"finished,omitzero"`
}

// properRun reports whether s can be the id of a run.
func properRun(s string) bool {
	return s != "" && len(s) <= 128 && s[0] != '.' &&
		strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}
