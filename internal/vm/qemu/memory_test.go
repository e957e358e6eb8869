package qemu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/reservation"
	"github.com/bee-hpc/bee/internal/testkit"
)

// host writes the files of a made-up host.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFreeMemory(t *testing.T) {
	const meminfo = "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n"
	for name, c := range map[string]struct {
		files  map[string]string
		env    map[string]string
		others []reservation.Reservation
		want   int64
		all    int64
	}{
		"the host's": {map[string]string{"proc/meminfo": meminfo}, nil, nil, 8000 << 10, 9000 << 10},
		"unknown":    {nil, nil, nil, 0, 0},
		"version 2, a limit further up": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job/step\n",
			"sys/fs/cgroup/job/step/memory.max": "max\n", "sys/fs/cgroup/job/step/memory.current": "5\n",
			"sys/fs/cgroup/job/memory.max": "3000000\n", "sys/fs/cgroup/job/memory.current": "1000000\n",
			"sys/fs/cgroup/job/memory.stat": "anon 400000\ninactive_file 500000\nactive_file 100000\n",
		}, nil, nil, 2600000, 3000000},
		"version 1, of a container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu:/\n3:memory:/docker/abc\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "500000\n",
		}, nil, nil, 1500000, 2000000},
		"version 1, no limit": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "3:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "500000\n",
		}, nil, nil, 8000 << 10, 9000 << 10},
		"used up": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "2000\n",
		}, nil, nil, 1, 1000},
		"Slurm, of a node":      {map[string]string{"proc/meminfo": meminfo}, map[string]string{"SLURM_MEM_PER_NODE": "5"}, nil, 5 << 20, 5 << 20},
		"Slurm, of a processor": {map[string]string{"proc/meminfo": meminfo}, map[string]string{"SLURM_MEM_PER_CPU": "2", "SLURM_CPUS_ON_NODE": "3"}, nil, 6 << 20, 6 << 20},
		"Slurm, all":            {map[string]string{"proc/meminfo": meminfo}, map[string]string{"SLURM_MEM_PER_NODE": "0"}, nil, 8000 << 10, 9000 << 10},
		"promised":              {map[string]string{"proc/meminfo": meminfo}, nil, []reservation.Reservation{{Bytes: 3000 << 10, Taken: 1000 << 10}, {Bytes: 1 << 10, Taken: 2 << 10}}, 6000 << 10, 9000 << 10},
		"promised in groups": {
			map[string]string{
				"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job/step\n",
				"sys/fs/cgroup/job/memory.max": "3000000\n", "sys/fs/cgroup/job/memory.current": "1000000\n",
			},
			nil,
			[]reservation.Reservation{{Bytes: 300000, Groups: "0::/job/other\n"}, {Bytes: 400000, Groups: "0::/job2\n"}},
			1700000, 3000000,
		},
		"promised in batch jobs": {
			map[string]string{"proc/meminfo": meminfo},
			map[string]string{"SLURM_MEM_PER_NODE": "5", "SLURM_JOB_ID": "7"},
			[]reservation.Reservation{{Bytes: 2 << 20, Taken: 1 << 20, Job: "7"}, {Bytes: 1 << 20, Job: "8"}},
			3 << 20, 5 << 20,
		},
		"all promised": {map[string]string{"proc/meminfo": meminfo}, nil, []reservation.Reservation{{Bytes: 9000 << 10}}, 1, 9000 << 10},
	} {
		if got, all := freeMemory(host(t, c.files), func(key string) string { return c.env[key] }, c.others); got != c.want || all != c.all {
			t.Errorf("%s: %d of %d, want %d of %d", name, got, all, c.want, c.all)
		}
	}
}

// limitedVariable has the test's own process report what it finds in a group.
const limitedVariable = "BEE_TEST_TELL_MEMORY"

// TestRealGroup puts a process into a control group of this host's.
func TestRealGroup(t *testing.T) {
	if os.Getenv(limitedVariable) != "" {
		free, _ := FreeMemory(nil)
		os.Stdout.WriteString(fmt.Sprintln("free", free))
		return
	}
	testkit.RequireRoot(t)
	raw, _ := os.ReadFile("/proc/self/cgroup")
	parent := ""
	for _, h := range hierarchies() {
		for line := range strings.Lines(string(raw)) {
			if _, own, ok := strings.Cut(strings.TrimSpace(line), h.line); ok && parent == "" {
				if _, err := os.Stat(filepath.Join("/", h.mount, own, h.usage)); err == nil {
					parent = filepath.Join("/", h.mount, own)
				}
			}
		}
	}
	group := filepath.Join(parent, "bee-test-"+strconv.Itoa(os.Getpid()))
	if parent == "" || os.Mkdir(group, 0o755) != nil {
		t.Skip("control groups cannot be made here")
	}
	defer os.Remove(group)
	limit := filepath.Join(group, "memory.limit_in_bytes")
	if _, err := os.Stat(limit); err != nil {
		limit = filepath.Join(group, "memory.max")
	}
	if err := os.WriteFile(limit, []byte("314572800"), 0o644); err != nil {
		t.Skip("its memory cannot be limited: ", err)
	}
	c := exec.Command("sh", "-c", `echo $$ > "$1/cgroup.procs" && shift && exec "$@"`, "sh", group, os.Args[0], "-test.run=^TestRealGroup$")
	c.Env = append(os.Environ(), limitedVariable+"=1")
	out, err := c.CombinedOutput()
	_, rest, _ := strings.Cut(string(out), "free ")
	fields := strings.Fields(rest)
	if err != nil || len(fields) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	if free, _ := strconv.ParseInt(fields[0], 10, 64); free <= 0 || free > 314572800 {
		t.Errorf("in a group of 300 MiB %d bytes are free", free)
	}
}
