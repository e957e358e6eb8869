// Package procuse adds up what a process and all below it use, as the kernel reports in /proc
// (proc(5)). It knows no job, and changes nothing.
package procuse

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Proc is where the kernel reports.
const Proc = "/proc"

// mostProcesses bounds the processes of a host that are looked at.
const mostProcesses = 1 << 16

// Meter adds up what a process and all below it use. One goroutine at a time may call Sample.
type Meter struct {
	dir *os.File
	// root is the process, and self one that does not count; 0: all do.
	root, self int
	io         map[int]usedIO // of processes that were there, by their numbers
	gone       usedIO         // of those that have ended
	buffer     [4 << 10]byte  // for a file of a process, all of which are smaller
}

type usedIO struct{ read, written int64 }

// process is what /proc/PID/stat has (proc_pid_stat(5)).
type process struct {
	pid, parent int
	ticks       int64 // of the process and of the children that it waited for
	pages       int64
}

// Open opens the directory now: what a job mounts over it later is not read.
func Open(proc string, root, self int) (*Meter, error) {
	dir, err := os.Open(proc) //nolint:forbidigo // the kernel's own tree
	if err != nil {
		return nil, err
	}
	return &Meter{dir: dir, root: root, self: self, io: map[int]usedIO{}}, nil
}

// Close gives the directory up.
func (m *Meter) Close() error { return m.dir.Close() }

// Sample returns what was used so far, and is used now.
func (m *Meter) Sample() core.Sample {
	s := core.Sample{Time: time.Now(), Cores: runtime.NumCPU(), HostMemoryBytes: core.HostMemory()}
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
func (m *Meter) below() []process {
	if _, err := m.dir.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	names, err := m.dir.Readdirnames(mostProcesses)
	if err != nil {
		return nil
	}
	all := map[int]process{}
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if p, is := parseStat(m.read(name + "/stat")); is {
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

func (m *Meter) isBelow(all map[int]process, pid int) bool {
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

func parseStat(raw []byte) (p process, is bool) {
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
func (m *Meter) memory(p process) int64 {
	if pss, is := m.value(p.pid, "smaps_rollup", "Pss:"); is {
		return pss * 1024
	}
	return p.pages * int64(os.Getpagesize())
}

func (m *Meter) used(pid int) usedIO {
	read, _ := m.value(pid, "io", "read_bytes:")
	written, _ := m.value(pid, "io", "write_bytes:")
	return usedIO{read, written}
}

// value is the number behind a key in a file of a process.
func (m *Meter) value(pid int, file, key string) (int64, bool) {
	for line := range strings.Lines(string(m.read(strconv.Itoa(pid) + "/" + file))) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// read reads a file of a process, until the next call; nil: it cannot be read.
func (m *Meter) read(name string) []byte {
	fd, err := unix.Openat(int(m.dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, m.buffer[:])
	if err != nil {
		return nil
	}
	return m.buffer[:n]
}
