package treesync

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// linkedTree has links in it, out of it, to nothing and in a circle.
func linkedTree(t *testing.T) (tree *fsutil.Root, dir, outside string) {
	t.Helper()
	dir, outside = filepath.Join(t.TempDir(), "a [b]*"), t.TempDir()
	for _, f := range []string{filepath.Join(dir, "run1/x.csv"), filepath.Join(dir, "real/y.csv"), filepath.Join(dir, "real/.hidden"), filepath.Join(outside, "private.csv")} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"latest": "run1", "abs": "/work/real", "out": outside, "up": "..", "gone": "nowhere", "round": "about", "about": "round"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := fsutil.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	tree.Seen = "/work"
	return tree, dir, outside
}

// TestMatchStaysInside: what is reached over a link comes under its own name, with the
// link; what lies outside does not come at all.
func TestMatchStaysInside(t *testing.T) {
	tree, dir, _ := linkedTree(t)
	for pattern, want := range map[string][]string{
		"run1/*.csv":      {"run1/x.csv"},
		"latest/x.csv":    {"latest", "run1/x.csv"},
		"latest":          {"latest", "run1/x.csv"},
		"abs/*":           {"abs", "real/y.csv"},
		"*/*.csv":         {"abs", "latest", "real/y.csv", "run1/x.csv"},
		"out/private.csv": {},
		"out/*":           {},
		"out":             {"out"},
		"up/*":            {},
		"../*":            {},
		"gone":            {"gone"},
		"round":           {"about", "round"},
		"[bad":            {},
		"*":               {"about", "abs", "gone", "latest", "out", "real/.hidden", "real/y.csv", "round", "run1/x.csv", "up"},
	} {
		if got, _ := Match(tree, []string{pattern}); !slices.Equal(got, want) {
			t.Errorf("%q gives %q, want %q", pattern, got, want)
		}
	}
	into := t.TempDir()
	files, err := Match(tree, []string{"*/*"})
	if err != nil {
		t.Fatal(err)
	}
	if err := CopyMany(t.Context(), dir, files, into); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(into, "latest", "x.csv")); err != nil {
		t.Error(err)
	}
}

// TestADirectoryThatBecomesALink is no way out once its files were listed.
func TestADirectoryThatBecomesALink(t *testing.T) {
	_, dir, outside := linkedTree(t)
	if err := os.Rename(filepath.Join(dir, "real"), filepath.Join(dir, "was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "real")); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := SendMany(t.Context(), &sent, dir, []string{"real/private.csv"}, nil); err == nil || bytes.Contains(sent.Bytes(), []byte("private.csv")) {
		t.Errorf("it was sent: %v", err)
	}
	into := t.TempDir()
	if err := CopyMany(t.Context(), dir, []string{"real/private.csv"}, into); err == nil {
		t.Error("it was copied")
	}
	// And what is made below another directory goes over no link there.
	if err := CopyMany(t.Context(), filepath.Join(dir, ".."), []string{filepath.Base(dir) + "/was/y.csv"}, filepath.Join(dir, "..")); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(outside, filepath.Join(into, "was")); err != nil {
		t.Fatal(err)
	}
	if err := CopyMany(t.Context(), dir, []string{"was/y.csv"}, into); err == nil {
		t.Error("it was written over a link")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("outside are %v, %v", left, err)
	}
}
