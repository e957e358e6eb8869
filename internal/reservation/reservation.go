// Package reservation keeps account of what the runs of one user have reserved on this host:
// memory of virtual machines, which a guest takes little by little, so that until then
// nothing else means that it is gone; and cores and memory of jobs. It knows neither how
// much there is nor who may have it.
package reservation

import (
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Reservation is the memory of one guest, or what one job needs of this host.
type Reservation struct {
	// Run is the run's id.
	Run string `json:"run"`
	// Bytes is how much it may take, Taken how much of that it has.
	Bytes int64 `json:"bytes"`
	Taken int64 `json:"taken"`
	// Cores are those of a job, and Site is the scratch directory of the site that it uses;
	// "": it is a guest.
	Cores int    `json:"cores,omitempty"`
	Site  string `json:"site,omitempty"`
	// Groups are the control groups that it counts in, as in /proc/self/cgroup.
	Groups string `json:"groups,omitempty"`
	// Job is the batch job, of which it has a share; "": none.
	Job string `json:"job,omitempty"`
}

// Open is how much it can still take, in bytes.
func (p Reservation) Open() int64 { return max(p.Bytes-p.Taken, 0) }

// Job is the batch job that this process is part of; "": none.
func Job(env func(string) string) string { return env("SLURM_JOB_ID") }

// New is a reservation by this process.
func New(run string, bytes int64) Reservation {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return Reservation{Run: run, Bytes: bytes, Groups: string(groups), Job: Job(os.Getenv)}
}

// Held is a reservation that others reckon with until it is released, or this process ends.
type Held struct {
	ledger Ledger
	file   *os.File // locked
	pid    atomic.Int64
	over   chan struct{}
}

// Follow has others reckon with what a process has taken of it. Of none it does nothing.
func (h *Held) Follow(pid int) {
	if h != nil {
		h.pid.Store(int64(pid))
	}
}

// Release ends the reservation. Of none it does nothing.
func (h *Held) Release() {
	if h == nil {
		return
	}
	close(h.over)
	fsutil.TryRemove(h.file.Name()) // the next reader does, else
	h.file.Close()
}

// lookPause is how long ago it was known, at most, what a guest has taken.
const lookPause = 2 * time.Second

// keep writes down what the guest takes. A number of a process says nothing to
// others, who may be in another namespace.
func (h *Held) keep(p Reservation) {
	news := time.NewTicker(lookPause)
	defer news.Stop()
	for {
		select {
		case <-h.over:
			return
		case <-news.C:
		}
		if taken := resident(int(h.pid.Load())); taken != p.Taken {
			p.Taken = taken
			h.ledger.write(h.file, p) //nolint:errcheck // others reckon with more then
		}
	}
}

// encode pads a reservation, for it is written over its last form in place: the lock is
// the file's.
func encode(p Reservation) ([]byte, error) {
	raw, err := json.Marshal(p)
	return append(raw, strings.Repeat(" ", 32)+"\n"...), err
}

// lock takes a file's lock, or gives EWOULDBLOCK.
func lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

func flock(f *os.File, how int) error { return fsutil.TryFlock(int(f.Fd()), how) }
