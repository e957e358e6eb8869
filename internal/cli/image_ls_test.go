package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageCommand gives what runs bee on a cache of the test's own, and says what it wrote.
func imageCommand(t *testing.T) func(args ...string) string {
	t.Setenv("BEE_CACHE", t.TempDir())
	return func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		root := newApp(&out, os.Stderr).newRoot()
		root.SetOut(&out)
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
}

// TestImagesOfFilesAreNamedFromTheWorkingDirectory: as where they were imported.
func TestImagesOfFilesAreNamedFromTheWorkingDirectory(t *testing.T) {
	archive := testkit.Busybox(t, v1.Config{})
	t.Chdir(filepath.Dir(archive))
	bee, name := imageCommand(t), "docker-archive:./"+filepath.Base(archive)
	id := strings.TrimSpace(bee("image", "import", filepath.Base(archive)))
	if shown := bee("image", "show", name); !strings.Contains(shown, id) {
		t.Errorf("shows %s, want %s", shown, id)
	}
	if listed := bee("image", "ls"); strings.Count(listed, "\n") != 2 || strings.Contains(listed, "docker-archive:") {
		t.Errorf("beside its name, its file is listed:\n%s", listed)
	}
	bee("image", "rm", name)
}

// TestAnImageOfManyNamesHasARowForEach: all of them in one cell would be wider than
// any terminal.
func TestAnImageOfManyNamesHasARowForEach(t *testing.T) {
	first, bee := testkit.Busybox(t, v1.Config{}), imageCommand(t)
	second := filepath.Join(t.TempDir(), "other.tar")
	if err := os.Link(first, second); err != nil {
		t.Fatal(err)
	}
	bee("image", "pull", "docker-archive:"+first)
	bee("image", "pull", "docker-archive:"+second)
	rows := strings.Split(strings.TrimSpace(bee("image", "ls")), "\n")
	if len(rows) != 3 || !strings.Contains(rows[1]+rows[2], first) || !strings.Contains(rows[1]+rows[2], second) || strings.Contains(rows[1], first) == strings.Contains(rows[1], second) {
		t.Errorf("got %q", rows)
	}
	removed := bee("image", "rm", "--json", "docker-archive:"+first, "docker-archive:"+second)
	if id := `"id": "sha256:`; strings.Count(removed, id) != 1 || strings.Contains(removed, "error") {
		t.Errorf("removed by both of its names: %s", removed)
	}
}
