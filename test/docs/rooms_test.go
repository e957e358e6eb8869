package docs

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/goccy/go-yaml"
)

const module = "github.com/bee-hpc/bee/"

// open are packages that all others may import.
var open = []string{"internal/chunk", "internal/core", "internal/environ", "internal/fsutil", "internal/procid", "internal/shell", "internal/tasklog", "internal/treesync", "internal/wire"}

// TestEveryPackageStandsInARoom: the page about the architecture names each package or the
// one above it, and the linter knows who may import it or what it may import.
func TestEveryPackageStandsInARoom(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string
						Deny  []struct{ Pkg string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	rules := config.Linters.Settings.Depguard.Rules
	page := documents(t)["docs/explanation/architecture.md"]
	packages := map[string]bool{}
	for file := range goFiles(t) {
		if dir := path.Dir(file); strings.HasPrefix(dir, "internal/") {
			packages[dir] = true
		}
	}
	if len(packages) < 60 || len(rules) < 40 {
		t.Fatalf("%d packages and %d rules were found", len(packages), len(rules))
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		room := strings.Join(strings.Split(dir, "/")[:2], "/")
		if !strings.Contains(page, "`"+room+"`") && !strings.Contains(page, "`"+dir+"`") && !strings.Contains(page, "`"+room+"/") {
			t.Errorf("docs/explanation/architecture.md does not name %s", dir)
		}
		walled := slices.Contains(open, dir)
		for _, r := range rules {
			for _, d := range r.Deny {
				walled = walled || d.Pkg == module+dir || strings.HasPrefix(module+dir, d.Pkg+"/")
			}
			walled = walled || slices.Contains(r.Files, "**/"+dir+"/*.go")
		}
		if !walled && !inAlternatives(rules["alone"].Files, dir) {
			t.Errorf(".golangci.yml has no rule for %s", dir)
		}
	}
}

// inAlternatives reports whether a pattern such as **/internal/{a,b/c}/*.go has a folder.
func inAlternatives(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		_, rest, has := strings.Cut(p, "{")
		list, _, _ := strings.Cut(rest, "}")
		return has && !strings.HasPrefix(p, "!") && slices.Contains(strings.Split(list, ","), strings.TrimPrefix(dir, "internal/"))
	})
}

// TestSuppressionsAreOfEnabledLinters: a remark for a linter that does not run suppresses
// nothing, and reads as if it did.
func TestSuppressionsAreOfEnabledLinters(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct{ Enable []string }
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	found := 0
	for file, f := range goFiles(t) {
		for _, group := range f.Comments {
			for _, c := range group.List {
				list, is := strings.CutPrefix(c.Text, "//nolint:")
				if !is {
					continue
				}
				found++
				list, _, _ = strings.Cut(list, " ")
				for _, linter := range strings.Split(list, ",") {
					if !slices.Contains(config.Linters.Enable, linter) {
						t.Errorf("%s: a remark is for %s, which is not enabled: leave its reason alone", file, linter)
					}
				}
			}
		}
	}
	if found == 0 || len(config.Linters.Enable) == 0 {
		t.Errorf("%d remarks and %d linters were found", found, len(config.Linters.Enable))
	}
}
