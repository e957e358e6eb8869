package rootless

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilter plays system calls through the filter.
func TestFilter(t *testing.T) {
	const refused = unix.SECCOMP_RET_ERRNO | int(unix.EPERM)
	for _, tc := range []struct {
		name          string
		faults        bool
		number, first uint32
		want          int
	}{
		{"getpid", false, unix.SYS_GETPID, 0, unix.SECCOMP_RET_ALLOW},
		{"keyctl", false, unix.SYS_KEYCTL, 0, refused},
		{"clone of a thread", false, unix.SYS_CLONE, unix.CLONE_VM | unix.CLONE_THREAD, unix.SECCOMP_RET_ALLOW},
		{"clone with a namespace", false, unix.SYS_CLONE, unix.CLONE_NEWUSER, refused},
		{"userfaultfd without bee_0", false, unix.SYS_USERFAULTFD, unix.O_CLOEXEC | userModeOnly, refused},
		{"userfaultfd of the kernel's faults", true, unix.SYS_USERFAULTFD, unix.O_CLOEXEC, refused},
		{"userfaultfd of a program's faults", true, unix.SYS_USERFAULTFD, unix.O_CLOEXEC | userModeOnly, unix.SECCOMP_RET_ALLOW},
		{"vhangup", false, unix.SYS_VHANGUP, 0, refused},
	} {
		got := evaluate(t, filter(tc.faults), map[uint32]uint32{dataNumber: tc.number, dataArch: auditArch, dataFirst: tc.first})
		if got != uint32(tc.want) {
			t.Errorf("%s: %#x, expected %#x", tc.name, got, tc.want)
		}
	}
}

// evaluate runs a filter on words of struct seccomp_data, by their offsets.
func evaluate(t *testing.T, program []unix.SockFilter, data map[uint32]uint32) uint32 {
	t.Helper()
	var loaded uint32
	for at := 0; at < len(program); at++ {
		f := program[at]
		jump := func(is bool) {
			if is {
				at += int(f.Jt)
			} else {
				at += int(f.Jf)
			}
		}
		switch f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			loaded = data[f.K]
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(loaded == f.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(loaded&f.K != 0)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(loaded >= f.K)
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("instruction %d is not known: %+v", at, f)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}
