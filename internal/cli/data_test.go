package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
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

// TestWhatIsLoadedIsTheDirectoryThatIsNamed: also by a link; and no image becomes a part of
// what it holds.
func TestWhatIsLoadedIsTheDirectoryThatIsNamed(t *testing.T) {
	testkit.RequireTool(t, "mke2fs")
	d := newDesk(t)
	dir, link, secret := filepath.Join(d.dir, "in"), filepath.Join(d.dir, "link"), filepath.Join(d.dir, "in", "secret")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "word"), []byte("mine"), 0o600), os.Symlink("in", link)); err != nil {
		t.Fatal(err)
	}
	for _, into := range []string{dir, link} {
		image := filepath.Join(into, "x.img")
		if err := d.bee("data", "load", image, dir); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%s: %v", image, err)
		}
		if _, err := os.Stat(image); err == nil {
			t.Errorf("%s was made", image)
		}
	}
	image, out := filepath.Join(d.dir, "x.img"), filepath.Join(d.dir, "out")
	if err := errors.Join(d.bee("data", "load", image, link), d.bee("data", "unload", image, out)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(out, "word")); err != nil || string(got) != "mine" {
		t.Errorf("of the link's directory came %q, %v", got, err)
	}
	if err := os.WriteFile(secret, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(secret); err == nil {
		return // root may read all
	}
	if err := d.bee("data", "load", "--force", image, dir); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("a file that may not be read: %v", err)
	}
}
