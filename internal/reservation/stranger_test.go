package reservation

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestAnotherUserWasFirst: whatever another user has made of the ledger's name, in places
// where all may write, this user's runs reckon with each other.
func TestAnotherUserWasFirst(t *testing.T) {
	testkit.RequireRoot(t)
	const stranger, name = 54321, "bee-memory-0"
	theirs := t.TempDir()
	for what, make := range map[string]func(dir string) error{
		"a directory":     func(dir string) error { return os.Mkdir(dir, 0o700) },
		"own directories": func(dir string) error { return os.Mkdir(dir, 0o700) },
		"one for all": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777))
		},
		"a file":           func(dir string) error { return os.WriteFile(dir, nil, 0o666) },
		"a FIFO":           func(dir string) error { return unix.Mkfifo(dir, 0o666) },
		"a link to theirs": func(dir string) error { return os.Symlink(theirs, dir) },
		"a link to ours":   func(dir string) error { return os.Symlink(t.TempDir(), dir) },
	} {
		t.Run(what, func(t *testing.T) {
			var places []string
			for range 2 {
				dir := t.TempDir()
				if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
					t.Fatal(err)
				}
				places = append(places, dir)
			}
			dir := filepath.Join(places[0], name)
			if err := errors.Join(make(dir), os.Lchown(dir, stranger, stranger)); err != nil {
				t.Fatal(err)
			}
			if what == "own directories" {
				for _, place := range places[1:] {
					if err := errors.Join(make(filepath.Join(place, name)), os.Lchown(filepath.Join(place, name), stranger, stranger)); err != nil {
						t.Fatal(err)
					}
				}
			}
			over := time.AfterFunc(time.Minute, func() { panic("it waits for another user") })
			defer over.Stop()
			held, why, err := Ledger(fsutil.ChoosePlace(places, name)).Make(New("one", want), func([]Reservation) error { return nil })
			if held == nil || why != nil || err != nil {
				t.Fatalf("no promise is made: %v, %v", why, err)
			}
			defer held.Release()
			if err := os.RemoveAll(dir); err != nil { // they could end it, too
				t.Fatal(err)
			}
			if all, err := Ledger(fsutil.ChoosePlace(places, name)).Reservations(); err != nil || len(all) != 1 {
				t.Errorf("another run reckons with %v, %v", all, err)
			}
		})
	}
}
