package studies

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestParametersInThePages: the page of studies has the values of all variables at each size.
func TestParametersInThePages(t *testing.T) {
	var b strings.Builder
	b.WriteString("| study | variable | paper | here | smoke |\n|---|---|---|---|---|\n")
	for _, name := range Names() {
		text, _ := Text(name)
		s, err := study.Parse(name+".yaml", []byte(text), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range s.Variables {
			fmt.Fprintf(&b, "| %s | `%s` |", name, v)
			for _, size := range []string{"paper", "here", "smoke"} {
				values, is := s.Sizes[size][v]
				if !is {
					values = s.Vary[v]
				}
				words := make([]string, len(values))
				for i, x := range values {
					words[i] = strings.ReplaceAll(string(x), "|", `\|`)
				}
				fmt.Fprintf(&b, " %s |", strings.Join(words, ", "))
			}
			b.WriteString("\n")
		}
	}
	const begin, end = "<!-- parameters -->\n\n", "\n<!-- end -->"
	file := filepath.Join("..", "..", "..", "docs", "reference", "studies.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	was, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the parameters", file)
	}
	if os.Getenv(testkit.WriteGolden) != "" {
		if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if was != b.String() {
		t.Errorf("%s has other parameters than the studies; write them by %s=1", file, testkit.WriteGolden)
	}
}
