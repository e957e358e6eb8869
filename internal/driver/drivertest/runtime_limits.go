package drivertest

import (
	"runtime"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cgroup"
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

// LimitsMemory reports whether the memory of containers can be limited by a control group of
// BEE's here, and logs why not.
func LimitsMemory(t testing.TB) bool {
	t.Helper()
	g, err := cgroup.Make(64 << 20)
	if core.IsKind(err, core.Unsupported) {
		t.Logf("the memory of containers is not limited here: %v", err)
		return false
	}
	if err == nil {
		err = g.Remove()
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// memory limits a container to 64 MiB, and has a process of it take more.
func (s RuntimeSuite) memory(t *testing.T) {
	c := s.spec(t)
	c.Env = append(c.Env, core.MemoryVariable+"=67108864")
	box := s.start(t, c)
	limit := box.Memory()
	if !s.Memory {
		if limit != nil && limit.Unbounded() == nil && s.Inherits {
			t.Error("the memory is not limited here, and the container has no reason")
		}
		want(t, box, "true")
		return
	}
	if r := run(t, box, "", shell("head -c 268435456 /dev/zero | tail")); r.exit.Code != 137 {
		t.Errorf("a process that takes 256 MiB in a container of 64 MiB: %+v", r)
	}
	want(t, box, "true")
	if limit != nil && s.Inherits && (limit.MemoryKills() == 0 || limit.Unbounded() != nil) {
		t.Errorf("the container counts %d processes that were killed: %v", limit.MemoryKills(), limit.Unbounded())
	}
}
