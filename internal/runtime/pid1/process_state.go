package pid1

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// umask is that of processes in containers, as docker and podman have it.
const umask = 0o022

// Fresh frees this process, and all that it starts, of state that its own starter
// happened to have: ignored and blocked signals, and open files beyond the first
// three. A mask of signals can only be changed for a whole Go program by starting it
// again, which Fresh does before anything was read.
func Fresh() error {
	blocked, ignored, err := signals()
	if err != nil {
		return err
	}
	for s := range unix.Signal(64) {
		if ignored&(1<<s) != 0 {
			if err := byDefault(s + 1); err != nil {
				return err
			}
		}
	}
	if blocked != 0 {
		runtime.LockOSThread()
		if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
			return fmt.Errorf("unblock signals: %w", err)
		}
		return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	closeOnExec()
	return nil
}

// closeOnExec keeps descriptors that came with this process from those it starts.
func closeOnExec() {
	core.BestEffort(unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)) // older kernels do not have it
}

// Outlive has this process continue where the terminal or the other end of a pipe goes
// away. The signals are not ignored, as what is ignored stays so for all that is started.
func Outlive(more ...os.Signal) {
	signal.Notify(make(chan os.Signal, 1), append(more, unix.SIGHUP, unix.SIGPIPE)...)
}

// signals gives this thread's blocked and ignored signals; bit 0 is signal 1.
func signals() (blocked, ignored uint64, err error) {
	raw, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return 0, 0, fmt.Errorf("read the state of signals: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "SigBlk":
			blocked, err = strconv.ParseUint(value, 16, 64)
		case "SigIgn":
			ignored, err = strconv.ParseUint(value, 16, 64)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read the state of signals: %w", err)
		}
	}
	return blocked, ignored, nil
}

// byDefault has a signal do what it does in a program that says nothing of it.
func byDefault(s unix.Signal) error {
	var action [8]uint64 // the kernel's struct sigaction of all architectures is smaller, and zero is SIG_DFL
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0); errno != 0 {
		return fmt.Errorf("reset signal %d: %w", s, errno)
	}
	return nil
}
