package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/drawbridge-sdk/drawbridge/skill"
)

// manySkills is how many skills one run reads: a part of the corpus that is
// spread over all of it, so that a round does not take too long.
const manySkills = 64

// skills compares reading and checking skills with a bare decode of their front
// matters. The skills are real ones if DRAWBRIDGE_DATA names them, and made up
// otherwise.
func skills() (row, error) {
	texts, err := skillTexts()
	if err != nil {
		return row{}, err
	}
	var fronts [][]byte
	for _, t := range texts {
		if parts := bytes.SplitN(t, []byte("---\n"), 3); len(parts) == 3 {
			fronts = append(fronts, parts[1])
		}
	}
	portable := skill.Portable()
	ours := func() {
		for _, t := range texts {
			if doc, err := skill.Parse(t); err == nil {
				doc.Check(portable, "")
			}
		}
	}
	base := func() {
		for _, f := range fronts {
			var m map[string]any
			_ = yaml.Unmarshal(f, &m)
		}
	}
	return row{ours, base}, nil
}

func skillTexts() ([][]byte, error) {
	data := os.Getenv("DRAWBRIDGE_DATA")
	if data == "" {
		return madeUpSkills(), nil
	}
	f, err := os.Open(filepath.Join(data, "skill-corpus.tar.gz"))
	if errors.Is(err, os.ErrNotExist) {
		return madeUpSkills(), nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if path.Base(h.Name) != "SKILL.md" {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	var some [][]byte
	for i := 0; i < len(all) && len(some) < manySkills; i += max(len(all)/manySkills, 1) {
		some = append(some, all[i])
	}
	return some, nil
}

func madeUpSkills() (out [][]byte) {
	for i := range manySkills {
		out = append(out, fmt.Appendf(nil, "---\nname: skill-%d\ndescription: %s\nmetadata:\n  version: \"1.%d\"\n  author: team\n---\n# Method\n\n%s", i,
			strings.Repeat("Does one thing. ", 14), i, strings.Repeat("Read [the list](references/list.md) first.\n", 3)+strings.Repeat("Write down what was seen, and go on with the next step.\n", 150)))
	}
	return out
}
