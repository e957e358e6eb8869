package drivertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/bee-hpc/bee/internal/driver"
	"golang.org/x/sys/unix"
)

// callsVariable has a process of the test make system calls, and print which fail.
const callsVariable = "BEE_SUITE_CALLS"

// makeCalls makes the calls that MPI makes, and one that no job needs: "keyctl".
func makeCalls() {
	var mode int32
	page := make([]byte, 1)
	other := exec.Command("sleep", "1000")
	report := func(name string, errno unix.Errno) {
		if errors.Is(errno, unix.EPERM) || errors.Is(errno, unix.EACCES) {
			fmt.Println(name)
		}
	}
	if err := other.Start(); err != nil {
		fmt.Println("start:", err)
		return
	}
	defer other.Process.Kill()
	call := func(name string, number uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		report(name, errno)
	}
	local := unix.Iovec{Base: &page[0], Len: 1}
	remote := unix.RemoteIovec{Base: mappedOf(other.Process.Pid), Len: 1}
	call("process_vm_readv", unix.SYS_PROCESS_VM_READV, uintptr(other.Process.Pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	call("get_mempolicy", unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), 0, 0, 0, 0)
	call("set_mempolicy", unix.SYS_SET_MEMPOLICY, 0, 0, 0)
	call("mbind", unix.SYS_MBIND, 0, 0, 0, 0, 0, 0)
	call("move_pages", unix.SYS_MOVE_PAGES, 0, 0, 0, 0, 0, 0)
	call("personality", unix.SYS_PERSONALITY, 0x0040000)
	call("keyctl", unix.SYS_KEYCTL, 0, 0, 0, 0, 0)
}

// mappedOf is an address that a process may read.
func mappedOf(pid int) uintptr {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		fmt.Println("maps:", err)
	}
	first, _, _ := strings.Cut(string(raw), "-")
	at, _ := strconv.ParseUint(first, 16, 64) // 0 is none, which the call shows it
	return uintptr(at)
}

// filter wants the filter of system calls that a specification asks for, and in the one
// that nobody asks for all that MPI needs.
func (s RuntimeSuite) filter(t *testing.T) {
	own, err := exec.Command("grep", "^Seccomp:", "/proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	const ask, filtered = "grep ^Seccomp: /proc/self/status", "Seccomp:\t2"
	none, usual := strings.TrimSpace(string(own)), strings.TrimSpace(string(own))
	if s.OwnKernel {
		none, usual = "Seccomp:\t0", "Seccomp:\t0"
	}
	if s.Filters {
		usual = filtered
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := s.spec(t)
	if !s.OwnKernel {
		c.Mounts = append(c.Mounts, driver.Mount{Source: self, Target: "/suite", ReadOnly: true})
	}
	box := s.start(t, c)
	if got := want(t, box, ask); got != usual {
		t.Errorf("%s without having been asked for, want %s", got, usual)
	}
	if s.OwnKernel { // by another runtime inside, which has this suite too
		return
	}
	r := run(t, box, "", driver.Command{Args: []string{"/suite", "-test.run=^$"}, Env: []string{"PATH=/bin", callsVariable + "=1"}})
	denied := ""
	if s.Filters {
		denied = "keyctl\n"
	}
	if r.exit.Code != 0 || r.out != denied {
		t.Errorf("these calls are denied: %q, want %q (%d: %s)", r.out, denied, r.exit.Code, r.err)
	}
	c = s.spec(t)
	c.Unfiltered = true
	if got := want(t, s.start(t, c), ask); got != none {
		t.Errorf("%s where no filter was wanted", got)
	}
	c = s.spec(t)
	c.Seccomp = true
	box = s.startUnlessRefused(t, c)
	if box == nil {
		return
	}
	if got := want(t, box, ask); got != filtered {
		t.Errorf("%s where a filter was asked for", got)
	}
}
