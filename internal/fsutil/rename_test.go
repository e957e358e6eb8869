package fsutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// renames are what RenameNew does where a file system can do more and less.
func renames() map[string]func(dir int, base string, at int, as string) error {
	return map[string]func(dir int, base string, at int, as string) error{
		"renameat2": renameNew, "link": renameNewStepwise, "look": renameLooking,
	}
}

// TestRenameNew moves files, links and directories, and replaces nothing.
func TestRenameNew(t *testing.T) {
	for route, rename := range renames() {
		for _, kind := range []string{"file", "link", "directory"} {
			dir := t.TempDir()
			r, err := OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			make := map[string]func(name string) error{
				"file":      func(name string) error { return os.WriteFile(name, []byte(name), 0o600) },
				"link":      func(name string) error { return os.Symlink("nowhere", name) },
				"directory": func(name string) error { return os.MkdirAll(filepath.Join(name, "in"), 0o700) },
			}
			if err := make[kind](filepath.Join(dir, "came")); err != nil {
				t.Fatal(err)
			}
			for there := range make {
				name := "a " + there
				if err := make[there](filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				before, err := r.Lstat(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.dir.move("rename", "came", r.dir, name, rename); !errors.Is(err, fs.ErrExist) {
					t.Errorf("%s: a %s over a %s: %v", route, kind, there, err)
				}
				if after, err := r.Lstat(name); err != nil || !os.SameFile(before, after) {
					t.Errorf("%s: a %s has taken the place of a %s, %v", route, kind, there, err)
				}
			}
			came, err := r.Lstat("came")
			if err != nil {
				t.Fatal(err)
			}
			if err := r.dir.move("rename", "came", r.dir, "new", rename); err != nil {
				t.Errorf("%s: a %s to a new name: %v", route, kind, err)
			}
			if now, err := r.Lstat("new"); err != nil || !os.SameFile(came, now) {
				t.Errorf("%s: a %s is not at its new name: %v", route, kind, err)
			}
			if is, err := r.Exists("came"); is || err != nil {
				t.Errorf("%s: a %s has its old name, too, %v", route, kind, err)
			}
		}
	}
}

// TestRenameNewAtOneTime: one of many files gets the name, and the others stay.
func TestRenameNewAtOneTime(t *testing.T) {
	for route, rename := range renames() {
		if route == "look" { // which promises less
			continue
		}
		dir := t.TempDir()
		r, err := OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		const files = 32
		var all sync.WaitGroup
		var moved atomic.Int32
		for i := range files {
			name := strconv.Itoa(i)
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				switch err := r.dir.move("rename", name, r.dir, "one", rename); {
				case err == nil:
					moved.Add(1)
				case !errors.Is(err, fs.ErrExist):
					t.Errorf("%s: %v", route, err)
				}
			})
		}
		all.Wait()
		if left, err := r.ReadDir("."); moved.Load() != 1 || len(left) != files || err != nil {
			t.Errorf("%s: %d files were moved, and %d are left, %v", route, moved.Load(), len(left), err)
		}
	}
}
