package qemu

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ServerCommand is the first argument of a BEE process that becomes the server
// of a share: the command of virtiofsd follows.
const ServerCommand = "share-server"

// ServerMain is the entry point of such a process.
func ServerMain(command []string) int {
	err := become(command)
	fmt.Fprintln(os.Stderr, "bee: become the server of a share:", err)
	return 1
}

func become(command []string) error {
	runtime.LockOSThread() // whose filter it is
	var files unix.Rlimit  // one for each that the guest knows of
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Cur = files.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		if err := pretendToChangeUsers(); err != nil {
			return err
		}
	}
	return syscall.Exec(command[0], command, os.Environ())
}

// pretendToChangeUsers has the calls by which a server takes on the user of a
// request succeed and do nothing. An ordinary user cannot carry them out, and
// what any user of the guest writes shall belong to him anyway, as with 9p.
func pretendToChangeUsers() error {
	statement := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	program := []unix.SockFilter{statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0)} // the call's number
	for _, call := range []uint32{unix.SYS_SETGROUPS, unix.SYS_SETRESUID, unix.SYS_SETRESGID} {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
			statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO)) // error 0
	}
	program = append(program, statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW))
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return fmt.Errorf("install the filter of system calls: %w", errno)
	}
	return nil
}
