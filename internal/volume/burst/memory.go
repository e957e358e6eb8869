package burst

import "runtime/debug"

const (
	// garbage is how many percent of what is in use may be garbage, before that is collected: content passes in pieces
	// of a MiB, and hosts of jobs have better uses for memory.
	garbage = 50
	// restAfter is after how many seconds without work the host gets back what is not in use.
	restAfter = 5
)

// rest notices that a process has nothing to do.
type rest struct {
	work  int64
	quiet int
}

// second is called each second with a number that grows with what was done.
func (r *rest) second(work int64) {
	if work != r.work {
		r.work, r.quiet = work, 0
		return
	}
	if r.quiet < restAfter {
		if r.quiet++; r.quiet == restAfter {
			debug.FreeOSMemory()
		}
	}
}
