package reservation

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Cores returns n of the processors that this process may use: those that no other container
// of this user has, as far as there are enough. Others find them taken until release, or the
// end of this process. Where there can be no ledger, they are the first.
func (l Ledger) Cores(n int) (set []int, release func()) {
	var own unix.CPUSet
	if unix.SchedGetaffinity(0, &own) != nil {
		return nil, func() {}
	}
	var all []int
	for i := range len(own) * strconv.IntSize {
		if own.IsSet(i) {
			all = append(all, i)
		}
	}
	return l.cores(n, all)
}

func (l Ledger) cores(n int, all []int) (set []int, release func()) {
	if n >= len(all) {
		return all, func() {}
	}
	lock, err := l.enter()
	if err != nil {
		return all[:n], func() {}
	}
	defer lock.Close()
	var held []*os.File
	free := map[int]bool{}
	for _, i := range all {
		if len(held) == n {
			break
		}
		if f := l.takeCore(i); f != nil {
			held, set, free[i] = append(held, f), append(set, i), true
		}
	}
	for _, i := range all { // others have them, too
		if len(set) < n && !free[i] {
			set = append(set, i)
		}
	}
	return set, func() {
		if lock, err := l.enter(); err == nil {
			defer lock.Close()
			for _, f := range held {
				fsutil.TryRemove(f.Name()) // the next one locks it
			}
		}
		for _, f := range held {
			f.Close()
		}
	}
}

// takeCore locks the file of a processor; nil: another container has it. The ledger is ours.
func (l Ledger) takeCore(i int) *os.File {
	f, err := os.OpenFile(filepath.Join(string(l), fmt.Sprintf("core-%d", i)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil
	}
	if lock(f) != nil {
		f.Close()
		return nil
	}
	return f
}
