package fsutil

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// failSync has every fsync of this thread fail, as on a disk that breaks. The thread is to be
// thrown away.
func failSync() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FSYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})), 0, 0)
}

// TestNothingIsWrittenThatIsNotOnTheDisk: whatever cannot be synced is an error, and a file
// keeps what it had.
func TestNothingIsWrittenThatIsNotOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	file, moved, made := filepath.Join(dir, "file"), filepath.Join(dir, "moved"), filepath.Join(dir, "made", "below")
	must(t, WriteFile(file, []byte("before"), 0o600))
	must(t, os.WriteFile(moved, nil, 0o600))
	root, err := OpenRoot(dir)
	must(t, err)
	defer root.Close()
	tries := map[string]func() error{
		"WriteFile":           func() error { return WriteFile(file, []byte("after"), 0o600) },
		"WriteFile of a Root": func() error { return root.WriteFile("file", []byte("after"), 0o600) },
		"Rename":              func() error { return Rename(moved, moved+"2") },
		"MkdirAll":            func() error { return MkdirAll(made, 0o700) },
		"SyncDir":             func() error { return SyncDir(dir) },
	}
	type result struct {
		name string
		err  error
	}
	results := make(chan result)
	go func() {
		defer close(results)
		runtime.LockOSThread() // for good, so that the thread ends with this
		if err := failSync(); err != nil {
			results <- result{"failSync", err}
			return
		}
		for name, try := range tries {
			results <- result{name, try()}
		}
	}()
	for r := range results {
		if !errors.Is(r.err, unix.EIO) {
			t.Errorf("%s: %v, want an error of input or output", r.name, r.err)
		}
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "before" {
		t.Errorf("the file holds %q: %v", raw, err)
	}
}
