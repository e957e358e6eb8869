package confine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/treesync"
)

// TestInputsOfAConfinedJobStayWhatTheyWere: its author swaps the directory of an input for
// a link after it was looked at.
func TestInputsOfAConfinedJobStayWhatTheyWere(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteFiles(t, dir, map[string]string{"job/in/data": "own", "outside/data": "secret"})
	job := Dir(filepath.Join(dir, "job"))
	in, input := filepath.Join(dir, "job", "in"), filepath.Join(dir, "job", "in", "data")
	path, done, err := job.Pin(input)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := errors.Join(os.Rename(in, in+".old"), os.Symlink("../outside", in)); err != nil {
		t.Fatal(err)
	}
	got := filepath.Join(t.TempDir(), "got")
	if err := treesync.Copy(t.Context(), path, got, nil); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(got); err != nil || string(raw) != "own" {
		t.Errorf("%q would be sent, %v", raw, err)
	}
	if path, _, err := job.Pin(input); !core.IsKind(err, core.Invalid) {
		t.Errorf("after the swap %s would be sent, %v", path, err)
	}
}
