package docs

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/scaffold"
)

// shownBlock is a fenced block of a page: its language, its title and its text.
var shownBlock = regexp.MustCompile("(?ms)^```(\\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$")

// TestConversionsShown has `bee init --from` convert each file with a title that a page for users of
// another tool shows, and compares what comes of it with the blocks behind it.
func TestConversionsShown(t *testing.T) {
	beside := []string{"in.melt", "case.in"} // files that the pages have beside the job
	converted := 0
	for page, text := range documents(t) {
		if !strings.HasPrefix(page, "docs/how-to/from-") {
			continue
		}
		var made map[string]string // what is still to be shown; the Beefile has no name
		for _, m := range shownBlock.FindAllStringSubmatch(text, -1) {
			language, title, shown := m[1], m[2], m[3]
			if language == "yaml" {
				title = ""
			} else if _, is := made[title]; title == "" {
				continue
			} else if !is {
				r, err := scaffold.Convert(title, []byte(shown), func(name string) bool { return slices.Contains(beside, name) })
				if err != nil {
					t.Errorf("%s: %s: %v", page, title, err)
					continue
				}
				made = map[string]string{"": r.Beefile}
				maps.Copy(made, r.Files)
				converted++
				continue
			}
			if want, is := made[title]; is && shown != want {
				t.Errorf("%s shows\n%s\nand bee writes %s\n%s", page, shown, path.Base(title), want)
			}
			delete(made, title)
		}
		if len(made) > 0 {
			t.Errorf("%s does not show all that bee writes: %q", page, slices.Collect(maps.Keys(made)))
		}
	}
	if converted < 4 {
		t.Errorf("only %d files were converted: is the pattern right?", converted)
	}
}

// TestBeefileOfADockerfile: the page shows what `bee init` writes for a directory with a Dockerfile.
func TestBeefileOfADockerfile(t *testing.T) {
	files := []scaffold.File{{Name: "Dockerfile"}, {Name: "solver.c"}}
	programs := scaffold.Programs(files)
	if len(programs) != 1 {
		t.Fatalf("found %+v", programs)
	}
	want := scaffold.Directory("solver", files, &programs[0]).Beefile
	if page := documents(t)["docs/how-to/dockerfile.md"]; !strings.Contains(page, "```yaml\n"+want+"```") {
		t.Errorf("the page does not show\n%s", want)
	}
}
