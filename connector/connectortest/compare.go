package connectortest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

// CompareDouble makes the calls of the samples that read (ordinary, empty,
// missing, denied, another, and the pages of listings) against Fixture.Double and
// against Fixture.Real, and returns what differs, with today's date, for
// Fixture.Compared. Keep it in testdata/double.json. Nothing is changed at the
// real system.
//
// It fails the test if one of the two cannot be called, and not because of a
// difference: whether that matters is for people to judge. Differences are logged,
// kept in the result, and shown in every report.
//
// It compares forms: requests, statuses, media types, the headers that connectors
// go by, and the members of JSON answers with their types. A double that has the
// right form and the wrong values passes.
func CompareDouble(t *testing.T, f Fixture) []byte {
	t.Helper()
	reads := f
	reads.Samples = slices.DeleteFunc(slices.Clone(f.Samples), func(x Sample) bool { return changes(t, &f, x.Capability) })
	double, err := check.Open(t, &reads, check.InDouble)
	if err != nil {
		t.Fatal(err)
	}
	real, err := check.Open(t, &reads, check.InSandbox)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range reads.Samples {
		for _, s := range []*check.Subject{double, real} {
			if o := s.Ordinary[i]; !o.Works {
				t.Fatalf("connectortest: the double cannot be compared: in mode %s, the ordinary call of %s does not work: %s", s.Mode, x.Capability, o.Why)
			}
		}
	}
	c := check.Compare(t, double, real, time.Now())
	for _, d := range c.Differences {
		t.Logf("the double differs: %s", d)
	}
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := check.DecodeCompared(text); err != nil {
		t.Fatal("connectortest: no exchange could be compared")
	}
	return append(text, '\n')
}

// changes reports whether a capability is one that changes something.
func changes(t *testing.T, f *Fixture, capability string) bool {
	t.Helper()
	if f.New == nil {
		t.Fatal("connectortest: Fixture.New is needed: it makes the connector")
	}
	c, err := f.New()
	if err != nil || c == nil {
		t.Fatalf("connectortest: there is no connector: %v", err)
	}
	return slices.ContainsFunc(c.Manifest().Capabilities, func(d connector.Declaration) bool { return d.Name == capability && d.Kind == connector.KindWrite })
}
