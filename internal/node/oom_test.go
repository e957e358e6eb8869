package node

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKillsAreCountedInEitherHierarchy(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup, file, text string
		want               int
	}{
		"v2":             {"0::/user.slice/a\n", "sys/fs/cgroup/user.slice/a/memory.events", "low 0\noom 4\noom_kill 3\n", 3},
		"v1":             {"4:cpu:/x\n3:memory:/slurm/job_7\n0::/\n", "sys/fs/cgroup/memory/slurm/job_7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2},
		"v1, in a group": {"3:cpuset,memory:/j\n", "sys/fs/cgroup/memory/j/memory.oom_control", "oom_kill 1\n", 1},
		"hybrid":         {"1:name=systemd:/\n0::/j\n", "sys/fs/cgroup/unified/j/memory.events", "oom_kill 5", 5},
		"old kernel":     {"3:memory:/j\n", "sys/fs/cgroup/memory/j/memory.oom_control", "under_oom 0\n", 0},
		"no number":      {"0::/j\n", "sys/fs/cgroup/j/memory.events", "oom_kill many\n", 0},
		"another group":  {"0::/j\n", "sys/fs/cgroup/k/memory.events", "oom_kill 9\n", 0},
		"none":           {"", "proc/x", "", 0},
	} {
		root := t.TempDir()
		for file, text := range map[string]string{"proc/self/cgroup": c.cgroup, c.file: c.text} {
			p := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := ownKills(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := (memoryKills{5, 9}).since(memoryKills{3, 10}); got != (memoryKills{2, 0}) {
		t.Errorf("since: %+v", got)
	}
}
