package drivertest

import (
	"runtime"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// cores limits a container to one core, and wants another for its neighbour.
func (s RuntimeSuite) cores(t *testing.T) {
	const script = "while read name value; do test $name = Cpus_allowed_list: && echo $value; done < /proc/self/status"
	var lists []string
	for _, rank := range []string{"0", "1"} {
		c := s.spec(t)
		c.Env = append(c.Env, core.CoresVariable+"=1", "BEE_NODE_RANK="+rank)
		list := want(t, s.start(t, c), script+"; true")
		if list == "" || strings.ContainsAny(list, "-,") {
			t.Errorf("a container of one core has the cores %s", list)
		}
		lists = append(lists, list)
	}
	if !s.OwnKernel && runtime.NumCPU() > 1 && lists[0] == lists[1] {
		t.Errorf("two containers of one core each share core %s", lists[0])
	}
}

// memory limits a container to 64 MiB, which its control group shows, of either version.
func (s RuntimeSuite) memory(t *testing.T) {
	c := s.spec(t)
	c.Env = append(c.Env, core.MemoryVariable+"=67108864")
	const script = "for f in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do test ! -e $f || cat $f; done"
	if got := want(t, s.start(t, c), script); s.Memory && got != "67108864" {
		t.Errorf("the control group of a container of 64 MiB has the limit %q", got)
	}
}
