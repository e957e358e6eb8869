package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/testkit"
)

// memoryGroup makes a control group with a limit of memory, in bytes, and gives its file
// of processes.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		dir, file := filepath.Join("/sys/fs/cgroup", fields[2]), "memory.max"
		switch {
		case strings.Contains(","+fields[1]+",", ",memory,"):
			dir, file = filepath.Join("/sys/fs/cgroup/memory", fields[2]), "memory.limit_in_bytes"
		case fields[0] != "0":
			continue
		}
		group := filepath.Join(dir, fmt.Sprintf("bee-test-%d", os.Getpid()))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			testkit.Eventually(t, 20*time.Second, func() error { return os.Remove(group) }) // its processes end first
		})
		if os.WriteFile(filepath.Join(group, file), []byte(fmt.Sprint(limit)), 0o644) == nil {
			return filepath.Join(group, "cgroup.procs")
		}
	}
	t.Skip("no control group with a limit of memory can be made here")
	return ""
}

// TestKilledForWantOfMemoryIsAFact, by the kernel's own counter, also in setup.
func TestKilledForWantOfMemoryIsAFact(t *testing.T) {
	testkit.RequireRoot(t)
	procs := memoryGroup(t, 400<<20)
	b, job := busyboxJob(t, "setup: tail /dev/zero", "run: echo computing")
	c := b.Command("run", "-d", job)
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, procs}, c.Args...)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	v := b.Await(id, time.Minute)
	if v.State != "failed" || v.ExitCode == nil || *v.ExitCode != 137 || len(v.Attempts) != 1 || len(v.Attempts[0].Nodes) != 1 || v.Attempts[0].Nodes[0].MemoryKills == 0 {
		t.Errorf("the run: %+v\n%s", v, b.Must("show", id))
	}
}

// TestMemoryOfABeefile is a limit where control groups allow one, and has a reason elsewhere.
func TestMemoryOfABeefile(t *testing.T) {
	testkit.AsRootToo(t)
	limited := drivertest.LimitsMemory(t)
	b, job := busyboxJob(t, "memory: 64M", "run: 'head -c 268435456 /dev/zero | tail | wc -c'")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	v := b.Await(id, 3*time.Minute)
	if len(v.Attempts) != 1 || len(v.Attempts[0].Nodes) != 1 {
		t.Fatalf("the run: %+v", v)
	}
	n := v.Attempts[0].Nodes[0]
	if limited && (n.MemoryKills == 0 || n.MemoryUnlimited != "") || !limited && (n.MemoryKills != 0 || n.MemoryUnlimited == "") {
		t.Errorf("where the memory is limited (%v), the node: %+v\n%s", limited, n, b.Must("show", id))
	}
}
