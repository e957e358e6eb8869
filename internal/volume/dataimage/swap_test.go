package dataimage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWhatIsSwappedMeanwhileLeadsNowhere: anyone who fills a directory exchanges names in it
// while it is read. Nothing outside counts, and no FIFO is waited for.
func TestWhatIsSwappedMeanwhileLeadsNowhere(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	filled := func(kinds ...string) string {
		dir := t.TempDir()
		var err error
		for i, kind := range kinds {
			name := filepath.Join(dir, string(rune('a'+i)))
			switch kind {
			case "dir":
				err = errors.Join(err, os.Mkdir(name, 0o755), os.WriteFile(filepath.Join(name, "own"), []byte("own"), 0o600))
			case "link":
				err = errors.Join(err, os.Symlink(outside, name))
			case "fifo":
				err = errors.Join(err, unix.Mkfifo(name, 0o600))
			case "file":
				err = errors.Join(err, os.WriteFile(name, []byte("own"), 0o600))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	honest := map[string]bool{}
	for _, first := range []string{"dir", "link"} {
		for _, second := range []string{"dir", "link"} {
			for _, third := range []string{"fifo", "file"} {
				for _, fourth := range []string{"fifo", "file"} {
					digest, err := DigestOf(t.Context(), filled(first, second, third, fourth))
					if err != nil {
						t.Fatal(err)
					}
					honest[digest] = true
				}
			}
		}
	}
	dir := filled("dir", "link", "fifo", "file")
	swap := func(a, b string) {
		unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, a), unix.AT_FDCWD, filepath.Join(dir, b), unix.RENAME_EXCHANGE) //nolint:errcheck // it shows in the digests
	}
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				swap("a", "b")
				swap("c", "d")
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	late := time.AfterFunc(time.Minute, func() { panic("a FIFO is waited for") })
	defer late.Stop()
	read := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		digest, err := DigestOf(t.Context(), dir)
		if err != nil { // as it was swapped meanwhile
			continue
		}
		if read++; !honest[digest] {
			t.Fatal("what lies outside counts")
		}
	}
	if read == 0 {
		t.Error("the directory was never read")
	}
}
