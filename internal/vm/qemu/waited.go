package qemu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Waited gives a clock that begins now: for how long the host has since kept the
// machine waiting for a processor, which others had, by that of its threads which
// waited longest. It is halted where the kernel does not report
// (/proc/PID/schedstat needs CONFIG_SCHED_INFO, which distributions set).
func (p *Process) Waited() func() time.Duration {
	begun := p.waits()
	return func() time.Duration {
		var most time.Duration
		for thread, waited := range p.waits() {
			most = max(most, waited-begun[thread])
		}
		return most
	}
}

// waits reports for how long each thread has waited for a processor, ever.
func (p *Process) waits() map[string]time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.PID()))
	waits := make(map[string]time.Duration, len(files))
	for _, file := range files {
		raw, _ := os.ReadFile(file) // a thread may end meanwhile
		if f := bytes.Fields(raw); len(f) > 1 {
			if ns, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
				waits[file] = time.Duration(ns)
			}
		}
	}
	return waits
}
