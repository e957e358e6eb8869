package outputs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// TestWhatLinksOfALostAttemptLeadTo is fetched: what is not there is left, and an error that
// may pass ends nothing.
func TestWhatLinksOfALostAttemptLeadTo(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Symlink("../"+name, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := fsutil.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	none, lost := resolved(tree, []string{"a", "b"})
	if len(none) > 0 || len(lost) != 2 {
		t.Fatalf("found %v, lost %v", none, lost)
	}
	for kind, want := range map[core.Kind]int{core.NotFound: 1, core.Lost: 0, core.Transient: 0} {
		found, left, err := fetchLinked(nil, lost, func(name, _ string) error {
			if name == "b" {
				return &core.Error{Kind: kind, Err: errors.New("failed")}
			}
			return nil
		})
		if len(left) != want || len(found) != want || (err == nil) != (want == 1) {
			t.Errorf("%s: found %v, left %v, %v", kind, found, left, err)
		}
	}
}
