package toolresult

import (
	"crypto/sha256"
	"encoding/hex"
)

// Record is the projection for audit: names and verdicts, no content and no
// text of the provider's. It is safe to keep where the content is not.
//
// A digest of content that few values can have (a yes or no) can be guessed;
// keep records where only auditors read.
type Record struct {
	CallID       string
	Meaning      Meaning
	Status       Status
	Coverage     Coverage
	Effect       Effect
	Truncated    bool
	More         bool // there is a next cursor; the cursor itself is not kept
	Code         ErrorCode
	Retryable    bool
	DataRef      string
	DataDigest   string // "sha256:" and hex of data as it is written in JSON; empty when there is none
	DataBytes    int    // its length
	Diagnostics  Diagnostics
	Provenance   Provenance
	Verification Verification
}

// malformed stands in a Record for a name that is not one.
const malformed = "malformed"

// Record returns the projection for audit. Message, Problems, Summary and
// Diagnostics.ProviderText are left out of it, and so is every member that
// this version does not know. Names that an invalid Result holds are replaced
// or cut to their bounds, so that they carry no text. The record of a nil
// Result is that of a zero one.
func (r *Result) Record() Record {
	if r == nil {
		r = &Result{}
	}
	rec := r.facts()
	if r.Data != nil {
		data := r.Data
		if unfit(data) == "" {
			data = appendCompact(nil, data)
		}
		sum := sha256.Sum256(data)
		rec.DataDigest, rec.DataBytes = "sha256:"+hex.EncodeToString(sum[:]), len(data)
	}
	return rec
}

// facts is Record without the digest.
func (r *Result) facts() Record {
	rec := Record{
		CallID: oneLine(r.CallID, maxID), Meaning: r.Meaning(), Status: r.Status,
		Coverage:  Coverage{Complete: r.Coverage.Complete, Missing: []Gap{}},
		Effect:    Effect{r.Effect.Disposition, oneLine(r.Effect.OperationID, maxID)},
		Truncated: r.Truncated, More: r.NextCursor != "", DataRef: oneLine(r.DataRef, maxRef),
		Provenance: reference(&r.Provenance, 0), Verification: r.Verification,
	}
	if !r.Status.known() {
		rec.Status = malformed
	}
	for _, g := range r.Coverage.Missing {
		if !isName(string(g), 'a') {
			g = malformed
		}
		rec.Coverage.Missing = append(rec.Coverage.Missing, g)
	}
	if e := r.Error; e != nil {
		rec.Code, rec.Retryable, rec.Diagnostics = e.Code, e.Retryable, e.Diagnostics.Bounded()
		rec.Diagnostics.ProviderText = ""
		if !isName(string(e.Code), 'A') {
			rec.Code = ContractViolation
		}
	}
	return rec
}

// reference copies what names a source, each word within its bound.
func reference(p *Provenance, depth int) Provenance {
	ref := Provenance{
		Service: oneLine(p.Service, maxRef), Object: oneLine(p.Object, maxRef), Version: oneLine(p.Version, maxRef),
		URL: oneLine(p.URL, maxRef), Window: p.Window, RequestID: oneLine(p.RequestID, maxFact), Trust: p.Trust,
	}
	if writable(p.FetchedAt) {
		ref.FetchedAt = p.FetchedAt
	}
	if depth < maxSources {
		for i := range p.Sources {
			ref.Sources = append(ref.Sources, reference(&p.Sources[i], depth+1))
		}
	}
	return ref
}

// MarshalJSON implements [json.Marshaler]. The members are in a fixed order
// and named as in the envelope; code is null when there is no error, and empty
// members that name things are left out. It never fails for what
// [Result.Record] returned.
func (r Record) MarshalJSON() ([]byte, error) {
	var e encoder
	e.open('{')
	e.str("call_id", r.CallID)
	e.str("meaning", r.Meaning.String())
	e.str("status", string(r.Status))
	e.name("coverage")
	e.coverage(r.Coverage)
	e.name("effect")
	e.effect(r.Effect)
	e.boolean("truncated", r.Truncated)
	e.boolean("more", r.More)
	e.strOrNull("code", string(r.Code))
	e.boolean("retryable", r.Retryable)
	e.strIf("data_ref", r.DataRef)
	if r.DataDigest != "" {
		e.str("data_digest", r.DataDigest)
		e.integer("data_bytes", int64(r.DataBytes))
	}
	if r.Diagnostics != (Diagnostics{}) {
		d := r.Diagnostics
		d.ProviderText = ""
		e.name("diagnostics")
		e.diagnostics(d)
	}
	e.name("provenance")
	e.provenance(&r.Provenance, 0)
	e.str("verification_state", r.Verification.String())
	e.close('}')
	return e.done()
}
