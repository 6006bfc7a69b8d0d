// Package skill reads, checks and packs skills: directories with a SKILL.md
// that says how a kind of task is done.
//
// # Reading
//
// [Parse] reads the text of a SKILL.md. A text that two readers would read
// differently (a key written twice, an alias, a tag, no end of the front
// matter) has no [Document]. Everything else has one, and [Document.Check]
// says what is wrong with it under a [Profile], each [Violation] with its line,
// its column and a way to mend it:
//
//	doc, err := skill.Parse(text)
//	for _, v := range doc.Check(skill.Portable(), "incident-diagnosis") { ... }
//
// "Valid" has more than one meaning for skills: the prose of the specification,
// its reference validator and the hosts that load skills disagree about a third
// of the files in public repositories. So the rules are a value: [Lenient] is
// how the client guide says to load, [Spec] is the prose, [Reference] gives the
// verdict of the reference validator, and [Portable] is what passes all of them
// and is loaded alike by every host that we know. Releases are held to Portable.
//
// # Packing
//
// The unit of release is the directory. [Open] and [ReadArchive] read it whole,
// each byte once, into a [Package] that does not change any more. Its digest is
// over a [Manifest] of every file: nothing is ignored, so that a script that was
// swapped, added or made executable gives another digest. What cannot be
// unpacked alike everywhere is refused by name: links, special files, names that
// differ only in case or in their Unicode form, names that some system treats
// specially, and everything that leaves the directory.
//
// A [Signer] signs which digest is which version of which skill.
//
// # What a skill cannot do
//
// A skill is a method and never a permission. Its allowed-tools are read into
// [ToolHint], which converts to nothing; nothing in this module asks a ToolHint
// before it decides.
//
// # What this package does not do
//
// It does not repair a text that is not YAML, run anything, follow links of the
// network or judge what a skill says. Registered versions are package
// skill/registry, loading for a run is package skill/loader, and the composition
// of a run is package skill/profile.
package skill
