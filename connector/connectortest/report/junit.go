package report

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

// The elements of junit.xml that build servers agree on.
type (
	junitSuites struct {
		XMLName xml.Name   `xml:"testsuites"`
		Suite   junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitProblem `xml:"failure,omitempty"`
		Error   *junitProblem `xml:"error,omitempty"`
		Skipped *junitProblem `xml:"skipped,omitempty"`
	}
	junitProblem struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func junit(f *File) junitSuites {
	s := junitSuite{Name: "connectortest." + f.Connector, Tests: len(f.Results), Timestamp: f.Date}
	for _, p := range [][2]string{{"connector", f.Connector}, {"version", f.Version}, {"manifest", f.Manifest}, {"requirements", f.Requirements},
		{"mode", f.Mode.String()}, {"conformant", f.Conformant}, {"go", f.Go}} {
		s.Properties = append(s.Properties, junitProperty{p[0], p[1]})
	}
	for _, e := range f.Results {
		area, _, _ := strings.Cut(e.Check, "/")
		c := junitCase{Class: f.Connector + "." + area, Name: e.Check}
		p := &junitProblem{Type: e.Verdict.String(), Message: e.Promise + " (in mode " + e.Mode.String() + ")", Text: evidence(&e.Result)}
		switch {
		case e.Verdict == check.Pass:
		case e.Verdict == check.NotApplicable, e.Verdict == check.Waived, !e.Scored:
			p.Type, p.Message = "", e.Verdict.String()+": "+e.Reason
			if !e.Scored {
				p.Message += " (not scored)"
			}
			c.Skipped = p
			s.Skipped++
		case e.Verdict == check.Fail, e.Verdict == check.Inconclusive:
			c.Failure = p
			s.Failures++
		default:
			c.Error = p
			s.Errors++
		}
		s.Cases = append(s.Cases, c)
	}
	return junitSuites{Suite: s}
}

func evidence(r *check.Result) string {
	var b strings.Builder
	if r.Reason != "" {
		fmt.Fprintf(&b, "why:  %s\n", r.Reason)
	}
	for _, x := range r.Findings {
		fmt.Fprintf(&b, "got:  %s\nwant: %s\n", x.Got, x.Want)
	}
	return b.String()
}
