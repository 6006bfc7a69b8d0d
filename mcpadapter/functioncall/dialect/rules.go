package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Rules are what one vendor takes in one mode. They are data: a new limit is a
// new number. Treat them as read-only.
type Rules struct {
	Name   string // "openai_strict"
	Date   string // when Source was read, or last known to say so
	Source string // where the vendor says so

	Tool Naming // of functions
	Key  Naming // of properties; the zero Naming takes any name

	MaxDescription   int  // characters of a function's description; 0: no bound
	NeedsDescription bool // an empty one is refused

	// Keywords are those that are taken. Nil: all of them below the root.
	Keywords []string
	// Formats are those that are taken. Nil: all.
	Formats []string

	// AllRequired: every object is closed and every property required.
	AllRequired bool
	// OpenAPI: null is said by nullable, an enum has strings only, an anyOf
	// stands alone, each value has one type, and no object is without properties.
	OpenAPI bool
	// Refs: references to $defs are followed, also in a circle.
	Refs bool

	MaxDepth      int // levels of objects and arrays; 0: 64
	MaxProperties int // in all; 0: no bound
	MaxEnum       int // values in all; 0: no bound
	MaxChars      int // of names and enum values in all; 0: no bound
}

// A Naming says which names there are: letters and digits of ASCII, Chars, up to
// Max bytes.
type Naming struct {
	Chars       string
	Max         int  // 0: any name
	LetterFirst bool // or an underscore
}

// Takes reports whether a name is one.
func (n Naming) Takes(s string) bool {
	if n.Max == 0 {
		return true
	}
	for i := range len(s) {
		if !n.char(s[i]) || i == 0 && n.LetterFirst && s[0] != '_' && !letter(s[0]) {
			return false
		}
	}
	return s != "" && len(s) <= n.Max
}

func (n Naming) char(c byte) bool {
	return letter(c) || '0' <= c && c <= '9' || strings.IndexByte(n.Chars, c) >= 0
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// digestChars are how much of a digest makes a name one of its own.
const digestChars = 10

// Replace returns the name itself if it is one, and otherwise one that is made of
// what can be kept and of a digest of all of it, so that what was cut or replaced
// still tells two names apart (S-03, S-05).
func (n Naming) Replace(s string) string {
	if n.Takes(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	var stem strings.Builder
	for i := range len(s) {
		if n.char(s[i]) {
			stem.WriteByte(s[i])
		} else if c := stem.String(); c != "" && c[len(c)-1] != '_' {
			stem.WriteByte('_')
		}
	}
	kept := strings.TrimRight(stem.String(), "_")
	if n.LetterFirst && (kept == "" || kept[0] != '_' && !letter(kept[0])) {
		kept = "n_" + kept
	}
	if room := n.Max - digestChars - 1; len(kept) > room {
		kept = kept[:room]
	}
	return strings.TrimLeft(kept+"_", "_-") + hex.EncodeToString(sum[:])[:digestChars]
}

// Names returns the vendor's name for each of the names of functions, no two
// alike. A name that is given twice, or whose replacement is another's, is an
// error that names both.
func (r *Rules) Names(originals []string) (map[string]string, error) {
	return replaceAll(r.Tool, originals)
}

func replaceAll(n Naming, originals []string) (map[string]string, error) {
	out, taken := map[string]string{}, map[string]string{}
	for _, o := range originals {
		name := n.Replace(o)
		if other, ok := taken[name]; ok {
			return nil, fmt.Errorf("dialect: %q cannot be told from %q; rename one", o, other)
		}
		out[o], taken[name] = name, o
	}
	return out, nil
}

// Describe returns the description of a function as the vendor takes it, and what
// was lost of it.
func (r *Rules) Describe(tool, s string) (string, []Loss) {
	if s == "" && r.NeedsDescription {
		return "The function " + tool + ".", nil
	}
	if r.MaxDescription == 0 || utf8.RuneCountInString(s) <= r.MaxDescription {
		return s, nil
	}
	return string([]rune(s)[:r.MaxDescription-1]) + "…",
		[]Loss{{Tool: tool, Kind: Annotation, What: fmt.Sprintf("the description is over %d characters, and is cut", r.MaxDescription)}}
}

var errBounds = errors.New("dialect: the schema is nested too deep or unfolds to too much; make it smaller")

var (
	plainName  = Naming{Chars: "_-", Max: 64}
	claudeKey  = Naming{Chars: "_.-", Max: 64}
	geminiName = Naming{Chars: "_.-", Max: 64, LetterFirst: true}
	geminiKey  = Naming{Chars: "_", Max: 64, LetterFirst: true}

	openAIStrict = []string{"type", "description", "title", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref",
		"pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
	azureStrict   = []string{"type", "description", "title", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref"}
	openAIFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
	geminiSchema  = []string{"type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties", "required",
		"minProperties", "maxProperties", "minLength", "maxLength", "pattern", "anyOf", "minimum", "maximum"}
)

const (
	openAIFunctions = "https://platform.openai.com/docs/guides/function-calling"
	openAIOutputs   = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"
	azureOutputs    = "https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs"
)

// The dialects. A schema for OpenAI's Responses and Chat is the same; what differs
// is around it.
var (
	OpenAI = &Rules{Name: "openai", Date: "2026-07", Source: openAIFunctions,
		Tool: plainName, MaxDescription: 1024, Refs: true}

	OpenAIStrict = &Rules{Name: "openai_strict", Date: "2026-07", Source: openAIOutputs,
		Tool: plainName, MaxDescription: 1024, Refs: true, AllRequired: true, Keywords: openAIStrict, Formats: openAIFormats,
		MaxDepth: 10, MaxProperties: 5000, MaxEnum: 1000, MaxChars: 120_000}

	Azure = &Rules{Name: "azure", Date: "2026-07", Source: "https://learn.microsoft.com/azure/ai-foundry/openai/how-to/function-calling",
		Tool: plainName, MaxDescription: 1024, Refs: true}

	// AzureStrict takes less than OpenAIStrict, also of what both call by one name.
	AzureStrict = &Rules{Name: "azure_strict", Date: "2026-07", Source: azureOutputs,
		Tool: plainName, MaxDescription: 1024, Refs: true, AllRequired: true, Keywords: azureStrict, Formats: []string{},
		MaxDepth: 5, MaxProperties: 100, MaxEnum: 500, MaxChars: 15_000}

	// Anthropic's names could be longer: 64 is what its older models take.
	Anthropic = &Rules{Name: "anthropic", Date: "2026-07", Source: "https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use",
		Tool: plainName, Key: claudeKey, Refs: true}

	// Gemini is the parameters of a function declaration, a subset of OpenAPI's
	// Schema. The rule for names of properties is a careful one: replacing a name
	// costs nothing.
	Gemini = &Rules{Name: "gemini", Date: "2026-07", Source: "https://ai.google.dev/api/caching#Schema",
		Tool: geminiName, Key: geminiKey, OpenAPI: true, Keywords: geminiSchema, Formats: []string{"date-time", "enum", "int32", "int64", "float", "double"}}

	Mistral = &Rules{Name: "mistral", Date: "2026-07", Source: "https://docs.mistral.ai/capabilities/function_calling/",
		Tool: plainName, Refs: true}

	// Bedrock carries the models of many: the narrowest rule for names of
	// properties is that of Anthropic's.
	Bedrock = &Rules{Name: "bedrock", Date: "2026-07", Source: "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html",
		Tool: plainName, Key: claudeKey, NeedsDescription: true, Refs: true}
)

// All returns the dialects, in a fixed order.
func All() []*Rules {
	return []*Rules{OpenAI, OpenAIStrict, Azure, AzureStrict, Anthropic, Gemini, Mistral, Bedrock}
}
