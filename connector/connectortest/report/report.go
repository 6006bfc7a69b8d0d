// Package report writes what package connectortest found, for those who read it:
// report.json for programs, junit.xml for build servers and report.html for
// people, with a transcript beside them for each check that is not green.
//
//	go test ./tickets -run TestContract -connectortest.report=/tmp/reports
//	# /tmp/reports/tickets/report.html, report.json, junit.xml, transcripts/*.txtar
//
// The page says for each promise what became of it, and how that is known. It is
// one file, needs no server, no script and nothing from elsewhere. Every result
// says in which mode it was found: what was proven against a double only is
// marked as that.
//
// # What is in it
//
// Nothing secret: package check has cut credentials out of findings and
// transcripts. Transcripts of real systems (modes sandbox and live) are left out
// as a whole, because answers of a real system may hold anybody's data.
//
// # What it does not do
//
// It compares no two reports, and keeps none: [Write] replaces what is there.
package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

// Schema is the schema of report.json.
const Schema = "connectortest/v1"

// A File is what report.json holds.
type File struct {
	Schema     string         `json:"schema"` // [Schema]
	Date       string         `json:"date"`   // RFC 3339, UTC
	Go         string         `json:"go"`
	Conformant string         `json:"conformant"` // yes, partial or no
	Counts     map[string]int `json:"counts"`     // by verdict; one that did not occur is 0
	check.Report
	Results []Entry `json:"results"`
}

// An Entry is one result.
type Entry struct {
	check.Result
	Transcript string `json:"transcript,omitempty"` // file beside report.json, in txtar form; empty: none
}

// New returns the content of report.json. now is when the checks ran.
func New(r *check.Report, now time.Time) *File {
	f := &File{Schema: Schema, Date: now.UTC().Format(time.RFC3339), Go: runtime.Version(), Conformant: r.Conformant(), Counts: map[string]int{}, Report: *r}
	f.Report.Results = nil // they are in Entry
	for v := check.Unknown; v <= check.Broken; v++ {
		f.Counts[v.String()] = r.Count(v)
	}
	for _, x := range r.Results {
		e := Entry{Result: x}
		if shown(&x) {
			e.Transcript = "transcripts/" + strings.ReplaceAll(x.Check, "/", "_") + ".txtar"
		}
		f.Results = append(f.Results, e)
	}
	return f
}

// shown reports whether a result's transcript is kept: not if it is of a real
// system.
func shown(r *check.Result) bool {
	return r.Transcript != "" && (r.Mode == check.InDouble || r.Mode == check.InReplay)
}

// Decode reads report.json. The transcripts are not in it.
func Decode(text []byte) (*File, error) {
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("report: this is no report: %w", err)
	}
	if f.Schema != Schema {
		return nil, fmt.Errorf("report: the schema is %q, and only %s can be read", f.Schema, Schema)
	}
	for _, e := range f.Results {
		if e.Verdict == check.Unknown || e.Check == "" {
			return nil, fmt.Errorf("report: the result %q has no verdict that is known", e.Check)
		}
		f.Report.Results = append(f.Report.Results, e.Result)
	}
	if got := f.Report.Conformant(); got != f.Conformant {
		return nil, fmt.Errorf("report: it says that the connector is conformant: %s, and its results say: %s", f.Conformant, got)
	}
	return &f, nil
}

// fileName is what a check or a connector may be called to name a file.
var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)

// Write writes the files of a report into dir/<connector>, which it makes, and
// returns that directory. What an earlier run left there is replaced.
func Write(dir string, r *check.Report, now time.Time) (string, error) {
	if dir == "" || len(r.Results) == 0 {
		return "", errors.New("report: there is nothing to write, or nowhere to")
	}
	name := r.Connector
	if !fileName.MatchString(name) {
		name = "connector" // its name is a finding already
	}
	dir = filepath.Join(dir, name)
	if err := os.RemoveAll(filepath.Join(dir, "transcripts")); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "transcripts"), 0o755); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	f := New(r, now)
	page, err := HTML(r, now)
	if err != nil {
		return "", fmt.Errorf("report: the page: %w", err)
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	suite, err := xml.MarshalIndent(junit(f), "", " ")
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	files := map[string][]byte{"report.html": page, "report.json": append(text, '\n'), "junit.xml": append([]byte(xml.Header), append(suite, '\n')...)}
	for i, e := range f.Results {
		if e.Transcript != "" && fileName.MatchString(filepath.Base(e.Transcript)) {
			files[e.Transcript] = []byte(r.Results[i].Transcript)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", fmt.Errorf("report: %w", err)
		}
	}
	return dir, nil
}
