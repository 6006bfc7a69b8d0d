package launch

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/internal/lazyre"
	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Spec describes one program. It comes from the operator, never from a model, a
// project or the network, and holds no secret.
type Spec struct {
	// Name is what approvals are kept under: 1 to 64 lower-case letters, digits,
	// dots, dashes and underscores.
	Name string

	// Path is the executable, absolute. Symbolic links are followed once, when
	// it is inspected.
	Path string

	// Args are its arguments. No shell reads them. A secret does not belong
	// here: command lines can be read by others.
	Args []string

	// Dir is the directory that it starts in. Empty: the rules' workspace.
	Dir string

	// Env are the names of the variables that it is given, each of which the
	// rules list. Their values are in Options of Start, and are not approved.
	Env []string

	// Files are further files whose contents are fixed: what a script loads.
	Files []string

	// Loose are arguments, whole, that name files whose contents may change,
	// such as a database.
	Loose []string

	// Mutable is why code that is not fixed may run all the same. Empty: it may
	// not.
	Mutable string
}

const (
	maxArgs  = 256
	maxArg   = 64 << 10
	maxFiles = 128
)

var named = lazyre.New(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// check refuses what could not be shown honestly or run as it is written.
func (s *Spec) check() error {
	if s == nil {
		return invalid("/", "there is no specification")
	}
	var errs []error
	add := func(bad bool, field, text string) {
		if bad {
			errs = append(errs, invalid(field, text))
		}
	}
	add(!named.MatchString(s.Name), "/name", "must be 1 to 64 lower-case letters, digits, dots, dashes and underscores")
	add(!filepath.IsAbs(s.Path) || filepath.Clean(s.Path) != s.Path, "/path", "must be absolute and clean: a program that is searched for can be replaced by another")
	add(s.Dir != "" && (!filepath.IsAbs(s.Dir) || filepath.Clean(s.Dir) != s.Dir), "/dir", "must be absolute and clean")
	add(len(s.Args) > maxArgs || len(s.Files) > maxFiles || len(s.Env) > maxArgs, "/", "too many arguments, files or variables")
	for i, f := range s.Files {
		add(!filepath.IsAbs(f) || filepath.Clean(f) != f, fmt.Sprintf("/files/%d", i), "must be absolute and clean")
	}
	for i, l := range s.Loose {
		add(!slices.Contains(s.Args, l), fmt.Sprintf("/loose/%d", i), "is none of the arguments")
	}
	for i, e := range s.Env {
		add(slices.Contains(s.Env[:i], e), fmt.Sprintf("/env/%d", i), "is named twice")
	}
	s.texts(func(field, text string) {
		add(len(text) > maxArg, field, "is too long to be read")
		add(hidden(text) != "", field, "holds what nobody would see: "+hidden(text))
	})
	return errors.Join(errs...)
}

// texts visits every text of the specification.
func (s *Spec) texts(visit func(field, text string)) {
	visit("/path", s.Path)
	visit("/dir", s.Dir)
	visit("/mutable", s.Mutable)
	for field, list := range map[string][]string{"/args": s.Args, "/env": s.Env, "/files": s.Files, "/loose": s.Loose} {
		for i, text := range list {
			visit(fmt.Sprintf("%s/%d", field, i), text)
		}
	}
}

// invisible are letters by their category that no font shows.
const invisible = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"

// hidden returns the escape of the first character that a reader would not see
// or that changes how others look: controls, the bidirectional and zero-width
// ones, private and unassigned ones, spaces other than the plain one.
func hidden(s string) string {
	if !utf8.ValidString(s) {
		return "bytes that are not UTF-8"
	}
	for _, r := range s {
		if !strconv.IsPrint(r) || strings.ContainsRune(invisible, r) || r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef {
			return fmt.Sprintf("U+%04X", r)
		}
	}
	return ""
}

func invalid(field, text string) error {
	return fmt.Errorf("launch: %s %s: %w", field, text, toolresult.NewError(toolresult.InvalidInput, "the specification of a program is wrong").With(field, text))
}

// within checks the specification against what the rules permit.
func (s *Spec) within(rules *sandbox.Rules) error {
	var errs []error
	for i, e := range s.Env {
		if !rules.Decide(sandbox.Op{Kind: sandbox.OpEnv, Target: e}).Allowed {
			errs = append(errs, invalid(fmt.Sprintf("/env/%d", i), "is not in the rules' credentials.env"))
		}
	}
	return errors.Join(errs...)
}
