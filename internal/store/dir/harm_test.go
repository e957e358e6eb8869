package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
)

// harmed is what anyone who may write to a directory of checkpoints puts into it, by what it
// takes the place of. Each leads to the directory secret.
func harmed(secret string) map[string]func(own string) error {
	link := func(to string, at ...string) func(string) error {
		return func(own string) error {
			path := filepath.Join(append([]string{own}, at...)...)
			return errors.Join(os.RemoveAll(path), os.Symlink(to, path))
		}
	}
	fifo := func(at ...string) func(string) error {
		return func(own string) error {
			path := filepath.Join(append([]string{own}, at...)...)
			return errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600))
		}
	}
	// moved has a link lead to the very thing: its content fits the manifest.
	moved := func(at ...string) func(string) error {
		return func(own string) error {
			path := filepath.Join(append([]string{own}, at...)...)
			to := filepath.Join(filepath.Dir(own), "moved")
			return errors.Join(os.Rename(path, to), os.Symlink(to, path))
		}
	}
	file := filepath.Join(secret, "state")
	return map[string]func(string) error{
		"a file is a link":             link(file, "2", volumeName, "state"),
		"a file is a link to it":       moved("2", volumeName, "state"),
		"a file is a FIFO":             fifo("2", volumeName, "state"),
		"a file is a device":           link("/dev/zero", "2", volumeName, "state"),
		"a file is larger than a disk": func(own string) error { return os.Truncate(filepath.Join(own, "2", volumeName, "state"), 15<<40) },
		"a directory is a link":        link(secret, "2", volumeName, "below"),
		"a directory is a link to it":  moved("2", volumeName, "below"),
		"the volume is a link":         link(secret, "2", volumeName),
		"the volume is a link to it":   moved("2", volumeName),
		"the volume is a FIFO":         fifo("2", volumeName),
		"the manifest is a link":       link(file, "2", manifestName),
		"the manifest is a link to it": moved("2", manifestName),
		"the manifest is a FIFO":       fifo("2", manifestName),
		"the manifest is a device":     link("/dev/zero", "2", manifestName),
		"the manifest is a directory": func(own string) error {
			p := filepath.Join(own, "2", manifestName)
			return errors.Join(os.Remove(p), os.MkdirAll(filepath.Join(p, "x"), 0o700))
		},
		"the checkpoint is a link":       link(secret, "2"),
		"the checkpoint is a link to it": moved("2"),
		"the checkpoint is a FIFO":       fifo("2"),
	}
}

// TestLinksInAStore: nothing elsewhere is read, changed or removed by way of them, nothing
// hangs, and the checkpoint before is still good.
func TestLinksInAStore(t *testing.T) {
	for name := range harmed("") {
		t.Run(name, func(t *testing.T) {
			secret := t.TempDir()
			tree := t.TempDir()
			fill := func(dir, text string) {
				t.Helper()
				if err := errors.Join(os.MkdirAll(filepath.Join(dir, "below"), 0o700), os.WriteFile(filepath.Join(dir, "state"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "below", "x"), []byte("x"), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			fill(tree, "first")
			store := Store(t.TempDir()).Run("a@b").(rooted)
			for i := 1; i <= 2; i++ {
				if _, _, err := store.Keep(t.Context(), driver.Generation{Attempt: i}, "s", localTree(tree)); err != nil {
					t.Fatal(err)
				}
			}
			fill(secret, "a secret")
			if err := os.Mkdir(filepath.Join(secret, volumeName), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(secret, manifestName), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := harmed(secret)[name](string(store.Checkpoints)); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() { defer close(done); useHarmed(t, store, tree) }()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("it hangs")
			}
			is, err := os.ReadFile(filepath.Join(secret, "state"))
			left, lerr := filepath.Glob(filepath.Join(secret, "*"))
			if err != nil || lerr != nil || string(is) != "a secret" || len(left) != 4 {
				t.Errorf("elsewhere there is %q, %v, %v", is, left, errors.Join(err, lerr))
			}
		})
	}
}

// useHarmed restores from a store whose second checkpoint was harmed, and keeps more there.
func useHarmed(t *testing.T, store rooted, tree string) {
	list, err := store.List(t.Context())
	if err != nil || len(list) == 0 {
		t.Errorf("list: %v, %v", list, err)
		return
	}
	for _, k := range list {
		to := filepath.Join(t.TempDir(), "to")
		err := store.Restore(t.Context(), k, localTree(to))
		if good := k.Attempt == 1; (err == nil) != good {
			t.Errorf("restore %s: %v", k, err)
		}
		if _, serr := os.Lstat(to); err != nil && !errors.Is(serr, fs.ErrNotExist) {
			t.Errorf("something has come of %s: %v", k, serr)
		}
	}
	if _, _, err := store.Keep(t.Context(), driver.Generation{Attempt: 2}, "s", localTree(tree)); err == nil {
		if list, lerr := store.List(t.Context()); lerr != nil || len(list) != 2 || store.Check(t.Context(), list[1]) != nil {
			t.Errorf("it was kept again, and there are %v, %v", list, lerr)
		}
	}
	for i := 3; i <= 5; i++ {
		if _, _, err := store.Keep(t.Context(), driver.Generation{Attempt: i}, "s", localTree(tree)); err != nil {
			t.Errorf("keep %d: %v", i, err)
		}
	}
	if list, err := store.List(t.Context()); err != nil || len(list) != generations {
		t.Errorf("there are %v, %v", list, err)
	}
}
