package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestReferenceTables holds the tables of keys in docs/reference against keys.yaml.
// BEE_TEST_WRITE=1 writes them.
func TestReferenceTables(t *testing.T) {
	tables, err := KeyTables()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, k := range tables {
		want[strings.TrimSpace(k.File+" "+k.At)] = keysInMarkdown(k)
	}
	block := regexp.MustCompile(`(?s)(<!-- keys: (.*?) -->\n)(.*?)(<!-- end -->)`)
	for _, page := range []string{"beefile.md", "sites.md", "study-file.md"} {
		file := filepath.Join(testkit.Root(t), "docs", "reference", page)
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := block.ReplaceAllStringFunc(string(raw), func(s string) string {
			m := block.FindStringSubmatch(s)
			table, known := want[m[2]]
			if !known {
				t.Errorf("%s: no keys of %q, or shown twice", page, m[2])
			}
			delete(want, m[2])
			return m[1] + table + m[4]
		})
		if text == string(raw) {
			continue
		}
		if os.Getenv("BEE_TEST_WRITE") == "" {
			t.Errorf("%s is not as keys.yaml: run `BEE_TEST_WRITE=1 go test -run ReferenceTables ./internal/spec`", page)
		} else if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name := range want {
		t.Errorf("no page shows the keys of %s", name)
	}
}

func keysInMarkdown(k KeyTable) string {
	var b strings.Builder
	defaults := false
	for _, e := range k.Keys {
		defaults = defaults || e.Default != ""
	}
	b.WriteString("\n| key | meaning |")
	if defaults {
		b.WriteString(" default |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", map[bool]int{true: 1}[defaults]) + "\n")
	for _, e := range k.Keys {
		fmt.Fprintf(&b, "| `%s` | %s |", e.Key, e.Text)
		if defaults {
			b.WriteString(" " + e.Default + " |")
		}
		b.WriteString("\n")
	}
	return b.String() + "\n"
}
