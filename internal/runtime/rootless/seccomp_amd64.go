package rootless

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

func blockedHere() []uint32 {
	return []uint32{
		unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_QUERY_MODULE, unix.SYS__SYSCTL,
		unix.SYS_SYSFS, unix.SYS_USELIB, unix.SYS_USTAT,
	}
}

// otherABI refuses the calls of x32, which have numbers of their own.
func otherABI() []unix.SockFilter {
	const x32 = 0x40000000
	return []unix.SockFilter{
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: x32, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}
}
