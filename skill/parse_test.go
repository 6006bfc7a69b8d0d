package skill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// L1: a text that two readers read differently has no Document, and the error says
// where and what to do.
func TestUnreadable_L1(t *testing.T) {
	for _, row := range []struct {
		name, text   string
		rule         Rule
		line, column int
	}{
		{"no front matter", "# Title\n", RuleFence, 1, 1},
		{"an empty file", "", RuleFence, 1, 1},
		{"a blank line before", "\n---\nname: a\n---\n", RuleFence, 1, 1},
		{"text on the line of the fence", "---name: a\n---\n", RuleFence, 1, 1},
		{"front matter without an end", "---\nname: a\n", RuleFence, 1, 1},
		{"front matter without fields", "---\n---\nbody", RuleYAMLSyntax, 2, 1},
		{"front matter that is a list", "---\n- a\n---\n", RuleYAMLSyntax, 2, 1},
		{"front matter that is text", "---\nhello\n---\n", RuleYAMLSyntax, 2, 1},
		{"front matter that is a comment", "---\n# x\n---\n", RuleYAMLSyntax, 2, 1},
		{"an unquoted colon", "---\nname: a\ndescription: Use this: it works\n---\n", RuleYAMLSyntax, 3, 22},
		{"a value that begins with @", "---\nname: a\ndescription: @Observable\n---\n", RuleYAMLSyntax, 3, 14},
		{"a tab as indentation", "---\nmetadata:\n\ta: b\n---\n", RuleYAMLSyntax, 3, 1},
		{"a key twice", "---\nname: a\nname: b\n---\n", RuleYAMLDuplicate, 3, 1},
		{"a key twice, further down", "---\nmetadata:\n  x: 1\n  x: 2\n---\n", RuleYAMLDuplicate, 4, 3},
		{"an anchor", "---\nname: &a b\n---\n", RuleYAMLAlias, 2, 7},
		{"an alias", "---\nname: &a b\nlicense: *a\n---\n", RuleYAMLAlias, 2, 7},
		{"a merge key", "---\nmetadata:\n  <<: {a: b}\n---\n", RuleYAMLKey, 3, 3},
		{"a tag", "---\nname: !!str 1\n---\n", RuleYAMLTag, 2, 7},
		{"a tag of a program", "---\nname: !!python/object x\n---\n", RuleYAMLTag, 2, 7},
		{"a key that is a list", "---\n? [a]\n: b\n---\n", RuleYAMLKey, 2, 3},
		{"nested too deeply", "---\na: [[[[[[[[x]]]]]]]]\n---\n", RuleYAMLDepth, 2, 11},
		{"nested far too deeply", "---\na: " + strings.Repeat("[", 20000) + "\n---\n", RuleYAMLSyntax, 2, 1},
		{"not UTF-8", "---\nname: a\xff\n---\n", RuleEncoding, 2, 1},
		{"a NUL", "---\nname: a\n---\n\x00", RuleEncoding, 4, 1},
		{"an escaped NUL", "---\nname: \"a\\0\"\n---\n", RuleYAMLSyntax, 2, 7},
		{"UTF-16", "\xff\xfe-\x00-\x00", RuleEncoding, 1, 1},
		{"too much front matter", "---\na: " + strings.Repeat("x", MaxFrontMatter) + "\n---\n", RuleSize, 2, 1},
		{"front matter that goes on and on", "---\n" + strings.Repeat("a\n", MaxFrontMatter), RuleSize, 0, 1},
		{"too long a file", good + strings.Repeat("x", MaxText), RuleSize, 1, 1},
		{"a second document", "---\nname: a\n...\nname: b\n---\n", RuleYAMLSyntax, 4, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			doc, err := Parse([]byte(row.text))
			require.Nil(t, doc)
			require.ErrorIs(t, err, toolresult.InvalidInput)
			v := (*err.(*Invalid))[0]
			require.Equal(t, row.rule, v.Rule, err)
			require.NotEmpty(t, v.Mend)
			require.NotEmpty(t, v.Problem)
			if row.line > 0 && len(row.text) < 10000 {
				require.Equal(t, fmt.Sprint(row.line, ":", row.column), fmt.Sprint(v.Line, ":", v.Column), err)
			}
			for _, p := range []Profile{Lenient(), {}, Lenient().With(row.rule, Off)} {
				require.Equal(t, Error, p.Level(row.rule), "no profile turns it off")
			}
		})
	}
}

// Every violation of every rule, with its place and its weight in lenient, spec,
// reference and portable: E, W or -.
func TestRules_L1(t *testing.T) {
	fm := func(lines string) string { return "---\n" + lines + "---\n# Body\n" }
	named := func(lines string) string { return fm("name: a\ndescription: b\n" + lines) }
	for _, row := range []struct {
		name, text, dir string
		rule            Rule
		levels          string
		line, column    int
	}{
		{"a byte order mark", "\ufeff" + named(""), "", RuleBOM, "WWEE", 1, 1},
		{"CR line ends", strings.ReplaceAll(named(""), "\n", "\r\n"), "", RuleLineEnds, "WW-E", 1, 1},
		{"blanks after the fence", "---  \nname: a\ndescription: b\n---\nx", "", RuleFenceBlanks, "WW-E", 1, 4},
		{"three dashes in a value", fm("name: a\ndescription: b --- c\n"), "", RuleFenceInside, "WW-E", 3, 16},
		{"flow style", named("tags: [a, b]\n"), "", RuleYAMLFlow, "--EE", 4, 7},
		{"a tab in a value", fm("name: a\ndescription: b\tc\n"), "", RuleYAMLTab, "WWEE", 3, 15},
		{"a number", named("metadata:\n  version: 1.10\n"), "", RuleAmbiguous, "-W-E", 5, 12},
		{"a date", named("metadata:\n  created: 2026-01-02\n"), "", RuleAmbiguous, "-W-E", 5, 12},
		{"yes", named("metadata:\n  safe: yes\n"), "", RuleAmbiguous, "-W-E", 5, 9},
		{"an octal that is none", named("metadata:\n  mode: 017\n"), "", RuleAmbiguous, "-W-E", 5, 9},
		{"a time in base 60", named("metadata:\n  at: 12:30\n"), "", RuleAmbiguous, "-W-E", 5, 7},
		{"a grouped number", named("metadata:\n  m: 1_000\n"), "", RuleAmbiguous, "-W-E", 5, 6},
		{"a key that is a number", named("metadata:\n  1: x\n"), "", RuleAmbiguous, "-W-E", 5, 3},
		{"text turned around", fm("name: a\ndescription: b\u202ec\n"), "", RuleHidden, "WW-E", 3, 15},
		{"a tag character in the body", named("") + "x\U000E0041\n", "", RuleHidden, "WW-E", 6, 2},
		{"no name", fm("description: b\n"), "", RuleNameMissing, "WEEE", 1, 1},
		{"an empty name", fm("name:\ndescription: b\n"), "", RuleNameMissing, "WEEE", 2, 6},
		{"a blank name", fm("name: ' '\ndescription: b\n"), "", RuleNameMissing, "WEEE", 2, 7},
		{"a name that is a list", fm("name:\n- a\ndescription: b\n"), "", RuleNameType, "WEEE", 3, 1},
		{"a long name", fm("name: " + strings.Repeat("a", 65) + "\ndescription: b\n"), "", RuleNameLength, "WEEE", 2, 7},
		{"blanks around a name", fm("name: ' a '\ndescription: b\n"), "", RuleNameSpace, "WE-E", 2, 7},
		{"a blank in a name", fm("name: a b\ndescription: b\n"), "", RuleNameCharset, "WEEE", 2, 7},
		{"an underscore in a name", fm("name: a_b\ndescription: b\n"), "", RuleNameCharset, "WEEE", 2, 7},
		{"an emoji in a name", fm("name: a🚀\ndescription: b\n"), "", RuleNameCharset, "WEEE", 2, 7},
		{"vowel signs in a name", fm("name: हिन्दी\ndescription: b\n"), "", RuleNameCharset, "WEEE", 2, 7},
		{"a Chinese name", fm("name: 技能\ndescription: b\n"), "", RuleNameASCII, "-W-E", 2, 7},
		{"an upper-case name", fm("name: Aa\ndescription: b\n"), "", RuleNameCase, "WEEE", 2, 7},
		{"a hyphen first", fm("name: -a\ndescription: b\n"), "", RuleNameHyphen, "WEEE", 2, 7},
		{"a hyphen last", fm("name: a-\ndescription: b\n"), "", RuleNameHyphen, "WEEE", 2, 7},
		{"two hyphens", fm("name: a--b\ndescription: b\n"), "", RuleNameHyphen, "WEEE", 2, 7},
		{"another directory", named(""), "b", RuleNameDirectory, "WEEE", 2, 7},
		{"a vendor's word", fm("name: claude-x\ndescription: b\n"), "", RuleNameVendor, "---E", 2, 7},
		{"no description", fm("name: a\n"), "", RuleDescriptionMissing, "EEEE", 1, 1},
		{"an empty description", fm("name: a\ndescription: ''\n"), "", RuleDescriptionMissing, "EEEE", 3, 14},
		{"a description that is a map", fm("name: a\ndescription:\n  b: c\n"), "", RuleDescriptionType, "EEEE", 4, 3},
		{"a long description", fm("name: a\ndescription: " + strings.Repeat("語", 1025) + "\n"), "", RuleDescriptionLength, "WEEE", 3, 14},
		{"a description of 1024 characters and a line end", fm("name: a\ndescription: |\n  " + strings.Repeat("a", 1024) + "\n"), "", RuleDescriptionLength, "WEEE", 3, 14},
		{"markup", fm("name: a\ndescription: a <b> c\n"), "", RuleDescriptionMarkup, "---E", 3, 14},
		{"a licence that is a list", named("license:\n- MIT\n"), "", RuleLicenseType, "WE-E", 5, 1},
		{"a compatibility that is a list", named("compatibility:\n- x\n"), "", RuleCompatibilityType, "WEEE", 5, 1},
		{"an empty compatibility", named("compatibility: ''\n"), "", RuleCompatibilityEmpty, "-E-E", 4, 16},
		{"a long compatibility", named("compatibility: " + strings.Repeat("a", 501) + "\n"), "", RuleCompatibilityLength, "WEEE", 4, 16},
		{"metadata that is text", named("metadata: x\n"), "", RuleMetadataType, "WE-E", 4, 11},
		{"metadata of metadata", named("metadata:\n  a:\n    b: c\n"), "", RuleMetadataValue, "WE-E", 6, 5},
		{"tools as a list", named("allowed-tools:\n- Read\n"), "", RuleToolsType, "WE-E", 5, 1},
		{"tools with commas", named("allowed-tools: Read, Write\n"), "", RuleToolsCommas, "-W-E", 4, 16},
		{"another field", named("version: one\n"), "", RuleUnknown, "-WEE", 4, 1},
		{"no body", "---\nname: a\ndescription: b\n---\n", "", RuleBodyEmpty, "WW-W", 5, 1},
		{"a long body", named("") + strings.Repeat("x\n", 500), "", RuleBodyLong, "-W-W", 501, 1},
		{"a link to the machine", named("") + "see [x](/etc/passwd)\n", "", RuleLinkAbsolute, "WW-E", 6, 9},
		{"a link to the home", named("") + "[x]: ~/.ssh/id\n", "", RuleLinkAbsolute, "WW-E", 6, 5},
		{"a link to a drive", named("") + "[x](c:/x)\n", "", RuleLinkAbsolute, "WW-E", 6, 5},
		{"a link to a file URL", named("") + "[x](file:///x)\n", "", RuleLinkAbsolute, "WW-E", 6, 5},
		{"a link out", named("") + "é ![x](<../other/x.md> 'title')\n", "", RuleLinkEscape, "WW-E", 6, 8},
		{"a link out by a detour", named("") + "[x](a/../../x.md)\n", "", RuleLinkEscape, "WW-E", 6, 5},
		{"a link out in disguise", named("") + "[x](%2e%2e/x.md)\n", "", RuleLinkEscape, "WW-E", 6, 5},
		{"a link out with backslashes", named("") + `[x](..\x.md)` + "\n", "", RuleLinkEscape, "WW-E", 6, 5},
		{"a link far down", named("") + "[x](a/b/c.md)\n", "", RuleLinkDeep, "-W-W", 6, 5},
	} {
		t.Run(row.name, func(t *testing.T) {
			doc, err := Parse([]byte(row.text))
			require.NoError(t, err)
			got := ""
			for _, p := range []Profile{Lenient(), Spec(), Reference(), Portable()} {
				level := "-"
				for _, v := range doc.Check(p, row.dir) {
					if v.Rule == row.rule {
						level = strings.ToUpper(v.Level.String()[:1])
						require.Equal(t, fmt.Sprint(row.line, ":", row.column), fmt.Sprint(v.Line, ":", v.Column), v)
						require.NotEmpty(t, v.Mend)
					}
				}
				got += level
			}
			require.Equal(t, row.levels, got)
			require.NotEmpty(t, doc.Check(Profile{}, row.dir), "the zero Profile reports all")
			require.Error(t, doc.Check(Profile{}, row.dir).Err())
			require.Empty(t, rulesOf(doc.Check(Portable().With(row.rule, Off), row.dir))[row.rule])
		})
	}
}

func TestInvisible_L1(t *testing.T) {
	for r := range rune(unicode.MaxRune) {
		if want := unicode.Is(unicode.Bidi_Control, r) || r>>7 == 0xE0000>>7; want != invisible(r) {
			t.Fatalf("%x", r)
		} else if want && !bytes.Contains([]byte{0xD8, 0xE2, 0xF3}, []byte{string(r)[0]}) {
			t.Fatalf("%x has another first byte", r)
		}
	}
}

// What is allowed everywhere is not reported anywhere.
func TestAccepted_L1(t *testing.T) {
	for _, row := range []struct{ name, text string }{
		{"the shortest", "---\nname: a\ndescription: b\n---\nx"},
		{"everything", "---\nname: a\ndescription: b\nlicense: MIT\ncompatibility: needs git\nmetadata:\n  version: \"1.10\"\nallowed-tools: Read Bash(git add *, git commit *)\n---\nx"},
		{"a description of 1024 characters, which are 3072 bytes", "---\nname: a\ndescription: " + strings.Repeat("語", 1024) + "\n---\nx"},
		{"a folded description", "---\nname: a\ndescription: >-\n  b\n  c\n---\nx"},
		{"links that lead to no file", "---\nname: a\ndescription: b\n---\n[a](https://example.com/../x) [b](#c) [d](mailto:x@example.com) `[e](/f)` [g](//example.com/h) [i]({{j}})\n```\n[k](/l)\n```\n~~~md\n```\n[m](/n)\n~~~\n"},
		{"three dashes in the body", "---\nname: a\ndescription: b\n---\nx\n---\ny"},
	} {
		t.Run(row.name, func(t *testing.T) {
			doc, err := Parse([]byte(row.text))
			require.NoError(t, err)
			for _, p := range []Profile{Lenient(), Spec(), Reference(), Portable()} {
				require.Empty(t, doc.Check(p, "a"), p.Name())
			}
		})
	}
}

func TestDocument_L1(t *testing.T) {
	doc, err := Parse([]byte("---\nname: a\ndescription: |\n  one\n  two\nlicense: ~\nmetadata:\n  version: 1.10\n  made: 2026-01-02\n  n:\n    x: y\nextra: 017\n---\nBody\n---\nmore"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", doc.Description)
	require.Equal(t, "", doc.License)
	require.Equal(t, map[string]string{"version": "1.10", "made": "2026-01-02"}, doc.Metadata)
	require.Equal(t, []string{"extra"}, doc.Unknown)
	require.Equal(t, "Body\n---\nmore", doc.Body)
}

// The front matter as hosts compare it: the core schema of YAML 1.2, every field
// in order.
func TestJSON_L1(t *testing.T) {
	for _, row := range []struct{ yaml, json string }{
		{"017", `17`}, {"0o17", `15`}, {"0x1F", `31`}, {"-5", `-5`}, {"+5", `5`}, {"-0", `0`},
		{"1_000", `"1_000"`}, {"0b11", `"0b11"`}, {"2026-01-02", `"2026-01-02"`}, {"yes", `"yes"`}, {"12:30", `"12:30"`},
		{"1.10", `1.1`}, {".5", `0.5`}, {"1.", `1`}, {"1e3", `1000`}, {"-1.5E-7", `-1.5e-7`}, {"1e21", `1e+21`}, {"-0.0", `0`},
		{"true", `true`}, {"TRUE", `true`}, {"tRUE", `"tRUE"`}, {"null", `null`}, {"~", `null`}, {"", `null`}, {"nULL", `"nULL"`},
		{`"017"`, `"017"`}, {"'true'", `"true"`}, {"a<b>&c", `"a<b>&c"`}, {"é", `"é"`},
		{".", `"."`}, {"+", `"+"`}, {"1e", `"1e"`}, {"1e+", `"1e+"`}, {"0x", `"0x"`}, {"0o8", `"0o8"`}, {"-0x1", `"-0x1"`},
		{"[a, 1]", `["a",1]`}, {"{b: 1, a: 2}", `{"b":1,"a":2}`}, {"9007199254740992", `9007199254740992`},
	} {
		doc, err := Parse([]byte("---\nx: " + row.yaml + "\n---\n"))
		require.NoError(t, err, row.yaml)
		got, err := doc.JSON()
		require.NoError(t, err, row.yaml)
		require.Equal(t, `{"x":`+row.json+`}`, string(got), row.yaml)
		require.True(t, json.Valid(got))
	}
	for _, s := range []string{".inf", "-.INF", ".nan", "1e999", "9007199254740993", "99999999999999999999", "0xFFFFFFFFFFFFFFFFF"} {
		doc, err := Parse([]byte("---\na: 1\nx: " + s + "\n---\n"))
		require.NoError(t, err, s)
		_, err = doc.JSON()
		require.ErrorIs(t, err, ErrNoJSON, s)
		require.ErrorContains(t, err, "line 3")
		require.Error(t, doc.Check(Portable(), "").Err(), "a portable skill has a form in JSON")
	}
}

func TestToolHints_L5(t *testing.T) {
	for _, row := range []struct {
		yaml string
		want []string
	}{
		{"Read Write", []string{"Read", "Write"}},
		{"Read, Write,Edit", []string{"Read", "Write", "Edit"}},
		{"Bash(git add *), Read", []string{"Bash(git add *)", "Read"}},
		{"Bash(a(b c) d)  Read", []string{"Bash(a(b c) d)", "Read"}},
		{"[Read, 'Bash(git *)']", []string{"Read", "Bash(git *)"}},
		{"Bash(never closed Read", []string{"Bash(never closed Read"}},
		{"a) b", []string{"a)", "b"}},
		{"{Read: yes}", nil},
		{"", nil},
		{"'*'", []string{"*"}},
	} {
		doc, err := Parse([]byte("---\nname: a\nallowed-tools: " + row.yaml + "\n---\n"))
		require.NoError(t, err)
		var got []string
		for _, h := range doc.AllowedTools {
			got = append(got, h.String())
		}
		require.Equal(t, row.want, got, row.yaml)
	}
}

func TestViolationText(t *testing.T) {
	doc, err := Parse([]byte("---\nname: a\ndescription: b\n\"x\\ny" + strings.Repeat("z", 80) + "\": c\n---\nx"))
	require.NoError(t, err)
	err = doc.Check(Portable(), "a").Err()
	require.ErrorIs(t, err, toolresult.InvalidInput)
	require.Equal(t, 1, strings.Count(err.Error(), "skill: SKILL.md:4:1: error: field/unknown: the specification has no field \"x\\nyzzz"))
	require.NotContains(t, err.Error(), "\n")
	require.Less(t, len(err.Error()), 250)
	require.Equal(t, []string{"error", "warning", "off"}, []string{Error.String(), Warning.String(), Off.String()})
	require.Equal(t, "portable", Portable().With(RuleUnknown, Off).Name())
}
