package fair

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestMemoryLimit reads control groups of both versions as the kernel shows them.
func TestMemoryLimit(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"memory/memory.limit_in_bytes":              "9223372036854771712",
		"memory/docker/memory.limit_in_bytes":       "9223372036854771712",
		"memory/docker/abc/memory.limit_in_bytes":   "67108864",
		"cgroup.controllers":                        "memory",
		"batch.slice/memory.max":                    "1073741824",
		"batch.slice/job.scope/memory.max":          "max",
		"user.slice/memory.max":                     "max",
		"memory/job/memory.limit_in_bytes":          "4096",
		"memory/job/inner/memory.limit_in_bytes":    "8192",
		"pids/docker/abc/memory.limit_in_bytes":     "1",
		"memory/elsewhere/memory.limit_in_bytes":    "1",
		"unified/docker/abc/memory.max":             "1",
		"memory/docker/other/memory.usage_in_bytes": "5",
	} {
		at := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		groups string
		want   int64
	}{
		"docker, version 1":      {"8:pids:/docker/abc\n4:memory:/docker/abc\n0::/\n", 64 << 20},
		"a batch job, version 2": {"0::/batch.slice/job.scope\n", 1 << 30},
		"a user, version 2":      {"0::/user.slice\n", 0},
		"the group above":        {"4:cpu,memory:/job/inner\n", 4096},
		"none":                   {"4:memory:/docker/other\n", 0},
		"another namespace":      {"4:memory:/../elsewhere\n", 0},
	} {
		if got, known := memoryLimit(c.groups, dir); got != c.want || !known {
			t.Errorf("%s: %d bytes, %v, expected %d", name, got, known, c.want)
		}
	}
	for _, gone := range []string{"", "4:memory:/docker/removed\n", "4:memory:/docker/abc (deleted)\n", "0::/batch.slice/removed\n"} {
		if got, known := memoryLimit(gone, dir); known {
			t.Errorf("groups that are gone (%q) have a limit of %d", gone, got)
		}
	}
	if got := loosest(map[string]int64{"a": 5, "b": 7}); got != 7 {
		t.Errorf("the loosest of 5 and 7 is %d", got)
	}
	if got := loosest(map[string]int64{"a": 5, "b": 0}); got != 0 {
		t.Errorf("with a process without a limit: %d", got)
	}
}
