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

// TestAnImageOfManyNamesHasARowForEach: all of them in one cell would be wider than
// any terminal.
func TestAnImageOfManyNamesHasARowForEach(t *testing.T) {
	first, cache := testkit.Busybox(t, v1.Config{}), t.TempDir()
	second := filepath.Join(t.TempDir(), "other.tar")
	if err := os.Link(first, second); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	bee := func(args ...string) {
		t.Helper()
		out.Reset()
		root := (&app{stdout: &out, stderr: os.Stderr}).newRoot()
		root.SetArgs(append([]string{"--cache", cache}, args...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	bee("image", "pull", "docker-archive:"+first)
	bee("image", "pull", "docker-archive:"+second)
	bee("image", "ls")
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 3 || !strings.Contains(rows[1]+rows[2], first) || !strings.Contains(rows[1]+rows[2], second) || strings.Contains(rows[1], first) == strings.Contains(rows[1], second) {
		t.Errorf("got %s", out.String())
	}
	bee("image", "rm", "--json", "docker-archive:"+first, "docker-archive:"+second)
	if id := `"id": "sha256:`; strings.Count(out.String(), id) != 1 || strings.Contains(out.String(), "error") {
		t.Errorf("removed by both of its names: %s", out.String())
	}
}
