package skill_test

import (
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/skill"
)

func ExampleDocument_Check() {
	doc, err := skill.Parse([]byte("---\nname: Incident diagnosis\ndescription: Diagnoses alerts.\nversion: 1.4\n---\n# Method\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range doc.Check(skill.Spec(), "incident-diagnosis") {
		fmt.Println(v)
	}
	// Output:
	// SKILL.md:2:7: error: name/upper-case: the name has upper-case letters; write the name in lower case
	// SKILL.md:2:7: error: name/characters: the name has other characters than letters, digits and hyphens; use lower-case letters, digits and hyphens alone
	// SKILL.md:2:7: error: name/directory: the name is not that of the directory, "incident-diagnosis"; give the directory and the field name the same name
	// SKILL.md:4:1: warning: field/unknown: the specification has no field "version"; move the field below metadata, or remove it
	// SKILL.md:4:10: warning: yaml/ambiguous-value: readers of YAML disagree about whether the value is text, a number, a date, a truth value or nothing; put the value in quotes
}

func ExampleParse() {
	_, err := skill.Parse([]byte("---\nname: review\ndescription: Reviews code: use it before a merge.\n---\n"))
	fmt.Println(err)
	// Output:
	// skill: SKILL.md:3:26: error: yaml/syntax: front matter: is not YAML: check indentation, quotes and colons; mend the YAML: text with a colon, or that begins with @, ` or a bracket, needs quotes
}
