package fsutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAppendOnlyToPlainFiles: nothing but a plain file is written to or waited for, nor is
// what a link leads to made or changed.
func TestAppendOnlyToPlainFiles(t *testing.T) {
	for name, open := range map[string]func(*Root, string, fs.FileMode) (*os.File, error){"append": (*Root).Append, "empty": (*Root).Empty} {
		t.Run(name, func(t *testing.T) {
			r, outside := hostile(t)
			deadline := time.AfterFunc(time.Minute, func() { panic("opening waits") })
			defer deadline.Stop()
			read, err := unix.Open(r.Path("fifo"), unix.O_RDONLY|unix.O_NONBLOCK, 0)
			must(t, err)
			must(t, unix.Mkfifo(r.Path("unread"), 0o600))
			must(t, os.Symlink(filepath.Join(outside, "new"), r.Path("new")))
			must(t, os.Symlink(filepath.Join(outside, "secret"), r.Path("log")))
			must(t, os.Symlink("/dev/null", r.Path("null")))
			for _, name := range []string{"fifo", "unread", "new", "log", "null", "run1", "latest", "loop", "gone"} {
				if f, err := open(r, name, 0o600); !errors.Is(err, ErrNotPlain) {
					t.Errorf("%s: %v, %v", name, f, err)
				}
			}
			for _, name := range []string{"up/secret", "up/more", "etc/bee", "plain/x", "../more"} {
				if f, err := open(r, name, 0o600); err == nil {
					t.Errorf("%s: %v was opened", name, f)
				}
			}
			must(t, unix.Close(read))
			if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
				t.Errorf("outside there is %v, %v", names, err)
			}
			if raw, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(raw) != "secret" {
				t.Errorf("outside: %q, %v", raw, err)
			}
		})
	}
}

// TestAppendIsAnOrdinaryFile: it keeps what is there, has its mode, and waits.
func TestAppendIsAnOrdinaryFile(t *testing.T) {
	r, _ := hostile(t)
	for name, want := range map[string]string{"plain": "pmore", "run1/fresh": "more"} {
		f, err := r.Append(name, 0o640)
		must(t, err)
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		must(t, err)
		if flags&unix.O_NONBLOCK != 0 {
			t.Errorf("%s: processes would inherit a descriptor that does not wait", name)
		}
		_, err = f.WriteString("more")
		must(t, errors.Join(err, f.Close()))
		if raw, err := os.ReadFile(r.Path(name)); err != nil || string(raw) != want {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
	f, err := Empty(r.Path("plain"), 0o600)
	must(t, err)
	_, err = f.WriteAt([]byte("new"), 0)
	must(t, errors.Join(err, f.Close()))
	if raw, err := os.ReadFile(r.Path("plain")); err != nil || string(raw) != "new" {
		t.Errorf("emptied: %q, %v", raw, err)
	}
}
