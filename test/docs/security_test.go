package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestPromisesNameTheirTests: each row of docs/explanation/security.md, and of the decision about
// its limits, names at least one test, or case of a conformance suite, and that is there.
func TestPromisesNameTheirTests(t *testing.T) {
	reference := regexp.MustCompile("`((?:internal|test)/[a-z0-9/]+): ([A-Za-z0-9_, ]+)`")
	root, rows := testkit.Root(t), 0
	sources := map[string]string{}
	source := func(dir string) string {
		if _, known := sources[dir]; !known {
			files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				raw, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				sources[dir] += string(raw)
			}
		}
		return sources[dir]
	}
	texts := documents(t)
	for line := range strings.Lines(texts["docs/explanation/security.md"] + texts["docs/adr/0050-limits-of-trust.md"]) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise ") || strings.HasPrefix(line, "| who ") || strings.HasPrefix(line, "| question ") {
			continue
		}
		rows++
		found := reference.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("no test is named: %s", line)
		}
		for _, m := range found {
			for name := range strings.SplitSeq(m[2], ", ") {
				if text := source(m[1]); !strings.Contains(text, "func "+name+"(") && !regexp.MustCompile(`\{"`+name+`", [a-z]+\.`).MatchString(text) {
					t.Errorf("%s has no %s", m[1], name)
				}
			}
		}
	}
	if rows < 80 {
		t.Errorf("%d promises were found", rows)
	}
}
