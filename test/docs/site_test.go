package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestSiteHasEveryPage: mkdocs.yml names each page once, but for the decisions, which their own
// list has. Without this, a page that is not named is found by the build of the site alone.
func TestSiteHasEveryPage(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^ +- (?:\w+: )?(\S+\.md)$`).FindAllStringSubmatch(string(raw), -1) {
		named["docs/"+m[1]]++
	}
	for page := range documents(t) {
		decision := strings.HasPrefix(page, "docs/adr/0")
		if times := named[page]; strings.HasPrefix(page, "docs/") && !decision && times != 1 {
			t.Errorf("mkdocs.yml names %s %d times", page, times)
		}
		delete(named, page)
	}
	for page := range named {
		t.Errorf("mkdocs.yml names %s, which does not exist", page)
	}
}
