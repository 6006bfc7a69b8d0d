package connector

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/internal/lazyre"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
)

// manifestText is a manifest as it is written down. Pointers and nil slices
// tell what was left out from what was said to be false or empty.
type manifestText struct {
	ID                 string           `yaml:"connector_id"`
	Version            string           `yaml:"version"`
	Owner              string           `yaml:"owner"`
	ProviderAPIVersion string           `yaml:"provider_api_version"`
	Endpoint           string           `yaml:"endpoint_profile"`
	Auth               authText         `yaml:"auth"`
	Capabilities       []capabilityText `yaml:"capabilities"`
	Output             outputText       `yaml:"output_policy"`
}

type authText struct {
	Mode            string `yaml:"mode"`
	Scheme          string `yaml:"scheme"`
	CredentialStore string `yaml:"credential_store"`
}

type outputText struct {
	Exclude  []string `yaml:"exclude_fields"`
	Preserve []string `yaml:"preserve"`
}

type capabilityText struct {
	Name          string          `yaml:"name"`
	Kind          string          `yaml:"kind"`
	Title         string          `yaml:"title"`
	Description   string          `yaml:"description"`
	Scopes        []string        `yaml:"required_scopes"`
	Effect        string          `yaml:"effect"`
	SideEffect    string          `yaml:"side_effect"`
	Sensitivity   string          `yaml:"sensitivity"`
	Approval      string          `yaml:"approval"`
	Deduplication string          `yaml:"deduplication"`
	Idempotency   idempotencyText `yaml:"idempotency"`
	Settle        *time.Duration  `yaml:"settle"`
	Reconcilable  *bool           `yaml:"reconcilable"`
	Compensation  string          `yaml:"compensation"`
	URI           string          `yaml:"uri"`
	Routes        []routeText     `yaml:"routes"`
	Limits        limitsText      `yaml:"limits"`
	RateLimits    []rateLimitText `yaml:"rate_limits"`
	Input         map[string]any  `yaml:"input"`
	Output        map[string]any  `yaml:"output"`

	input, output string // the schemas, canonical
}

type idempotencyText struct {
	Header  string        `yaml:"header"`
	Window  time.Duration `yaml:"window"`
	Field   string        `yaml:"field"`
	Answer  string        `yaml:"answer"`
	Natural *bool         `yaml:"natural"`
}

type routeText struct {
	Pattern         string      `yaml:"pattern"`
	Effect          string      `yaml:"effect"`
	Touches         []string    `yaml:"touches"`
	WholeConnection *bool       `yaml:"whole_connection"`
	Unscoped        string      `yaml:"unscoped"`
	Within          []string    `yaml:"within"`
	Params          []string    `yaml:"params"`
	Metadata        *bool       `yaml:"metadata"`
	Window          *windowText `yaml:"window"`
}

type windowText struct {
	Start       string        `yaml:"start"`
	End         string        `yaml:"end"`
	Nanoseconds *bool         `yaml:"nanoseconds"`
	Lookback    time.Duration `yaml:"lookback"`
	Query       string        `yaml:"query"`
}

type limitsText struct {
	Timeout  time.Duration `yaml:"timeout"`
	PageSize int           `yaml:"page_size"`
	Bytes    int64         `yaml:"bytes"`
	Requests int           `yaml:"requests"`
}

type rateLimitText struct {
	Per      string        `yaml:"per"`
	Requests int           `yaml:"requests"`
	Window   time.Duration `yaml:"window"`
}

// The words of a manifest.
const (
	effectRead, effectWrite  = "read", "write"
	approvalAlways           = "always"
	approvalBound            = "payload-bound" // another word for always
	approvalPolicy           = "by-policy"
	dedupLedger              = "operation-ledger"
	dedupProvider            = "operation-ledger-and-provider-contract"
	routeReads, routeChanges = "reads", "changes"
)

// ParseManifest reads a manifest from YAML:
//
//	connector_id: enterprise-tickets
//	version: 1.0.0
//	owner: integration-team
//	endpoint_profile: tickets-prod-approved
//	auth: {mode: delegated_oauth, credential_store: platform-managed}
//	capabilities:
//	  - name: tickets.search
//	    required_scopes: [tickets.read]
//	    effect: read
//	  - name: tickets.create
//	    required_scopes: [tickets.write]
//	    effect: write
//	    approval: payload-bound
//	output_policy:
//	  exclude_fields: [private_notes]
//
// What is left out is read as the most careful value: a write without
// side_effect is irreversible, without approval always approved, without
// sensitivity unclassified. A bare name in exclude_fields and preserve is a
// member at the top: "/private_notes".
//
// It refuses unknown fields, repeated keys, aliases, tags and a second
// document, and values that look like a credential or an address, each with its
// line; no value is quoted. Everything that is wrong is listed.
//
// Beside a connector in Go the manifest is no second truth: [CheckManifest]
// compares them. Where a provider says that a listing goes on cannot be
// written down.
func ParseManifest(text []byte) (*Manifest, error) {
	var m manifestText
	if err := strictyaml.Decode(text, &m); err != nil {
		return nil, err
	}
	c := manifestCheck{text: text}
	var plain map[string]any
	if err := strictyaml.Decode(text, &plain); err != nil {
		return nil, err
	}
	c.noBlanks(plain, "")
	c.manifest(&m)
	if c.errs != nil {
		return nil, errors.Join(c.errs...)
	}
	return m.manifest(), nil
}

// CheckManifest returns nil, or every difference between the manifest of c and
// one that was written down, sorted and joined. What was written must hold;
// what was left out is not compared, except that the capabilities are the same
// ones. The order of lists does not matter. In a manifest that was made in Go,
// zero values count as left out.
func CheckManifest(c Connector, written *Manifest) error {
	if c == nil || written == nil {
		return errors.New("connector: want a connector and a written manifest to compare")
	}
	m := c.Manifest()
	w := written.written
	if w == nil {
		w = textOf(written)
	}
	var found []string
	differences("", tree(reflect.ValueOf(*w)), tree(reflect.ValueOf(*textOf(&m))), &found)
	slices.Sort(found)
	var errs []error
	for _, f := range found {
		errs = append(errs, errors.New("connector: manifest: "+f))
	}
	return errors.Join(errs...)
}

// manifestCheck says what a manifest means, and what is wrong with it.
type manifestCheck struct {
	text []byte
	errs []error
}

func (c *manifestCheck) wrong(path, format string, args ...any) {
	if len(c.errs) < 20 {
		c.errs = append(c.errs, strictyaml.At(c.text, path, fmt.Sprintf(format, args...)))
	}
}

// labelForm is the form of names that lead to something of the operator's. It
// has no dot, colon or slash, so that no address is one.
var labelForm = lazyre.New(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// secretForm matches what looks like a credential wherever it stands.
var secretForm = lazyre.New(`(?i)bearer\s+[a-z0-9._~+/=-]{24}|-----BEGIN |\b(gh[pousr]|glpat|github_pat|xox[a-z]|sk|pk|rk)[-_][a-z0-9_-]{16}|\bAKIA[0-9A-Z]{12}|\beyJ[a-z0-9_-]{10,}\.|://[^/\s@]*:[^/\s@]*@`)

func (c *manifestCheck) manifest(m *manifestText) {
	c.noSecrets(reflect.ValueOf(*m), "")
	if !idForm.MatchString(m.ID) {
		c.wrong("connector_id", "want lower-case letters, digits and dashes, such as enterprise-tickets")
	}
	for _, f := range []struct{ path, value string }{{"version", m.Version}, {"owner", m.Owner}} {
		if f.value == "" {
			c.wrong(f.path, "is missing")
		}
	}
	for _, f := range []struct{ path, value string }{{"version", m.Version}, {"owner", m.Owner}, {"provider_api_version", m.ProviderAPIVersion}} {
		if strings.Contains(f.value, "://") || len(f.value) > 128 {
			c.wrong(f.path, "want a short name; addresses belong to the operator's endpoint profile")
		}
	}
	for _, f := range []struct{ path, value string }{{"endpoint_profile", m.Endpoint}, {"auth.credential_store", m.Auth.CredentialStore}} {
		if f.value != "" && !labelForm.MatchString(f.value) {
			c.wrong(f.path, "want the name of something that an operator keeps, in lower case; addresses and credentials are not written here")
		}
	}
	c.auth(m.Auth)
	c.output(m)
	if len(m.Capabilities) == 0 {
		c.wrong("capabilities", "is missing: a connector offers something")
	}
	seen := map[string]bool{}
	for i := range m.Capabilities {
		d := &m.Capabilities[i]
		at := fmt.Sprintf("capabilities[%d]", i)
		if seen[d.Name] {
			c.wrong(at+".name", "occurs twice; each capability has a name of its own")
		}
		seen[d.Name] = true
		c.capability(d, at)
		if len(d.Routes) > 0 && m.Endpoint == "" {
			c.wrong(at+".routes", "need an endpoint_profile")
		}
	}
}

// noSecrets looks at every string for what is the form of a credential.
func (c *manifestCheck) noSecrets(v reflect.Value, at string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Tag.Get("yaml"); name != "" {
				c.noSecrets(v.Field(i), strings.TrimPrefix(at+"."+name, "."))
			}
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			c.noSecrets(v.Elem(), at)
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.noSecrets(v.Index(i), fmt.Sprintf("%s[%d]", at, i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			c.noSecrets(v.MapIndex(k), at+"."+k.String())
		}
	case reflect.String:
		if secretForm.MatchString(v.String()) {
			c.wrong(at, "looks like a credential; remove it and revoke it, since it was written down: a manifest holds none")
		}
	}
}

// noBlanks refuses empty strings: they would count as left out, and do not look
// like it. A schema may hold some.
func (c *manifestCheck) noBlanks(v any, at string) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k != "input" && k != "output" {
				c.noBlanks(v[k], strings.TrimPrefix(at+"."+k, "."))
			}
		}
	case []any:
		for i, e := range v {
			c.noBlanks(e, fmt.Sprintf("%s[%d]", at, i))
		}
	case string:
		if strings.TrimSpace(v) == "" {
			c.wrong(at, "is blank; give a value or remove the line")
		}
	}
}

func (c *manifestCheck) auth(a authText) {
	modes := []AuthMode{AuthNone, AuthDelegatedOAuth, AuthClientCredentials, AuthAPIKey, AuthServiceAccount, AuthTokenExchange}
	if !slices.Contains(modes, AuthMode(a.Mode)) {
		c.wrong("auth.mode", "want one of %v", modes)
	}
	if !(Auth{Scheme: a.Scheme}).schemeKnown() {
		c.wrong("auth.scheme", "want bearer, basic, or header: and the header's name")
	}
}

// schemeKnown reports whether a scheme is one of those that Auth names.
func (a Auth) schemeKnown() bool {
	header, isHeader := strings.CutPrefix(a.Scheme, "header:")
	return a.Scheme == "" || a.Scheme == "bearer" || a.Scheme == "basic" || isHeader && headerForm.MatchString(header)
}

var headerForm = lazyre.New(`^[A-Za-z0-9-]{1,64}$`)

func (c *manifestCheck) output(m *manifestText) {
	for _, l := range []struct {
		path   string
		fields []string
	}{{"output_policy.exclude_fields", m.Output.Exclude}, {"output_policy.preserve", m.Output.Preserve}} {
		for i, f := range l.fields {
			if f == "" || len(f) > 256 {
				c.wrong(fmt.Sprintf("%s[%d]", l.path, i), "want the name of a member, or a JSON Pointer such as /author/phone")
				continue
			}
			l.fields[i] = pointerOf(f)
		}
	}
	for i, f := range m.Output.Preserve {
		if slices.ContainsFunc(m.Output.Exclude, func(e string) bool { return f == e || strings.HasPrefix(f, e+"/") }) {
			c.wrong(fmt.Sprintf("output_policy.preserve[%d]", i), "is also excluded; remove it from one of the lists")
		}
	}
}

// pointerOf turns a bare name into the JSON Pointer of a member at the top.
func pointerOf(field string) string {
	if strings.HasPrefix(field, "/") {
		return field
	}
	return "/" + strictjson.Escape(field)
}

// capability checks one, and writes out what follows from it.
func (c *manifestCheck) capability(d *capabilityText, at string) {
	if !nameForm.MatchString(d.Name) || len(d.Name) > 64 {
		c.wrong(at+".name", "want lower-case words with dots or underscores, such as tickets.search")
	}
	c.effect(d, at)
	c.word(at+".sensitivity", d.Sensitivity, risk.Public.String(), risk.Internal.String(), risk.Sensitive.String(), risk.Secret.String())
	c.word(at+".deduplication", d.Deduplication, dedupLedger, dedupProvider)
	c.word(at+".kind", d.Kind, string(KindRead), string(KindList), string(KindWrite), string(KindDocument), string(KindPrompt))
	if d.Kind != "" && (d.Kind == string(KindWrite)) != (d.Effect == effectWrite) {
		c.wrong(at+".kind", "does not go with the effect")
	}
	if (d.Idempotency.Header == "") != (d.Idempotency.Window == 0) {
		c.wrong(at+".idempotency", "want both header and window, or neither")
	}
	for path, n := range map[string]int64{".limits.timeout": int64(d.Limits.Timeout), ".limits.page_size": int64(d.Limits.PageSize), ".limits.bytes": d.Limits.Bytes, ".limits.requests": int64(d.Limits.Requests), ".idempotency.window": int64(d.Idempotency.Window)} {
		if n < 0 {
			c.wrong(at+path, "want more than nothing")
		}
	}
	if d.Settle != nil && *d.Settle < 0 {
		c.wrong(at+".settle", "want a time that is not negative")
	}
	for i, r := range d.RateLimits {
		if r.Requests <= 0 || r.Window <= 0 || !slices.Contains([]string{"app", "account", "org"}, r.Per) {
			c.wrong(fmt.Sprintf("%s.rate_limits[%d]", at, i), "want per (app, account or org), requests and window")
		}
	}
	d.input = c.schema(d.Input, true, at+".input")
	d.output = c.schema(d.Output, false, at+".output")
	c.routes(d, at)
}

func (c *manifestCheck) word(path, got string, words ...string) {
	if got != "" && !slices.Contains(words, got) {
		c.wrong(path, "want one of %s", strings.Join(words, ", "))
	}
}

func (c *manifestCheck) effect(d *capabilityText, at string) {
	switch d.Effect {
	case effectRead:
		if d.SideEffect != "" && d.SideEffect != risk.ReadOnly.String() {
			c.wrong(at+".side_effect", "does not go with effect: read")
		}
		if d.Approval != "" || d.Deduplication != "" || d.Compensation != "" || d.Idempotency != (idempotencyText{}) || d.Settle != nil || d.Reconcilable != nil {
			c.wrong(at, "reads, and says what only a write has (approval, deduplication, idempotency, settle, reconcilable, compensation)")
		}
		d.SideEffect = risk.ReadOnly.String()
	case effectWrite:
		d.SideEffect = cmp.Or(d.SideEffect, risk.IrreversibleWrite.String())
		c.word(at+".side_effect", d.SideEffect, risk.ReversibleWrite.String(), risk.CompensableWrite.String(), risk.IrreversibleWrite.String())
		c.word(at+".approval", d.Approval, approvalBound, approvalAlways, approvalPolicy)
		if d.Approval != approvalPolicy {
			d.Approval = approvalAlways
		}
	default:
		c.wrong(at+".effect", "want read or write")
	}
}

func (c *manifestCheck) routes(d *capabilityText, at string) {
	for i, r := range d.Routes {
		if r.Effect != routeReads && r.Effect != routeChanges {
			c.wrong(fmt.Sprintf("%s.routes[%d].effect", at, i), "want reads or changes")
			return
		}
		if r.Effect == routeChanges && d.Effect == effectRead {
			c.wrong(fmt.Sprintf("%s.routes[%d].effect", at, i), "changes something in a capability that reads")
		}
	}
	if _, err := compileRoutes(routesOf(d.Routes)); err != nil {
		c.wrong(at+".routes", "%v", err)
	}
}

// schema checks a schema that was written in YAML and returns its canonical
// text.
func (c *manifestCheck) schema(v map[string]any, input bool, at string) string {
	if v == nil {
		return ""
	}
	if where := notJSON(v, at); where != "" {
		c.wrong(where, "has no form in JSON; put it in quotes")
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		c.wrong(at, "has no form in JSON")
		return ""
	}
	s, err := schema.Parse(text, input)
	if err != nil {
		c.wrong(at, "%s", strings.TrimPrefix(err.Error(), "schema: "))
		return ""
	}
	return string(s.JSON())
}

// notJSON returns the path of a value that YAML made something of that JSON
// does not know, such as a date.
func notJSON(v any, at string) string {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if p := notJSON(v[k], at+"."+k); p != "" {
				return p
			}
		}
	case []any:
		for i, e := range v {
			if p := notJSON(e, fmt.Sprintf("%s[%d]", at, i)); p != "" {
				return p
			}
		}
	case string, bool, int, int64, uint64, float64:
	default:
		return at
	}
	return ""
}

// manifest turns what was written into a Manifest.
func (m *manifestText) manifest() *Manifest {
	out := &Manifest{written: m, Info: Info{
		ID: m.ID, Version: m.Version, Owner: m.Owner, ProviderAPIVersion: m.ProviderAPIVersion, Endpoint: m.Endpoint,
		Auth:    Auth{Mode: AuthMode(m.Auth.Mode), Scheme: m.Auth.Scheme, CredentialStore: m.Auth.CredentialStore},
		Exclude: slices.Clone(m.Output.Exclude), Preserve: slices.Clone(m.Output.Preserve),
	}}
	for i := range m.Capabilities {
		out.Capabilities = append(out.Capabilities, m.Capabilities[i].declaration())
	}
	return out
}

func (d *capabilityText) declaration() Declaration {
	out := Declaration{
		Kind: Kind(cmp.Or(d.Kind, d.Effect)), Name: d.Name, Title: d.Title, Description: d.Description,
		Scopes: slices.Clone(d.Scopes), Routes: routesOf(d.Routes), URI: d.URI,
		Limits:       Limits{Timeout: d.Limits.Timeout, PageSize: d.Limits.PageSize, Bytes: d.Limits.Bytes, Requests: d.Limits.Requests},
		Idempotency:  Idempotency{Header: d.Idempotency.Header, Window: d.Idempotency.Window, Field: d.Idempotency.Field, Answer: d.Idempotency.Answer, Natural: isTrue(d.Idempotency.Natural)},
		Reconcilable: isTrue(d.Reconcilable), Compensation: d.Compensation,
	}
	// The words were checked; one that is not known leaves the highest class.
	_ = out.Class.SideEffect.UnmarshalText([]byte(d.SideEffect))
	_ = out.Class.Sensitivity.UnmarshalText([]byte(d.Sensitivity))
	if d.Approval == approvalPolicy {
		out.Approval = ApprovalByPolicy
	}
	if d.Settle != nil {
		out.Settle = *d.Settle
	}
	if d.input != "" {
		out.Input = json.RawMessage(d.input)
	}
	if d.output != "" {
		out.Output = json.RawMessage(d.output)
	}
	for _, r := range d.RateLimits {
		out.RateLimits = append(out.RateLimits, RateLimit(r))
	}
	return out
}

func routesOf(rs []routeText) []Route {
	var out []Route
	for _, r := range rs {
		o := Route{Pattern: r.Pattern, Touches: slices.Clone(r.Touches), WholeConnection: isTrue(r.WholeConnection), Unscoped: r.Unscoped,
			Within: slices.Clone(r.Within), Params: slices.Clone(r.Params), Metadata: isTrue(r.Metadata)}
		switch r.Effect {
		case routeReads:
			o.Effect = Reads
		case routeChanges:
			o.Effect = Changes
		}
		if w := r.Window; w != nil {
			o.Window = &Window{Start: w.Start, End: w.End, Nanoseconds: isTrue(w.Nanoseconds), Lookback: w.Lookback, Query: w.Query}
		}
		out = append(out, o)
	}
	return out
}

func isTrue(b *bool) bool { return b != nil && *b }

// textOf turns a manifest in Go into the form in which it would be written.
func textOf(m *Manifest) *manifestText {
	out := &manifestText{
		ID: m.ID, Version: m.Version, Owner: m.Owner, ProviderAPIVersion: m.ProviderAPIVersion, Endpoint: m.Endpoint,
		Auth:   authText{string(m.Auth.Mode), m.Auth.Scheme, m.Auth.CredentialStore},
		Output: outputText{slices.Clone(m.Exclude), slices.Clone(m.Preserve)},
	}
	for i := range m.Capabilities {
		out.Capabilities = append(out.Capabilities, capabilityTextOf(&m.Capabilities[i]))
	}
	return out
}

func capabilityTextOf(d *Declaration) capabilityText {
	out := capabilityText{
		Name: d.Name, Kind: string(d.Kind), Title: d.Title, Description: d.Description, Scopes: slices.Clone(d.Scopes),
		Effect: effectWrite, SideEffect: d.Class.SideEffect.String(), Sensitivity: d.Class.Sensitivity.String(),
		URI: d.URI, Compensation: d.Compensation, Limits: limitsText(d.Limits),
		input: canonicalText(d.Input), output: canonicalText(d.Output),
	}
	if d.Class.SideEffect == risk.ReadOnly {
		out.Effect = effectRead
	} else {
		out.writeText(d)
	}
	for _, r := range d.RateLimits {
		out.RateLimits = append(out.RateLimits, rateLimitText(r))
	}
	for _, r := range d.Routes {
		t := routeText{Pattern: r.Pattern, Effect: routeChanges, Touches: slices.Clone(r.Touches), WholeConnection: orNil(r.WholeConnection), Unscoped: r.Unscoped,
			Within: slices.Clone(r.Within), Params: slices.Clone(r.Params), Metadata: orNil(r.Metadata)}
		if r.Effect == Reads {
			t.Effect = routeReads
		}
		if w := r.Window; w != nil {
			t.Window = &windowText{w.Start, w.End, orNil(w.Nanoseconds), w.Lookback, w.Query}
		}
		out.Routes = append(out.Routes, t)
	}
	return out
}

func (out *capabilityText) writeText(d *Declaration) {
	out.Approval, out.Deduplication = approvalAlways, dedupLedger
	if d.Approval == ApprovalByPolicy {
		out.Approval = approvalPolicy
	}
	if d.Idempotency != (Idempotency{}) || d.Reconcilable {
		out.Deduplication = dedupProvider
	}
	i := d.Idempotency
	out.Idempotency = idempotencyText{i.Header, i.Window, i.Field, i.Answer, orNil(i.Natural)}
	out.Settle, out.Reconcilable = orNil(d.Settle), orNil(d.Reconcilable)
}

// orNil leaves a zero value out.
func orNil[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// tree turns a text form into names and values, without what was left out.
func tree(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Struct:
		m := map[string]any{}
		for i := range v.NumField() {
			name := cmp.Or(v.Type().Field(i).Tag.Get("yaml"), v.Type().Field(i).Name)
			if f := v.Field(i); f.Kind() == reflect.Map || f.IsZero() {
				continue // a schema is compared by its canonical text
			}
			m[name] = tree(v.Field(i))
		}
		return m
	case reflect.Pointer:
		return tree(v.Elem())
	case reflect.Slice:
		return treeList(v)
	case reflect.String:
		return v.String()
	}
	return fmt.Sprint(v)
}

// treeList keeps lists that have a key by it, and makes sets of the others.
func treeList(v reflect.Value) any {
	m := map[string]any{}
	texts := []string{}
	for i := range v.Len() {
		e := tree(v.Index(i))
		fields, ok := e.(map[string]any)
		if !ok {
			texts = append(texts, fmt.Sprint(e))
			continue
		}
		key := cmp.Or(fields["name"], fields["pattern"])
		if key == nil {
			text, _ := json.Marshal(fields)
			texts = append(texts, string(text))
			continue
		}
		m[fmt.Sprint(key)] = fields
	}
	if len(m) > 0 {
		return keyed(m)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// keyed is a list by its keys: each must be on both sides.
type keyed map[string]any

// differences lists where what is written is not what holds.
func differences(at string, written, holds any, found *[]string) {
	switch w := written.(type) {
	case map[string]any:
		h, _ := holds.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(w)) {
			differences(strings.TrimPrefix(at+"."+k, "."), w[k], h[k], found)
		}
	case keyed:
		h, _ := holds.(keyed)
		for k := range w {
			if _, ok := h[k]; !ok {
				*found = append(*found, at+": "+strconv.Quote(k)+" is written and not in the connector")
				continue
			}
			differences(at+"["+k+"]", w[k], h[k], found)
		}
		for k := range h {
			if _, ok := w[k]; !ok {
				*found = append(*found, at+": "+strconv.Quote(k)+" is in the connector and not written")
			}
		}
	default:
		if !reflect.DeepEqual(written, holds) && (holds != nil || !nothing(written)) {
			*found = append(*found, at+": "+say(written)+" is written, and the connector has "+say(holds))
		}
	}
}

// nothing reports whether a written value says the same as leaving it out of
// the connector.
func nothing(v any) bool {
	l, isList := v.([]string)
	return v == "false" || v == "0s" || isList && len(l) == 0
}

// say prints a value of a declaration for people.
func say(v any) string {
	text := fmt.Sprintf("%q", v)
	if v == nil {
		return "nothing"
	}
	if len(text) > 300 {
		return "a longer text"
	}
	return text
}
