package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// idleWindow is for how long the processor time of an idle volume is counted.
const idleWindow = 10 * time.Second

// resources reports the memory of the volume's processes and their processor time while nobody uses it.
func (m *measurement) resources(ctx context.Context, _ *job) error {
	for _, of := range []struct{ arg, what string }{{"volume-io", "the I/O process"}, {"volume-client", "a client"}} {
		pids, err := processes(m.dir, of.arg)
		if err != nil {
			return err
		}
		from, err := processorTime(pids[0])
		if err != nil {
			return err
		}
		if err := core.Sleep(ctx, idleWindow); err != nil {
			return err
		}
		until, err := processorTime(pids[0])
		if err != nil {
			return err
		}
		resident, own, err := memory(pids[0])
		if err != nil {
			return err
		}
		if err := errors.Join(
			report(Row{fmt.Sprintf("resident memory of %s after all of that (%.1f MB of it its own)", of.what, own/1e6), fmt.Sprintf("%.1f MB", resident/1e6), "60 MB", ratio(resident, 60e6)}),
			report(Row{"its processor time while idle", fmt.Sprintf("%.2f %% of a core", 100*(until-from).Seconds()/idleWindow.Seconds()), "0.2 %", "–"})); err != nil {
			return err
		}
	}
	return nil
}

// processes finds those of the lab's volumes by their first argument.
func processes(dir, arg string) (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline") // of one that has ended: ""
		if bytes.Contains(line, []byte("\x00"+arg)) && bytes.Contains(line, []byte(dir)) {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("no process %s was found", arg)
	}
	return pids, nil
}

// processorTime is what a process has used so far, in user and system mode.
func processorTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("process %d: %q", pid, raw)
	}
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime, proc(5)
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100 on all that we build for
}

// memory is what a process has in memory, and of it what is no file's, in bytes.
func memory(pid int) (resident, own float64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(raw)) {
		for prefix, to := range map[string]*float64{"VmRSS:": &resident, "RssAnon:": &own} {
			if rest, is := strings.CutPrefix(line, prefix); is {
				if _, err := fmt.Sscan(rest, to); err != nil {
					return 0, 0, err
				}
				*to *= 1024
			}
		}
	}
	return resident, own, nil
}
