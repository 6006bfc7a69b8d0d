// Package lazyre has regular expressions that are compiled when they are first
// used. A program that is started again as the helper of a sandbox runs the
// package initialisation of everything in it each time; what compiles there is
// paid for by every confined program.
//
// It is for constants in package variables, whose tests use each of them: a
// mistake in one is found when it is used, and not when the program starts.
package lazyre

import (
	"regexp"
	"sync"
)

// Regexp is one expression. It is safe for concurrent use.
type Regexp struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// New returns the expression of a text in the syntax of package regexp, without
// looking at it. The first use panics if it is none.
func New(text string) *Regexp { return &Regexp{text: text} }

func (r *Regexp) compiled() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.text) })
	return r.re
}

// MatchString is that of [regexp.Regexp].
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindStringSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// ReplaceAllString is that of [regexp.Regexp].
func (r *Regexp) ReplaceAllString(s, by string) string { return r.compiled().ReplaceAllString(s, by) }

// ReplaceAllStringFunc is that of [regexp.Regexp].
func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, by)
}
