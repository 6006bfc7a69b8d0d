package skill

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Level says how much the breach of a rule weighs. The zero Level is Error: a
// rule that a [Profile] does not know is not broken silently.
type Level uint8

const (
	Error   Level = iota // not valid
	Warning              // valid, and worth a look
	Off                  // not reported
)

// String returns "error", "warning" or "off".
func (l Level) String() string {
	switch l {
	case Error:
		return "error"
	case Warning:
		return "warning"
	}
	return "off"
}

// Rule names a rule. The names do not change; more may come.
type Rule string

// Rules that every profile holds: a text that breaks one has no [Document].
const (
	RuleSize          Rule = "file/size"
	RuleEncoding      Rule = "file/encoding"
	RuleFence         Rule = "fence/missing"
	RuleYAMLSyntax    Rule = "yaml/syntax"
	RuleYAMLDepth     Rule = "yaml/depth"
	RuleYAMLDuplicate Rule = "yaml/duplicate-key"
	RuleYAMLAlias     Rule = "yaml/alias"
	RuleYAMLTag       Rule = "yaml/tag"
	RuleYAMLKey       Rule = "yaml/key"
)

// Rules that a profile weighs.
const (
	RuleBOM         Rule = "file/byte-order-mark"
	RuleLineEnds    Rule = "file/line-ends"
	RuleFenceBlanks Rule = "fence/blanks"
	RuleFenceInside Rule = "fence/inside"
	RuleYAMLFlow    Rule = "yaml/flow-style"
	RuleYAMLTab     Rule = "yaml/tab"
	RuleAmbiguous   Rule = "yaml/ambiguous-value"
	RuleHidden      Rule = "text/hidden-characters"

	RuleNameMissing   Rule = "name/missing"
	RuleNameType      Rule = "name/type"
	RuleNameLength    Rule = "name/length"
	RuleNameSpace     Rule = "name/space-around"
	RuleNameCharset   Rule = "name/characters"
	RuleNameASCII     Rule = "name/ascii"
	RuleNameCase      Rule = "name/upper-case"
	RuleNameHyphen    Rule = "name/hyphen"
	RuleNameDirectory Rule = "name/directory"
	RuleNameVendor    Rule = "name/vendor"

	RuleDescriptionMissing Rule = "description/missing"
	RuleDescriptionType    Rule = "description/type"
	RuleDescriptionLength  Rule = "description/length"
	RuleDescriptionMarkup  Rule = "description/markup"

	RuleLicenseType         Rule = "license/type"
	RuleCompatibilityType   Rule = "compatibility/type"
	RuleCompatibilityEmpty  Rule = "compatibility/empty"
	RuleCompatibilityLength Rule = "compatibility/length"
	RuleMetadataType        Rule = "metadata/type"
	RuleMetadataValue       Rule = "metadata/value"
	RuleToolsType           Rule = "allowed-tools/type"
	RuleToolsCommas         Rule = "allowed-tools/commas"
	RuleUnknown             Rule = "field/unknown"

	RuleBodyEmpty    Rule = "body/empty"
	RuleBodyLong     Rule = "body/long"
	RuleLinkAbsolute Rule = "link/absolute"
	RuleLinkEscape   Rule = "link/escape"
	RuleLinkDeep     Rule = "link/deep"
	RuleLinkMissing  Rule = "link/missing"
	RuleNested       Rule = "package/nested-skill"
	RuleOverMCP      Rule = "package/over-mcp-limits"
)

// table is the profiles, and how to mend what breaks a rule.
var table = []struct {
	rule                               Rule
	lenient, spec, reference, portable Level
	mend                               string
}{
	{RuleBOM, Warning, Warning, Error, Error, "save the file as UTF-8 without a byte order mark"},
	{RuleLineEnds, Warning, Warning, Off, Error, "save the file with LF line ends, and say so in .gitattributes"},
	{RuleFenceBlanks, Warning, Warning, Off, Error, "remove the blanks after the three dashes"},
	{RuleFenceInside, Warning, Warning, Off, Error, "write the value without three dashes: some readers end the front matter there"},
	{RuleYAMLFlow, Off, Off, Error, Error, "write one entry per line instead of brackets, and text that begins with a bracket in quotes"},
	{RuleYAMLTab, Warning, Warning, Error, Error, "replace the tab by a blank"},
	{RuleAmbiguous, Off, Warning, Off, Error, "put the value in quotes"},
	{RuleHidden, Warning, Warning, Off, Error, "remove the character: people do not see it and models do"},
	{RuleNameMissing, Warning, Error, Error, Error, "add a line with name: and the name of the directory"},
	{RuleNameType, Warning, Error, Error, Error, "write the name as one word of text"},
	{RuleNameLength, Warning, Error, Error, Error, "shorten the name to 64 characters"},
	{RuleNameSpace, Warning, Error, Off, Error, "remove the blanks around the name"},
	{RuleNameCharset, Warning, Error, Error, Error, "use lower-case letters, digits and hyphens alone"},
	{RuleNameASCII, Off, Warning, Off, Error, "use a to z, 0 to 9 and hyphens: some hosts load no other name"},
	{RuleNameCase, Warning, Error, Error, Error, "write the name in lower case"},
	{RuleNameHyphen, Warning, Error, Error, Error, "begin and end with a letter or digit, and put one hyphen between words"},
	{RuleNameDirectory, Warning, Error, Error, Error, "give the directory and the field name the same name"},
	{RuleNameVendor, Off, Off, Off, Error, "leave the vendor's word out: some hosts refuse it"},
	{RuleDescriptionMissing, Error, Error, Error, Error, "add a description of what the skill does and when to use it"},
	{RuleDescriptionType, Error, Error, Error, Error, "write the description as text"},
	{RuleDescriptionLength, Warning, Error, Error, Error, "shorten the description to 1024 characters and move the rest into the body"},
	{RuleDescriptionMarkup, Off, Off, Off, Error, "write the description without <tags>: some hosts refuse or strip them"},
	{RuleLicenseType, Warning, Error, Off, Error, "write the licence's name, or the name of its file, as text"},
	{RuleCompatibilityType, Warning, Error, Error, Error, "write compatibility as one text"},
	{RuleCompatibilityEmpty, Off, Error, Off, Error, "remove the field, or say what is needed"},
	{RuleCompatibilityLength, Warning, Error, Error, Error, "shorten it to 500 characters and move the rest into the body"},
	{RuleMetadataType, Warning, Error, Off, Error, "write metadata as names with values, one per line"},
	{RuleMetadataValue, Warning, Error, Off, Error, "write the value as text, in quotes"},
	{RuleToolsType, Warning, Error, Off, Error, "write one line of patterns with blanks between them"},
	{RuleToolsCommas, Off, Warning, Off, Error, "put blanks instead of commas between the patterns"},
	{RuleUnknown, Off, Warning, Error, Error, "move the field below metadata, or remove it"},
	{RuleBodyEmpty, Warning, Warning, Off, Warning, "write the method below the front matter"},
	{RuleBodyLong, Off, Warning, Off, Warning, "move details into files below references/ and say when to read them"},
	{RuleLinkAbsolute, Warning, Warning, Off, Error, "name a file of the skill by its path from SKILL.md"},
	{RuleLinkEscape, Warning, Warning, Off, Error, "copy the file into the skill: nothing outside of it is part of the release"},
	{RuleLinkDeep, Off, Warning, Off, Warning, "keep files one level below the skill"},
	{RuleLinkMissing, Warning, Warning, Off, Error, "add the file, or mend its path"},
	{RuleNested, Off, Warning, Off, Warning, "release the inner skill on its own"},
	{RuleOverMCP, Off, Warning, Off, Error, "leave files out: hosts of MCP take 512 files and 16 MiB"},
}

// fatal is how to mend what has no Document.
var fatal = map[Rule]string{
	RuleSize:          "shorten it, and move details into other files",
	RuleEncoding:      "save the file as UTF-8 text",
	RuleFence:         "put a line of three dashes before and after the front matter",
	RuleYAMLSyntax:    "mend the YAML: text with a colon, or that begins with @, ` or a bracket, needs quotes",
	RuleYAMLDepth:     "write the front matter flatter",
	RuleYAMLDuplicate: "keep one of the two lines",
	RuleYAMLAlias:     "write the value out where it is used",
	RuleYAMLTag:       "remove the tag",
	RuleYAMLKey:       "write the field's name as text",
}

// Profile says how much the breach of each rule weighs. It is immutable. The
// zero Profile reports every breach as an Error.
type Profile struct {
	name   string
	levels map[Rule]Level
}

func profile(name string, level func(i int) Level) Profile {
	p := Profile{name, make(map[Rule]Level, len(table))}
	for i := range table {
		p.levels[table[i].rule] = level(i)
	}
	return p
}

// Lenient is the rules of the client guide: load what can be loaded.
func Lenient() Profile {
	return profile("lenient", func(i int) Level { return table[i].lenient })
}

// Spec is the prose of the Agent Skills specification. Where the prose
// contradicts itself (letters outside of a to z in a name) or is silent (other
// fields), it warns.
func Spec() Profile {
	return profile("spec", func(i int) Level { return table[i].spec })
}

// Reference gives the verdict of the specification's reference validator,
// skills-ref 0.1.0, which reads a subset of YAML. It differs from it where that
// validator takes a text that no two readers read alike, or cuts one off: see
// the test over recorded verdicts.
func Reference() Profile {
	return profile("reference", func(i int) Level { return table[i].reference })
}

// Portable is what all other profiles accept and every host that we know loads
// alike. It is what a release is held to.
func Portable() Profile {
	return profile("portable", func(i int) Level { return table[i].portable })
}

// With returns a profile that weighs one rule differently. The rules without
// which there is no [Document] stay errors.
func (p Profile) With(r Rule, l Level) Profile {
	p.levels = maps.Clone(p.levels)
	if p.levels == nil {
		p.levels = map[Rule]Level{}
	}
	p.levels[r] = l
	return p
}

// Name returns "lenient", "spec", "reference" or "portable", and "" for the
// zero Profile.
func (p Profile) Name() string { return p.name }

// Level says how much the breach of a rule weighs.
func (p Profile) Level(r Rule) Level {
	if _, always := fatal[r]; always {
		return Error
	}
	return p.levels[r]
}

// Violation is the breach of one rule. Its texts are ours, except for the names
// of fields and files, which are quoted and cut.
type Violation struct {
	Rule         Rule
	Level        Level
	File         string // the path in the skill; "SKILL.md" for a Document
	Line, Column int    // from 1, in the file; columns count characters
	Problem      string // what is wrong
	Mend         string // what to do about it
}

// String returns one line: "SKILL.md:3:7: error: name/length: ...; do ...".
func (v Violation) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s: %s; %s", v.File, v.Line, v.Column, v.Level, v.Rule, v.Problem, v.Mend)
}

func refusal(r Rule, line, column int, problem string) Violation {
	return Violation{r, Error, entry, line, max(column, 1), problem, fatal[r]}
}

// Invalid is the error of a skill that breaks rules. It matches
// [toolresult.InvalidInput].
type Invalid []Violation

// Error returns one line per violation.
func (e *Invalid) Error() string {
	lines := make([]string, 0, len(*e))
	for _, v := range *e {
		lines = append(lines, "skill: "+v.String())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the code.
func (e *Invalid) Unwrap() error { return toolresult.InvalidInput }

// Violations are breaches, in the order of the text.
type Violations []Violation

// Err returns an [*Invalid] with those that are errors, or nil if there are
// none.
func (vs Violations) Err() error {
	var out Invalid
	for _, v := range vs {
		if v.Level == Error {
			out = append(out, v)
		}
	}
	if out == nil {
		return nil
	}
	return &out
}

func (vs Violations) sort() {
	slices.SortStableFunc(vs, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
