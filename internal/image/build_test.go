package image

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
)

// TestABuildIsNamedByAllThatGoesIntoIt: wherever it lies, and whatever leads there.
func TestABuildIsNamedByAllThatGoesIntoIt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{"Dockerfile", "context/data", "more/data"}
	for _, f := range files {
		write(f, "one")
	}
	if err := errors.Join(os.Symlink("context", filepath.Join(dir, "link")), os.Symlink("more", filepath.Join(dir, "other"))); err != nil {
		t.Fatal(err)
	}
	b := spec.Build{Context: filepath.Join(dir, "link"), Dockerfile: filepath.Join(dir, "Dockerfile"), Copy: []spec.Copy{{From: filepath.Join(dir, "other"), To: "/"}}}
	key := func() string {
		t.Helper()
		k, err := buildKey(b, "linux/amd64")
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	before := key()
	if again := key(); again != before {
		t.Error("the same has two keys")
	}
	for _, f := range files {
		write(f, "another")
		after := key()
		if after == before {
			t.Errorf("a change of %s is not noticed", f)
		}
		before = after
	}
}
