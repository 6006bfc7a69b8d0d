package loader_test

import (
	"context"
	"fmt"
	"os"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/loader"
)

func Example() {
	dir, err := os.MkdirTemp("", "skills")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	_ = os.MkdirAll(dir+"/review/references", 0o755)
	_ = os.WriteFile(dir+"/review/SKILL.md", []byte("---\nname: review\ndescription: Reviews a change. Use it before a merge.\n---\nRead [the list](references/list.md).\n"), 0o644)
	_ = os.WriteFile(dir+"/review/references/list.md", []byte("1. Are there tests?\n"), 0o644)
	root, err := os.OpenRoot(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer root.Close()

	ctx, who := context.Background(), authz.Principal{} // a directory serves everybody
	l, err := loader.New([]loader.Source{loader.FromDirectory("project", root, skill.Portable(), nil)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	cat, err := l.Catalogue(ctx, who)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(cat.Text())
	act, err := l.Activate(ctx, who, "run_1", cat.Entries[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(act.Body)
	list, err := act.Read(ctx, "references/list.md")
	fmt.Print(string(list), err, "\n")

	_ = os.WriteFile(dir+"/review/references/list.md", []byte("1. Approve.\n"), 0o644)
	_, err = act.Read(ctx, "references/list.md")
	fmt.Println(err != nil)
	// Output:
	// - review: Reviews a change. Use it before a merge.
	// Read [the list](references/list.md).
	// 1. Are there tests?
	// <nil>
	// true
}
