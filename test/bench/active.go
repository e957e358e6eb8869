package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// restWindow is for how long the controllers' processor time is counted while
// all runs compute and nobody asks anything.
const restWindow = 30 * time.Second

// active measures what controls many detached runs at once, each with a real
// node and container on this machine.
func (b *bench) active(int) error {
	defer b.do(b.bee, "stop", "--all") //nolint:errcheck // the directory goes anyway
	err := errors.Join(
		b.write("wait.yaml", "name: waiter\nimage: docker-archive:busybox.tar\nrun: [sleep, \"7200\"]\n"),
		b.write("active.yaml", "sites: [{name: here, provider: local, oversubscribe: true}]\n")) // more runs than cores
	if err != nil {
		return err
	}
	before := load()
	begun := time.Now()
	for range b.many {
		if _, err := b.do(b.bee, "--sites", "active.yaml", "run", "-q", "-d", "wait.yaml"); err != nil {
			return err
		}
	}
	submitted := time.Since(begun)
	if err := b.allBegun(); err != nil {
		return err
	}
	time.Sleep(5 * time.Second) // in which the last ones settle
	pids, err := b.controllers()
	if err != nil {
		return err
	}
	from, err := processorTime(pids)
	if err != nil {
		return err
	}
	time.Sleep(restWindow)
	until, err := processorTime(pids)
	if err != nil {
		return err
	}
	kilobytes := 0
	for _, pid := range pids {
		n, err := pss(pid)
		if err != nil {
			return err
		}
		kilobytes += n
	}
	what := fmt.Sprintf("control of %d active runs, in %d process", b.many, len(pids))
	b.rows = append(b.rows,
		[4]string{what + ": memory (PSS)", fmt.Sprintf("%.1f MB", float64(kilobytes)/1000), "500 MB", fmt.Sprintf("%.2f", float64(kilobytes)/500_000)},
		[4]string{"the same: processor, while they compute", fmt.Sprintf("%.3f cores", (until-from).Seconds()/restWindow.Seconds()), "1 core", "–"})
	b.rows = append(b.rows, [4]string{"the machine's load (waiting and running programs), before and then", before + " and " + load(), "–", "–"})
	b.row("`bee run -d`, each", submitted/time.Duration(b.many), "–", 0)
	ps, err := b.median(5, b.bee, "ps")
	if err != nil {
		return err
	}
	b.row(fmt.Sprintf("`bee ps`, %d active runs", b.many), ps, "–", 0)
	return nil
}

// load is the machine's load over the last minute.
func load() string {
	raw, _ := os.ReadFile("/proc/loadavg") // "" reports nothing
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}

// allBegun waits until every run's command runs.
func (b *bench) allBegun() error {
	for deadline := time.Now().Add(time.Hour); ; time.Sleep(time.Second) {
		logs, _ := filepath.Glob(filepath.Join(b.dir, "scratch", "bee", "*", "output.log"))
		if len(logs) >= b.many {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d runs have begun", len(logs), b.many)
		}
	}
}

// controllers gives the processes that carry this bench's detached runs.
func (b *bench) controllers() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if bytes.Contains(line, []byte("\x00drive\x00--state-dir\x00"+b.dir+"/")) {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		return nil, errors.New("no controller found")
	}
	return pids, nil
}

// processorTime is what processes have used so far, in user and system mode.
func processorTime(pids []int) (time.Duration, error) {
	ticks := 0
	for _, pid := range pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		for _, f := range fields[11:13] { // utime and stime, proc(5)
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100 on all that we build for
}

// pss is a process's share of memory, in kilobytes.
func pss(pid int) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if rest, is := strings.CutPrefix(line, "Pss:"); is {
			return strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return 0, fmt.Errorf("process %d: no Pss", pid)
}
