package spec

import (
	"cmp"
	"time"
)

// leastJobMemory is the least memory of a job: less is a number whose unit was forgotten.
const leastJobMemory = 1 << 20

// resources finds what no host can have, and what is too little for any job.
func (jc *jobCheck) resources() {
	j := jc.job
	within(jc.report, "cores", j.Cores)
	jc.report.positive("time", j.Time, "the site's `slot`")
	if j.Time > 0 && j.Time <= 2*LeastMargin && jc.report.allRead("time") {
		jc.report.at("time", "such as 30m", "time: %s leaves nothing to compute: the end of an attempt alone takes %s", j.Time, 2*LeastMargin)
	}
	if j.Memory > 0 && j.Memory < leastJobMemory && jc.report.allRead("memory") {
		jc.report.at("memory", "such as 16G", "memory: %d bytes are less than any program needs", j.Memory)
	}
	if v := j.VM; v != nil && v.CPUs > 0 && j.Cores > 0 && v.CPUs != j.Cores && jc.report.allRead("cores", "vm.cpus") {
		jc.report.at("cores", "leave one out", "cores: a node is a virtual machine, which has others (`vm: {cpus: %d}`)", v.CPUs)
	}
}

// Slots is the number of slots that mpirun sees on each node; 0: the host's cores.
func (j *Job) Slots() int { return cmp.Or(j.RanksPerNode, j.Cores) }

// SlotsPerHost is the number of cores that the job needs on each host; 0: any.
func (j *Job) SlotsPerHost() int { return max(j.RanksPerNode, j.Cores) * j.NodesPerHost() }

// MemoryPerHost is the memory that the job needs on each host, in bytes; 0: any.
func (j *Job) MemoryPerHost() int64 { return int64(j.Memory) * int64(j.NodesPerHost()) }

// Within is the site with a slot no longer than the time of a job; 0: as it is.
func (s Site) Within(limit time.Duration) Site {
	if limit == 0 || s.Slot > 0 && s.Slot <= limit {
		return s
	}
	s.Slot = limit
	if s.Slurm != nil && s.Slurm.MinSlot > limit {
		own := *s.Slurm
		own.MinSlot = 0
		s.Slurm = &own
	}
	return s
}
