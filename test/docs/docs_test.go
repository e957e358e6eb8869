// Package docs checks that what the documents show is so.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/studies"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

func documents(t *testing.T) map[string]string {
	t.Helper()
	root := testkit.Root(t)
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			texts[rel] = string(raw)
		}
	}
	return texts
}

// besideJobs returns a directory with the file of cases that a page shows, as cases.csv.
func besideJobs(t *testing.T, page string) string {
	t.Helper()
	dir := t.TempDir()
	if m := regexp.MustCompile("(?s)```csv(?: title=\"[^\"]+\")?\n(.*?)```").FindStringSubmatch(page); m != nil {
		if err := os.WriteFile(filepath.Join(dir, "cases.csv"), []byte(m[1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFilesShownAreValid parses every YAML block as the file that it is. A
// block that shows a part gets an image and a command.
func TestFilesShownAreValid(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml(?: title=\"[^\"]+\")?\n(.*?)```")
	count := 0
	for file, text := range documents(t) {
		for _, m := range blocks.FindAllStringSubmatch(text, -1) {
			count++
			if strings.HasPrefix(m[1], "sites:\n") {
				if _, err := spec.ParseSites(file, []byte(m[1])); err != nil {
					t.Errorf("%s: %v\n%s", file, err, m[1])
				}
				continue
			}
			if strings.HasPrefix(m[1], "study:") {
				if _, err := study.Parse(file, []byte(m[1]), t.TempDir()); err != nil {
					t.Errorf("%s: %v\n%s", file, err, m[1])
				}
				continue
			}
			for _, draft := range spec.DraftsOf(file, []byte(m[1]), besideJobs(t, text)) {
				if _, err := draft.Finish(); err != nil {
					t.Errorf("%s: %v\n%s", file, err, m[1])
				}
			}
		}
	}
	if count < 8 {
		t.Errorf("only %d blocks found: is the pattern still right?", count)
	}
}

// TestEveryKeyIsDocumented looks for each key of the schema in its document.
func TestEveryKeyIsDocumented(t *testing.T) {
	texts := documents(t)
	var walk func(file string, schema map[string]any)
	walk = func(file string, schema map[string]any) {
		for _, form := range []string{"oneOf"} {
			list, _ := schema[form].([]any)
			for _, s := range list {
				if m, ok := s.(map[string]any); ok {
					walk(file, m)
				}
			}
		}
		if items, ok := schema["items"].(map[string]any); ok {
			walk(file, items)
		}
		properties, _ := schema["properties"].(map[string]any)
		for key, value := range properties {
			if !strings.Contains(texts[file], "`"+key+"`") {
				t.Errorf("%s does not explain `%s`", file, key)
			}
			walk(file, value.(map[string]any))
		}
	}
	for which, file := range map[string]string{"beefile": "docs/reference/beefile.md", "sites": "docs/reference/sites.md"} {
		schema, err := spec.Schema(which)
		if err != nil {
			t.Fatal(err)
		}
		if which == "sites" { // the one key of the file itself is its name
			schema = schema["properties"].(map[string]any)["sites"].(map[string]any)
		}
		walk(file, schema)
	}
}

// TestEveryStudyIsDocumented: the page of studies has those that bee has, and no others.
func TestEveryStudyIsDocumented(t *testing.T) {
	var shown []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| ").FindAllStringSubmatch(documents(t)["docs/reference/studies.md"], -1) {
		if !strings.Contains(m[0], "docker") {
			shown = append(shown, m[1])
		}
	}
	slices.Sort(shown)
	if !slices.Equal(shown, studies.Names()) {
		t.Errorf("the page has %q, bee has %q", shown, studies.Names())
	}
}

// TestTablesHaveHeads finds rows that stand below no head, and so are no table.
func TestTablesHaveHeads(t *testing.T) {
	for file, text := range documents(t) {
		rule, fenced := -1, false // the line below the last table's head
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			switch {
			case fenced || !strings.HasPrefix(line, "|"):
				rule = -1
			case rule < 0 && (i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "|--")):
				t.Errorf("%s:%d: a row of no table: %s", file, i+1, line)
			case rule < 0:
				rule = i + 1
			}
		}
	}
}

// TestEveryDependencyIsJustified holds docs/reference/dependencies.md against go.mod.
func TestEveryDependencyIsJustified(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	table := documents(t)["docs/reference/dependencies.md"]
	direct := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(raw), -1) {
		direct[m[1]] = true
		if !strings.Contains(table, "`"+m[1]+"`") {
			t.Errorf("docs/reference/dependencies.md does not say what %s is for", m[1])
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		if !direct[m[1]] {
			t.Errorf("docs/reference/dependencies.md lists %s, which go.mod does not", m[1])
		}
	}
}
