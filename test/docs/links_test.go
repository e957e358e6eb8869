package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestLinksLeadSomewhere follows every relative link, with its anchor.
func TestLinksLeadSomewhere(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^):]*)\)`)
	root, texts := testkit.Root(t), documents(t)
	for file, text := range texts {
		for _, m := range links.FindAllStringSubmatch(withoutCode(text), -1) {
			name, anchor, _ := strings.Cut(m[1], "#")
			target := file
			if name != "" {
				target = path.Join(path.Dir(file), name)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			}
			picture := path.Ext(target) == ".png" && (anchor == "only-light" || anchor == "only-dark") // the theme that shows it
			if anchor != "" && !picture && !anchors(texts[target])[anchor] {
				t.Errorf("%s links to %s, which has no such heading", file, m[1])
			}
		}
	}
}

// TestEveryPageIsListed: docs/README.md and docs/adr/README.md link to every page.
func TestEveryPageIsListed(t *testing.T) {
	texts := documents(t)
	for file := range texts {
		dir, index := path.Dir(file), "docs/README.md"
		if dir == "docs/adr" {
			index = "docs/adr/README.md"
		}
		if !strings.HasPrefix(file, "docs/") || path.Base(file) == "README.md" {
			continue
		}
		rel, err := filepath.Rel(path.Dir(index), file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(texts[index], "]("+rel+")") {
			t.Errorf("%s does not link to %s", index, file)
		}
	}
}

// TestPagesThatCodeNamesExist: messages and comments name pages as docs/….md.
func TestPagesThatCodeNamesExist(t *testing.T) {
	page := regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
	root, count := testkit.Root(t), 0
	for _, dir := range []string{"cmd", "hack", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".sh" {
				return err
			}
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for _, named := range page.FindAllString(string(raw), -1) {
				count++
				if _, err := os.Stat(filepath.Join(root, named)); err != nil {
					t.Errorf("%s names %s, which does not exist", name, named)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 10 {
		t.Errorf("only %d pages found: is the pattern right?", count)
	}
}

// anchors are the ids of headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	ids := map[string]bool{}
	drop := regexp.MustCompile(`[^\pL\pN _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		ids[strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return ids
}

func withoutCode(text string) string {
	return regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
}
