package hostdir

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	testkit.RequireUser(t)
	dir := t.TempDir()
	make := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(path, 0o700) }) //nolint:errcheck // for its removal
		return path
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range [][2]string{{make("whole", 0o700), "link"}, {file, "to-file"}, {"round", "round"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path         string
		read, change bool
	}{
		{"whole", true, true},
		{"link", true, true},
		{filepath.Base(make("fixed", 0o500)), true, false},
		{filepath.Base(make("unlisted", 0o300)), false, false},
		{filepath.Base(make("shut", 0o600)), false, false},
		{filepath.Base(make("closed", 0)), false, false},
		{"file", false, false},
		{"to-file", false, false},
		{"fifo", false, false},
		{"round", false, false},
		{"missing", false, false},
		{"file/below", false, false},
	} {
		for write, want := range map[bool]bool{false: c.read, true: c.change} {
			f, err := Open(t.Context(), filepath.Join(dir, c.path), write)
			if (err == nil) != want || err != nil && (!core.IsKind(err, core.Unsupported) || core.Remedy(err) == "") {
				t.Errorf("%s, write %v: %v, %s", c.path, write, err, core.Remedy(err))
			}
			if err == nil {
				f.Close()
			}
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for { // either may be ready first
		f, err := Open(over, filepath.Join(dir, "whole"), false)
		if err != nil {
			if !core.IsKind(err, core.Transient) {
				t.Errorf("a file system that does not answer: %v", err)
			}
			break
		}
		f.Close()
	}
}

// TestReopen: anyone who may rename directories beside it cannot have another one bound.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	data, link := filepath.Join(dir, "data"), filepath.Join(dir, "link")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), link, true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, err := IDOf(f)
	if err != nil {
		t.Fatal(err)
	}
	real, err := Real(f)
	if err != nil || filepath.Base(real) != "data" {
		t.Fatalf("%q, %v", real, err)
	}
	again, err := Reopen(real, id)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if err := os.Rename(data, data+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(real, id); !core.IsKind(err, core.Unsupported) {
		t.Errorf("a directory that is gone: %v", err)
	}
	if err := os.Symlink("/etc", data); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(real, id); !core.IsKind(err, core.Unsupported) {
		t.Errorf("another directory in its place: %v", err)
	}
	if err := os.Remove(data + ".old"); err != nil {
		t.Fatal(err)
	}
	if real, err := Real(f); !core.IsKind(err, core.NotFound) {
		t.Errorf("a directory that was removed: %q, %v", real, err)
	}
}

func TestExpand(t *testing.T) {
	set := map[string]string{"SCRATCH": "/scratch/ann", "EMPTY": "", "HOME": "/home/ann"}
	lookup := func(name string) (string, bool) { v, is := set[name]; return v, is }
	for path, want := range map[string]string{
		"/project/era5": "/project/era5", "/a/../b//c/": "/b/c", "$SCRATCH/x": "/scratch/ann/x", "${HOME}/x": "/home/ann/x", "/s/$EMPTY/x": "/s/x",
		"$NONE/x": "", "$EMPTY": "", "/a/$NONE": "", "$EMPTY/x": "/x",
	} {
		got, err := Expand(path, lookup)
		if got != want || (err == nil) != (want != "") || err != nil && !core.IsKind(err, core.Unsupported) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	none := func(string) (string, bool) { return "", false }
	if got, err := Expand("$HOME/$USER", none); err != nil || !filepath.IsAbs(got) {
		t.Errorf("without variables: %q, %v", got, err)
	}
}
