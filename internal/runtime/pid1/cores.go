package pid1

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// limitCores keeps this process and all that it will start on their share of the cores
// (sched_setaffinity(2)), which needs no right.
func limitCores() error {
	text := os.Getenv(core.CoresVariable)
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("%s is %q, expected a number of cores", core.CoresVariable, text)
	}
	rank, _ := strconv.Atoi(os.Getenv("BEE_NODE_RANK")) // absent: there is one node
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("ask for this process's cores: %w", err)
	}
	set := named(&all, n, os.Getenv(core.CoreSetVariable))
	if set == nil {
		set = share(&all, n, rank)
	}
	// Threads that start meanwhile have the cores of the thread that starts them.
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("find this process's threads: %w", err)
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			if err := unix.SchedSetaffinity(id, set); err != nil && err != unix.ESRCH {
				return fmt.Errorf("limit this process to %d cores: %w", n, err)
			}
		}
	}
	return nil
}

// named are the n cores of a list; nil: it has others, or some that this process may not use.
func named(all *unix.CPUSet, n int, list string) *unix.CPUSet {
	set := &unix.CPUSet{}
	for word := range strings.SplitSeq(list, ",") {
		i, err := strconv.Atoi(word)
		if err != nil || !all.IsSet(i) {
			return nil
		}
		set.Set(i)
	}
	if set.Count() != n {
		return nil
	}
	return set
}

// share is the part of n cores of a set that the rank-th container has. Where there are too
// few, containers share them.
func share(all *unix.CPUSet, n, rank int) *unix.CPUSet {
	var cores []int
	for i := range len(all) * strconv.IntSize {
		if all.IsSet(i) {
			cores = append(cores, i)
		}
	}
	set := &unix.CPUSet{}
	for i := range min(n, len(cores)) {
		set.Set(cores[(rank*n+i)%len(cores)])
	}
	return set
}
