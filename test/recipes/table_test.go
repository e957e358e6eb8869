package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// fewest is how many recipes the how-to pages have.
const fewest = 25

// TestTableOfRecipes: docs/reference/tried.md has a row for each recipe, as the list of this package has it,
// and the page itself names what was not tried. BEE_TEST_WRITE=1 writes the rows.
func TestTableOfRecipes(t *testing.T) {
	docs := filepath.Join(testkit.Root(t), "docs")
	read := func(file string) string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var rows strings.Builder
	rows.WriteString("| page | ran on | stand-ins | never tried |\n|---|---|---|---|\n")
	howTo, seen := 0, map[string]bool{}
	for _, r := range recipes {
		page := read(filepath.Join(docs, r.page))
		title, _, _ := strings.Cut(strings.TrimPrefix(page, "# "), "\n")
		where := r.where
		if r.by != "" {
			where += "; by a test of its own"
		}
		fmt.Fprintf(&rows, "| [%s](../%s) | %s | %s | %s |\n", title, r.page, where, orNone(r.inPlace), orNone(r.missing))
		if r.missing != "" && !strings.Contains(page, "Not tried: "+r.missing+".") {
			t.Errorf("docs/%s does not have: Not tried: %s.", r.page, r.missing)
		}
		if r.missing == "" && strings.Contains(page, "Not tried: ") {
			t.Errorf("docs/%s names something that was not tried: the list has to name it, too", r.page)
		}
		if strings.HasPrefix(r.page, "how-to/") {
			howTo++
		}
		if seen[r.page] {
			t.Errorf("%s is there twice", r.page)
		}
		seen[r.page] = true
		if r.by != "" && !r.exists(t) {
			t.Errorf("docs/%s: there is no %s that names the page", r.page, r.by)
		}
	}
	if howTo < fewest {
		t.Errorf("there are %d recipes, fewer than %d", howTo, fewest)
	}
	file := filepath.Join(docs, "reference", "tried.md")
	text := read(file)
	table := regexp.MustCompile(`\| page \| ran on \|.*\n(?:\|.*\n)*`)
	if !table.MatchString(text) {
		t.Fatal("docs/reference/tried.md has no table of recipes")
	}
	switch {
	case os.Getenv(testkit.WriteGolden) != "":
		if err := os.WriteFile(file, []byte(table.ReplaceAllLiteralString(text, rows.String())), 0o644); err != nil {
			t.Fatal(err)
		}
	case table.FindString(text) != rows.String():
		t.Errorf("docs/reference/tried.md does not have the recipes as this list has them: run `%s=1 go test -run TableOfRecipes ./test/recipes`. Want\n%s", testkit.WriteGolden, &rows)
	}
}

func orNone(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// exists reports whether the test that runs a recipe is there, in a file that names the page.
func (r recipe) exists(t *testing.T) bool {
	t.Helper()
	dir, name, _ := strings.Cut(r.by, " ")
	files, err := filepath.Glob(filepath.Join(testkit.Root(t), dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	function, named := false, false
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		function = function || strings.Contains(string(raw), "func "+name+"(t *testing.T)")
		named = named || strings.Contains(string(raw), filepath.Base(r.page))
	}
	return function && named
}
