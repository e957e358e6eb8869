package core

import "syscall"

// HostMemory returns the memory of this machine in bytes; 0: unknown.
func HostMemory() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) // no machine has 2^63 bytes
}
