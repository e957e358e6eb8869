package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pinTimeout is how long QEMU may take to make its threads.
const pinTimeout = 30 * time.Second

// Pin binds the i-th virtual processor to the i-th of the host's processors
// given. QEMU names the threads of its processors.
func (p *Process) Pin(ctx context.Context, cpus []int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pinTimeout, errors.New("QEMU made no thread for each processor in time"))
	defer cancel()
	for {
		threads := p.VCPUs()
		if len(threads) == len(cpus) {
			for i, thread := range threads {
				var set unix.CPUSet
				set.Set(cpus[i])
				if err := unix.SchedSetaffinity(thread, &set); err != nil {
					return fmt.Errorf("bind processor %d of the virtual machine to the host's %d: %w", i, cpus[i], err)
				}
			}
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond): // nothing shows it
		case <-p.Done():
			return errors.New("the virtual machine ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// VCPUs are the threads of the virtual processors, in order; at first not all.
func (p *Process) VCPUs() []int {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", p.PID()))
	found := map[int]int{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		number, _, isCPU := strings.Cut(strings.TrimPrefix(string(raw), "CPU "), "/")
		if !isCPU || !strings.HasPrefix(string(raw), "CPU ") {
			continue
		}
		i, err1 := strconv.Atoi(number)
		thread, err2 := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err1 == nil && err2 == nil {
			found[i] = thread
		}
	}
	var threads []int
	for i := 0; found[i] != 0; i++ {
		threads = append(threads, found[i])
	}
	return threads
}

// AllowedCPUs are the host's processors that this process may run on.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}
