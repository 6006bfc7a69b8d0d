// Package skills serves the skills of a registry over the Model Context Protocol
// and reads those of other servers, by the extension io.modelcontextprotocol/skills
// (SEP-2640).
//
// # Serving
//
//	s, err := skills.NewServer(reg, "prod", &skills.ServerOptions{Prefix: "acme"})
//	a, err := mcpadapter.New(inv, who, &mcpadapter.Options{Extensions: []mcpadapter.Extension{s}})
//
// skills/list, skills/get, resources/directory/read and resources/read answer for
// the caller of each request with what the registry's policy says then, as for
// tools. A skill that may not be used, one that is retired and one that is not
// there are one answer. Every answer is marked private and stale at once, unless
// the options say otherwise.
//
// A URI holds the version, as in skill://acme/1.4.0/incident-diagnosis/SKILL.md,
// so that an upgrade changes no bytes behind a URI. It can be read as long as
// the version is published.
//
// # Reading
//
//	h, err := skills.NewHost("sre-server", session, &skills.HostOptions{Approve: ask})
//	list, err := h.List(ctx)
//	sk, err := h.Load(ctx, list.Entries[0])
//	text, err := sk.Read(ctx, "references/metrics.md")
//
// A [Host] retrieves nothing before it is needed: [Host.List] reads no file, and
// [Host.Load] reads SKILL.md alone, after [HostOptions.Approve]. Each file has to
// have the size and the digest that the entry gave when it was listed, and the
// front matter of SKILL.md has to be that of the entry, field by field;
// otherwise nothing is given out. A file that the entry does not list does not
// exist. Whatever changes on the server ends the skill for whoever holds its
// entry.
//
// # What this package does not do
//
// The digests come from the same server as the files: they show a change and
// prove no author. allowed-tools of a skill from elsewhere are not read. Nothing
// is written to a disk, nothing is cached, and no script is run. Entries whose
// files are "dynamic" are not loaded: there is nothing that an approval could be
// bound to.
package skills
