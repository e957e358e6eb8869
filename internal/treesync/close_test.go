package treesync

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// failClose has every close of this thread fail, as on a file system of another
// machine, which reports there at the earliest that it had no space left. The thread is
// to be thrown away.
func failClose() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_CLOSE},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSPC)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})), 0, 0)
}

func TestWhatIsLostWhenAFileIsClosedIsAnError(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	must(t, os.WriteFile(from, []byte("content"), 0o600))
	copied := make(chan error)
	go func() {
		runtime.LockOSThread() // for good, so that the thread ends with this
		err := failClose()
		if err == nil {
			err = Copy(context.Background(), from, to, nil)
		}
		copied <- err
	}()
	if err := <-copied; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("its content is lost, and that is %v", err)
	}
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what lacks content has its name: %v", err)
	}
}
