package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
)

func TestWhatPatternsName(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b/c", "b-d", "b/e/f"} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ globs, want []string }{
		{[]string{Whole}, []string{Whole}},
		{[]string{"b/e", "b*", "a", "a"}, []string{"a", "b", "b-d"}},
		{[]string{"b/*", "x"}, []string{"b/c", "b/e"}},
	} {
		tree, err := fsutil.OpenRoot(root)
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		if got, err := Parts(tree, c.globs); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.globs, got, err)
		}
	}
	for p, want := range map[string]bool{"b/e/f": true, "b/c": false, "a": false} {
		if Named(p, []string{"b/e", "x*"}) != want || !Named(p, []string{Whole}) {
			t.Errorf("%s is named: %v", p, !want)
		}
	}
}
