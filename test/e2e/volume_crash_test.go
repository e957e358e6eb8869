package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestVolumeKilled kills the I/O process again and again while a program writes, and then
// both processes: the program only waits, and everything whose close has returned arrives.
func TestVolumeKilled(t *testing.T) {
	testkit.AsRootToo(t)
	b, far, near := mounted(t, "--rate", "8mbit")
	kills, perKill := 6, int64(12)
	if testkit.Everything() {
		kills = 200
	}
	content := func(i int64) []byte { return bytes.Repeat(fmt.Appendf(nil, "file %d\n", i), 2000) }
	var written, stop atomic.Int64
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := int64(0); stop.Load() == 0; i++ {
			name := filepath.Join(near, fmt.Sprint("part", i))
			err := os.WriteFile(name, content(i), 0o600)
			if err == nil && i%3 == 0 {
				err = os.Rename(name, filepath.Join(near, fmt.Sprint("done", i)))
			}
			if err != nil {
				failed <- err
				return
			}
			written.Store(i + 1)
		}
	}()
	for range kills {
		goal := written.Load() + perKill
		testkit.Eventually(t, 30*time.Second, func() error {
			if written.Load() < goal {
				select {
				case err := <-failed:
					t.Fatalf("the program got %v", err)
				default:
				}
				return fmt.Errorf("%d of %d files are written", written.Load(), goal)
			}
			return nil
		})
		for _, pid := range processes(b, "volume-io ") {
			testkit.Kill(pid)
		}
	}
	stop.Store(1)
	if err := <-failed; err != nil {
		t.Fatalf("the program got %v", err)
	}
	large := bytes.Repeat([]byte("large"), 800_000) // more than is drained before the kill
	if err := os.WriteFile(filepath.Join(near, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, which := range []string{"volume-client ", "volume-io "} {
		for _, pid := range processes(b, which) {
			testkit.Kill(pid)
		}
	}
	var s volumeStatus
	b.JSON(&s, "volume", "status", "--json", far)
	if s.Drained || s.Running || s.Undrained == 0 {
		t.Fatalf("nothing was undrained when it was killed: %+v", s)
	}
	if _, err := os.ReadDir(near); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("the client was killed, and its mount answers %v", err)
	}
	// A buffer whose disk is not mounted is not an empty one.
	buffers, err := filepath.Glob(filepath.Join(b.Dir, "*", "volumes", "*", "buffer"))
	if err != nil || len(buffers) != 1 {
		t.Fatalf("buffers: %v, %v", buffers, err)
	}
	if err := os.Rename(buffers[0], buffers[0]+".away"); err != nil {
		t.Fatal(err)
	}
	if r := b.Try("volume", "umount", near); r.Code == 0 {
		t.Errorf("unmounted without its buffer: %+v", r)
	}
	var missing volumeStatus
	b.JSON(&missing, "volume", "status", "--json", far)
	if missing.Drained || missing.Waits == "" {
		t.Errorf("its buffer is missing: %+v", missing)
	}
	if err := os.Rename(buffers[0]+".away", buffers[0]); err != nil {
		t.Fatal(err)
	}
	b.Must("volume", "umount", near)
	for i := range written.Load() {
		name := fmt.Sprint("part", i)
		if i%3 == 0 {
			name = fmt.Sprint("done", i)
		}
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || !bytes.Equal(got, content(i)) {
			t.Errorf("%s has %d bytes of %d, %v", name, len(got), len(content(i)), err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(far, "large")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("the large file has %d bytes, %v", len(got), err)
	}
	if got := contents(t, far); len(got) != int(written.Load())+1 {
		t.Errorf("%d files of %d", len(got), written.Load())
	}
	b.CheckNothingLeft(20 * time.Second)
}
