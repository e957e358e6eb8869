package rootless

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// blocked are system calls that no program of a job needs, and by which bugs of
// kernels have been reached: loading code into the kernel, other namespaces and
// mounts, keys, clocks, tracing of the kernel. What MPI uses (shared memory,
// process_vm_readv, NUMA policies) is not among them. Docker's default profile
// refuses the same.
func blocked() []uint32 {
	return append([]uint32{
		unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE,
		unix.SYS_FINIT_MODULE, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK, unix.SYS_INIT_MODULE, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEYCTL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT,
		unix.SYS_NFSSERVCTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_OPEN_TREE, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PIVOT_ROOT, unix.SYS_QUOTACTL,
		unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF, unix.SYS_SWAPON, unix.SYS_UMOUNT2,
		unix.SYS_UNSHARE, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
	}, blockedHere()...)
}

// Offsets in struct seccomp_data (linux/seccomp.h).
const (
	dataNumber = 0
	dataArch   = 4
	dataFirst  = 16 // argument, its lower half
)

// newNamespaces are the flags of clone(2) that make namespaces, in which a
// process is root again.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// userModeOnly is the flag of userfaultfd(2) without which a process sees faults of the
// kernel, too. The library of bee_0 needs no more.
const userModeOnly = 1

// filter is the program that the kernel runs before each system call: those of
// another architecture, whose numbers mean other things, end the process;
// those that are blocked fail with EPERM. With faults, userfaultfd(2) for a program's own
// faults is none of them.
func filter(faults bool) []unix.SockFilter {
	statement := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	const load, result = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_RET | unix.BPF_K
	program := []unix.SockFilter{
		statement(load, dataArch), equal(auditArch, 1, 0), statement(result, unix.SECCOMP_RET_KILL_PROCESS),
		statement(load, dataNumber),
	}
	program = append(program, otherABI()...)
	// What clone3 is asked for cannot be seen from here: C libraries use clone
	// where it is missing.
	const refuse = unix.SECCOMP_RET_ERRNO
	program = append(program,
		equal(unix.SYS_CLONE3, 0, 1), statement(result, refuse|uint32(unix.ENOSYS)),
		equal(unix.SYS_CLONE, 0, 4), statement(load, dataFirst), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: newNamespaces, Jf: 1},
		statement(result, refuse|uint32(unix.EPERM)), statement(result, unix.SECCOMP_RET_ALLOW))
	if faults {
		program = append(program,
			equal(unix.SYS_USERFAULTFD, 0, 4), statement(load, dataFirst), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: userModeOnly, Jt: 1},
			statement(result, refuse|uint32(unix.EPERM)), statement(result, unix.SECCOMP_RET_ALLOW))
	}
	for _, number := range blocked() {
		program = append(program, equal(number, 0, 1), statement(result, refuse|uint32(unix.EPERM)))
	}
	return append(program, statement(result, unix.SECCOMP_RET_ALLOW))
}

// confine puts the filter on all threads of this process, for good. The
// process must have given up gaining privileges.
//
// Kernels before 5.16 take a filter for the sign of a browser's tab, and let its
// process guess no more ahead (Speculative Store Bypass, CVE-2018-3639; indirect
// branches), which costs a computation some percent; a job's processes share no
// memory with one that they must not read, so they are asked not to. Kernels
// before 4.17 know neither.
func confine(faults bool) error {
	program := filter(faults)
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	install := func(flags uintptr) unix.Errno {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&p)))
		return errno
	}
	errno := install(unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	if errno == unix.EINVAL {
		errno = install(unix.SECCOMP_FILTER_FLAG_TSYNC)
	}
	if errno != 0 {
		return fmt.Errorf("install the system call filter: %w", errno)
	}
	return nil
}
