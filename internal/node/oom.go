package node

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/node/container"
)

// memoryKills counts processes that the kernel has killed for want of memory.
type memoryKills struct {
	own  int // in the control group of this process, or below it
	host int // on the whole host
}

// killsNow reads the kernel's counters: those of memory.events (cgroup v2, see
// Documentation/admin-guide/cgroup-v2.rst) or memory.oom_control (v1), and of /proc/vmstat.
func killsNow() memoryKills {
	return memoryKills{own: ownKills("/"), host: counter("/proc/vmstat", "oom_kill")}
}

// since is what was added to the counters.
func (k memoryKills) since(before memoryKills) memoryKills {
	return memoryKills{max(0, k.own-before.own), max(0, k.host-before.host)}
}

// with adds what the control group of a container has counted, where it has one of its own.
func (k memoryKills) with(b *container.Container) memoryKills {
	if limit := b.Memory(); limit != nil {
		k.own = max(k.own, limit.MemoryKills())
		k.host = max(k.host, k.own)
	}
	return k
}

func ownKills(root string) int {
	raw, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	most := 0
	for line := range strings.Lines(string(raw)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case id == "0":
			for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
				most = max(most, counter(path.Join(root, mount, group, "memory.events"), "oom_kill"))
			}
		case strings.Contains(","+controllers+",", ",memory,"):
			most = max(most, counter(path.Join(root, "sys/fs/cgroup/memory", group, "memory.oom_control"), "oom_kill"))
		}
	}
	return most
}

// counter is the value of a key in a file of lines such as "oom_kill 3"; 0 where there is
// none.
func counter(file, key string) int {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), " "); name == key {
			n, err := strconv.Atoi(value)
			if err == nil {
				return n
			}
		}
	}
	return 0
}
