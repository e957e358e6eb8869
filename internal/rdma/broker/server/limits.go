package server

import (
	"cmp"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"golang.org/x/sys/unix"
)

// Limits are those of a container's device, with so many bytes of memory with remote rights and so many queue pairs;
// 0: half of the machine's memory, and 4096.
func Limits(memory int64, qps int) broker.Limits {
	l := broker.Limits{
		Memory: memory, QPs: cmp.Or(qps, 4096),
		PDs: 4096, CQs: 16384, SRQs: 4096, AHs: 65536, MRs: 65536, IDs: 16384, WR: 16384, Processes: 4096,
	}
	var info unix.Sysinfo_t
	if l.Memory == 0 && unix.Sysinfo(&info) == nil {
		l.Memory = int64(info.Totalram) * int64(info.Unit) / 2
	}
	return l
}
