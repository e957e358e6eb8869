package fsutil

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOwnPlace: whatever another user has made of a name, all processes of this one find one
// directory of their own.
func TestOwnPlace(t *testing.T) {
	in := filepath.Join(t.TempDir(), "tmp")
	if err := errors.Join(os.Mkdir(in, 0o700), os.Chmod(in, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	for what, make := range map[string]func(dir string) error{
		"file":    func(dir string) error { return os.WriteFile(dir, nil, 0o666) },
		"link":    func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"FIFO":    func(dir string) error { return unix.Mkfifo(dir, 0o666) },
		"for all": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)) },
		"theirs": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), unix.Chown(dir, 54321, 54321)) // as root alone
		},
	} {
		dir := filepath.Join(in, what)
		if got, err := OwnPlace(dir); got != dir || err != nil {
			t.Errorf("%s: nothing is there, got %q, %v", what, got, err)
		}
		if err := make(dir); err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		} else if err != nil {
			continue
		}
		// Names that the other user could make of what it sees.
		if err := errors.Join(os.Symlink(t.TempDir(), dir+"-"+strings.Repeat("0", 16)+"-"+strings.Repeat("a", 26)), os.WriteFile(dir+"-x", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				got, err := OwnPlace(dir)
				if err != nil || !strings.HasPrefix(got, dir+"-") {
					t.Errorf("%s: got %q, %v", what, got, err)
				}
			})
		}
		group.Wait()
		oldest := OwnBeside(dir)
		if r, err := OpenOwn(oldest); err != nil {
			t.Errorf("%s: %v", what, err)
		} else {
			r.Close()
		}
		if got, err := OwnPlace(dir); got != oldest || err != nil {
			t.Errorf("%s: the next one has %q, %v, want %q", what, got, err, oldest)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if got, err := OwnPlace(dir); got != oldest || err != nil {
			t.Errorf("%s: once the other user's is gone, %q, %v, want %q", what, got, err, oldest)
		}
	}
}
