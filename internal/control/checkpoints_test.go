package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
)

// TestExportOfACheckpoint: plain files of the newest whole one or of that of an attempt,
// which run as nobody else, and in place of nothing.
func TestExportOfACheckpoint(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submitJob(t, controltest.Movable())
	place := w.Kept().OpenDir(w.Kept().Dir(run.ID))
	for n := 1; n <= 2; n++ {
		volume := t.TempDir()
		program := filepath.Join(volume, "program")
		if err := errors.Join(core.WriteProgram(program, fmt.Append(nil, n), 0o755), os.Chmod(program, 0o755|fs.ModeSetuid)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := place.Keep(t.Context(), driver.Generation{Attempt: n}, "a", store.Tree(volume)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := place.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("kept %+v, %v", list, err)
	}
	in, damaged := t.TempDir(), 0
	export := func(name string, attempt int) (Checkpoint, error) {
		return w.ExportCheckpoint(t.Context(), run, attempt, filepath.Join(in, name), func(string) { damaged++ })
	}
	exported := func(name string, attempt, want int) {
		t.Helper()
		k, err := export(name, attempt)
		if err != nil || k.Attempt != want || k.Path != filepath.Join(in, name) {
			t.Fatalf("%s: %+v, %v", name, k, err)
		}
		raw, err := os.ReadFile(filepath.Join(in, name, "program"))
		if err != nil || string(raw) != fmt.Sprint(want) {
			t.Errorf("%s has %q, %v", name, raw, err)
		}
		if info, err := os.Stat(filepath.Join(in, name, "program")); err != nil || info.Mode() != 0o755 {
			t.Errorf("%s has a file of mode %v, %v", name, info.Mode(), err)
		}
	}
	exported("newest", 0, 2)
	exported("first", 1, 1)
	if _, err := export("newest", 0); !core.IsKind(err, core.Invalid) {
		t.Errorf("over what is there: %v", err)
	}
	if _, err := export("third", 3); !core.IsKind(err, core.NotFound) {
		t.Errorf("of an attempt without one: %v", err)
	}
	if damaged != 0 {
		t.Errorf("%d of the whole ones are damaged", damaged)
	}
	if err := os.WriteFile(filepath.Join(list[1].Dir, "program"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	exported("before", 0, 1)
	if _, err := export("damaged", 2); !core.IsKind(err, core.NotFound) || damaged != 2 {
		t.Errorf("of a damaged one: %v, %d are damaged", err, damaged)
	}
	if left, err := os.ReadDir(in); err != nil || len(left) != 3 {
		t.Errorf("left is %v, %v", left, err)
	}
}
