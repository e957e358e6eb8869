package slurm

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheEndOfALog: of a job that writes without end, that has put something else in the
// place of its log, or that speaks to terminals.
func TestTheEndOfALog(t *testing.T) {
	log := filepath.Join(t.TempDir(), logName)
	if got := lastOf(log); got != "" {
		t.Errorf("of none: %q", got)
	}
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("x", longestOutput)+"\x1b]0;owned\a the end\n"), 1<<40); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := lastOf(log)
	runtime.ReadMemStats(&after)
	if !strings.HasSuffix(got, "the end") || strings.ContainsAny(got, "\x1b\a") || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%q, with %d bytes of memory", got, after.TotalAlloc-before.TotalAlloc)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(log, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lastOf(log); got != "" {
		t.Errorf("of a FIFO: %q", got)
	}
}
