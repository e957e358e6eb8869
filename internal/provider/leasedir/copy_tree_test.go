package leasedir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// TestCopyTree: what is at the place stays, and gets what it lacks, also where an earlier call was
// cut short. No link leads out of the volume, nor is one in a directory followed.
func TestCopyTree(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"volume/mesh/grid": "42", "volume/mesh/own": "theirs", "volume/mesh/deep/x": "x", "secret": "s",
		"to/full/own": "mine", "to/full/deep": "a file", "to/file": "mine", "via/mesh/torn": "t",
	} {
		write(name, text)
	}
	for link, to := range map[string]string{"volume/out": "../secret", "volume/abs": filepath.Join(dir, "secret"), "volume/in": "mesh/grid", "volume/mesh/out": "../../secret"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		from, to string
		kind     core.Kind
		want     map[string]string // files below to; "" is to itself
	}{
		{from: "mesh", to: "new", want: map[string]string{"grid": "42", "own": "theirs", "deep/x": "x"}},
		{from: "mesh", to: "full", want: map[string]string{"grid": "42", "own": "mine", "deep": "a file"}},
		{from: "mesh/grid", to: "a/b/one", want: map[string]string{"": "42"}},
		{from: "mesh/grid", to: "file", want: map[string]string{"": "mine"}},
		{from: "mesh", to: "file", want: map[string]string{"": "mine"}},
		{from: "in", to: "linked", want: map[string]string{"": "42"}},
		{from: ".", to: "all", want: map[string]string{"mesh/grid": "42"}},
		{from: "out", to: "x", kind: core.Invalid},
		{from: "abs", to: "x", kind: core.Invalid},
		{from: "../secret", to: "x", kind: core.Invalid},
		{from: "none", to: "x", kind: core.NotFound},
		{from: "mesh/grid/x", to: "x", kind: core.NotFound},
	} {
		volume, to := filepath.Join(dir, "volume"), filepath.Join(dir, "to", c.to)
		lent := driver.Transfer{Remote: volume + "/" + c.from, Within: volume, Seen: "/work"}
		for range 2 {
			err := CopyTree(t.Context(), lent, filepath.Join(dir, "via", "mesh"), to)
			if (err != nil) != (c.want == nil) || err != nil && !core.IsKind(err, c.kind) {
				t.Errorf("%s to %s: %v", c.from, c.to, err)
			}
		}
		if _, err := Look(t.Context(), lent); (err != nil) != (c.want == nil) || err != nil && !core.IsKind(err, c.kind) {
			t.Errorf("%s is looked at: %v", c.from, err)
		}
		for name, want := range c.want {
			if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
				t.Errorf("%s to %s: %s is %q, %v", c.from, c.to, name, got, err)
			}
		}
	}
	if link, err := os.Readlink(filepath.Join(dir, "to", "new", "out")); err != nil || link != "../../secret" {
		t.Errorf("a link in a directory is %q, %v", link, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "to", "x")); !os.IsNotExist(err) {
		t.Errorf("something came from nowhere: %v", err)
	}
	for _, torn := range []string{"new/torn", "full/torn"} {
		if _, err := os.Lstat(filepath.Join(dir, "to", torn)); !os.IsNotExist(err) {
			t.Errorf("a part of an earlier copy is at the place: %v", err)
		}
	}
}
