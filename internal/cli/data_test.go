package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestWhatIsThereIsNotWrittenOver: commands that fill a directory of a name that is
// given take none in whose place something is.
func TestWhatIsThereIsNotWrittenOver(t *testing.T) {
	d := newDesk(t)
	file, full := filepath.Join(d.dir, "file"), filepath.Join(d.dir, "full")
	if err := errors.Join(os.WriteFile(file, []byte("mine"), 0o600), os.Mkdir(full, 0o700), os.WriteFile(filepath.Join(full, "qemu"), []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"vm", "bundle"}, {"data", "unload", "any.img"}} {
		for _, into := range []string{file, full} {
			if err := d.bee(append(command, into)...); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
				t.Errorf("%v %s: %v", command, into, err)
			}
		}
	}
	for _, name := range []string{file, filepath.Join(full, "qemu")} {
		if got, err := os.ReadFile(name); err != nil || string(got) != "mine" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
