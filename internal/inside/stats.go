package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Sample is what the processes of a container have used so far, and use now.
type Sample struct {
	Time       time.Time `json:"time"`
	CPUSeconds float64   `json:"cpu_seconds"`
	// MemoryBytes counts pages that processes share once, where the kernel reports (Pss).
	MemoryBytes int64 `json:"memory_bytes"`
	ReadBytes   int64 `json:"read_bytes"`
	WriteBytes  int64 `json:"write_bytes"`
	Processes   int   `json:"processes"`
	// Cores and HostMemoryBytes are those of the host, or of the guest.
	Cores           int   `json:"cores"`
	HostMemoryBytes int64 `json:"host_memory_bytes"`
}

// Check implements the check of package rpc.
func (s Sample) Check() error {
	if s.CPUSeconds < 0 || s.MemoryBytes < 0 || s.ReadBytes < 0 || s.WriteBytes < 0 || s.Processes < 0 || s.Cores < 0 || s.HostMemoryBytes < 0 {
		return &core.Error{Kind: core.Invalid, Op: "check", Object: "a sample"}
	}
	return nil
}

// MaxSample bounds a sample as JSON, in bytes.
const MaxSample = 4 << 10

// Interval is the time between two samples.
const Interval = time.Second

func writeStats(ctx context.Context, w io.Writer, count int) error {
	root := os.Getppid() // the container's init
	if root == 0 {       // of another namespace
		root = 1
	}
	m := meter{proc: "/proc", root: root, self: os.Getpid(), io: map[int]usedIO{}}
	out := json.NewEncoder(w)
	for n := 1; ; n++ {
		if err := out.Encode(m.sample()); err != nil || n == count {
			return err
		}
		select {
		case <-time.After(Interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// meter adds up what a process and all below it use, but for this one.
type meter struct {
	proc       string
	root, self int
	io         map[int]usedIO // of processes that were there, by their numbers
	gone       usedIO         // of those that have ended
}

type usedIO struct{ read, written int64 }

// process is what /proc/PID/stat has (proc_pid_stat(5)).
type process struct {
	pid, parent int
	ticks       int64 // of the process and of the children that it waited for
	pages       int64
}

func (m *meter) sample() Sample {
	s := Sample{Time: time.Now(), Cores: runtime.NumCPU(), HostMemoryBytes: core.HostMemory()}
	now := map[int]usedIO{}
	for _, p := range m.below() {
		s.Processes++
		s.CPUSeconds += float64(p.ticks) / ticksPerSecond
		s.MemoryBytes += m.memory(p)
		now[p.pid] = m.used(p.pid)
	}
	for pid, was := range m.io {
		if is, there := now[pid]; !there || is.read < was.read || is.written < was.written {
			m.gone.read, m.gone.written = m.gone.read+was.read, m.gone.written+was.written
		}
	}
	m.io = now
	s.ReadBytes, s.WriteBytes = m.gone.read, m.gone.written
	for _, u := range now {
		s.ReadBytes, s.WriteBytes = s.ReadBytes+u.read, s.WriteBytes+u.written
	}
	return s
}

// ticksPerSecond is USER_HZ, which is 100 wherever BEE runs.
const ticksPerSecond = 100

// below returns the processes at and below the root.
func (m *meter) below() []process {
	all := map[int]process{}
	names, err := filepath.Glob(m.proc + "/[0-9]*/stat") //nolint:forbidigo // the kernel's own tree
	if err != nil {
		return nil
	}
	for _, name := range names {
		if p, is := readStat(name); is {
			all[p.pid] = p
		}
	}
	var list []process
	for pid, p := range all {
		if pid != m.self && m.isBelow(all, pid) {
			list = append(list, p)
		}
	}
	return list
}

func (m *meter) isBelow(all map[int]process, pid int) bool {
	for range len(all) + 1 { // they may change meanwhile
		if pid == m.root {
			return true
		}
		if pid == m.self {
			return false
		}
		p, there := all[pid]
		if !there {
			return false
		}
		pid = p.parent
	}
	return false
}

func readStat(name string) (p process, is bool) {
	raw, err := os.ReadFile(name) //nolint:forbidigo // the kernel's own tree
	if err != nil {
		return p, false
	}
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 1 || end < open {
		return p, false
	}
	fields := strings.Fields(string(raw[end+1:])) // from the third on
	if len(fields) < 22 {
		return p, false
	}
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	p.pid, p.parent = int(number(strings.TrimSpace(string(raw[:open])))), int(number(fields[1]))
	for _, f := range fields[11:15] {
		p.ticks += number(f)
	}
	p.pages = number(fields[21])
	return p, true
}

// memory returns the share of a process of all memory.
func (m *meter) memory(p process) int64 {
	if pss, is := m.value(p.pid, "smaps_rollup", "Pss:"); is {
		return pss * 1024
	}
	return p.pages * int64(os.Getpagesize())
}

func (m *meter) used(pid int) usedIO {
	read, _ := m.value(pid, "io", "read_bytes:")
	written, _ := m.value(pid, "io", "write_bytes:")
	return usedIO{read, written}
}

// value is the number behind a key in a file of a process.
func (m *meter) value(pid int, file, key string) (int64, bool) {
	raw, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(pid), file)) //nolint:forbidigo // the kernel's own tree
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
