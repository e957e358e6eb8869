package command

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Values of the option of a filter.
const (
	unconfined = "unconfined"
	ownFilter  = ""
)

// Filter is the option of a container's filter of system calls: docker's default profile,
// with what MPI uses besides, in a file of the state directory.
func Filter(s driver.ContainerSpec) (string, error) {
	switch _, err := os.Stat("/proc/sys/kernel/seccomp"); {
	case s.Seccomp || err != nil: // a kernel without filters refuses any that is named
		return ownFilter, nil
	case s.Unfiltered:
		return unconfined, nil
	}
	raw, err := json.Marshal(profile())
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.StateDir, "seccomp.json")
	return path, os.WriteFile(path, raw, 0o600)
}

// profile lets through what ranks of a host read each other's memory by (CMA, and its
// like for GPUs), where their memory lies (NUMA), and fixed addresses, by which DMTCP
// restores a process. Docker ties most of that to capabilities or its own version.
func profile() *seccomp.Seccomp {
	const noRandomAddresses = 0x0040000 // personality(2)
	p := seccomp.DefaultProfile()
	p.Syscalls = append(p.Syscalls,
		&seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Action: specs.ActAllow, Names: []string{
			"process_vm_readv", "process_vm_writev", "ptrace", "pidfd_getfd", "kcmp",
			"get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node", "move_pages", "migrate_pages",
		}}},
		&seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Action: specs.ActAllow, Names: []string{"personality"}, Args: []specs.LinuxSeccompArg{{Index: 0, Value: noRandomAddresses, Op: specs.OpEqualTo}}}})
	return p
}
