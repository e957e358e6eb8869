package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// drainBeside drains a volume while a program writes to an open file all the time.
func drainBeside(t *testing.T, b *testkit.Bee, near string) {
	t.Helper()
	f, err := os.Create(filepath.Join(near, "log"))
	if err != nil {
		t.Fatal(err)
	}
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		every := time.NewTicker(time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-stop:
				failed <- f.Close()
				return
			case <-every.C:
			}
			if _, err := f.WriteString("line\n"); err != nil {
				failed <- err
				return
			}
		}
	}()
	b.Must("volume", "drain", near)
	close(stop)
	if err := errors.Join(<-failed, os.Remove(f.Name())); err != nil {
		t.Error(err)
	}
}

// TestVolumeLeft unmounts without waiting: draining continues in the background. A remote
// that another volume uses is refused meanwhile. The I/O process is killed, and another
// installation drains the buffer from its disk.
func TestVolumeLeft(t *testing.T) {
	b, far, near := mounted(t, "--rate", "4mbit")
	for i := range 4 {
		if err := os.WriteFile(filepath.Join(near, fmt.Sprint(i)), bytes.Repeat([]byte("x"), 1_200_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.Try("volume", "umount", "--no-wait", near); r.Code != 0 || !strings.Contains(r.Stderr, "undrained") {
		t.Errorf("umount: %+v", r)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if len(contents(t, far)) == 0 {
			return errors.New("nothing is drained in the background")
		}
		return nil
	})
	other := testkit.NewBee(t)
	if err := os.Mkdir(filepath.Join(other.Work, "near"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endVolumes(other, filepath.Join(other.Work, "near")) })
	if r := other.Try("volume", "mount", far, "near"); r.Code != 203 || !strings.Contains(r.Stderr, ".bee/volume.json") {
		t.Errorf("a second volume: %+v", r)
	}
	if left, err := filepath.Glob(filepath.Join(other.Dir, "*", "volumes", "*")); err != nil || len(left) > 0 {
		t.Errorf("a refused mount has left %v, %v", left, err)
	}
	var list []volumeStatus
	b.JSON(&list, "volume", "ls", "--json")
	if len(list) != 1 || !list[0].Running || list[0].Drained {
		t.Fatalf("ls: %+v", list)
	}
	if r := b.Try("volume", "forget", far); r.Code != 203 {
		t.Errorf("a volume with its buffer is forgotten: %+v", r)
	}
	if r := other.Try("volume", "recover", list[0].Place); r.Code != 203 {
		t.Errorf("recovered while it is drained: %+v", r)
	}
	for _, pid := range processes(b, "volume-io ") {
		testkit.Kill(pid)
	}
	if got := b.Must("volume", "ls"); !strings.Contains(got, list[0].Place) || !strings.Contains(got, "dead") {
		t.Errorf("ls: %s", got)
	}
	rescued := filepath.Join(other.Work, "rescued")
	if err := os.Rename(list[0].Place, rescued); err != nil {
		t.Fatal(err)
	}
	if got := b.Must("volume", "ls"); !strings.Contains(got, "missing") {
		t.Errorf("ls: %s", got)
	}
	other.Must("volume", "recover", "rescued")
	b.Must("volume", "forget", far)
	if got := b.Must("volume", "ls", "--all"); got != "" {
		t.Errorf("ls of a volume that was forgotten: %s", got)
	}
	if got := contents(t, far); len(got) != 4 {
		t.Errorf("the remote has %d files", len(got))
	}
	if left, err := filepath.Glob(filepath.Join(other.Dir, "*", "volumes", "*")); err != nil || len(left) > 0 {
		t.Errorf("a recovered volume has left %v, %v", left, err)
	}
	if _, err := os.Lstat(rescued); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the recovered buffer: %v", err)
	}
	for _, of := range []*testkit.Bee{b, other} {
		of.CheckNothingLeft(time.Minute)
	}
}
