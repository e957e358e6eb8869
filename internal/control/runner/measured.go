package runner

import (
	"time"

	"github.com/bee-hpc/bee/internal/spec"
)

// numberFile records numbers that the head of a run reports, in a file of the run: progress and
// metrics, or what its nodes use. A head that floods the controller has the file written no more
// often. No decision depends on it.
type numberFile[T any] struct {
	rec     *record
	read    func(runDir string) (T, error)
	store   func(runDir string, all *T) error
	all     *T // nil: not read yet
	written time.Time
	pending bool
}

// numbersPause is the least time between two writes. Heads report less often.
const numbersPause = 500 * time.Millisecond

// metricsOf are the names of a job's metrics.
func metricsOf(job *spec.Job) map[string]bool {
	names := make(map[string]bool, len(job.Metrics))
	for name := range job.Metrics {
		names[name] = true
	}
	return names
}

// add adds the numbers of an event, unless they are there: another controller gets the same
// events again. A file that cannot be read is replaced.
func (f *numberFile[T]) add(to func(all *T) (added bool)) {
	if f.all == nil {
		all, err := f.read(f.dir())
		if err != nil {
			f.rec.of.c.Log.Debug("read numbers of the run", "run", f.rec.of.run.ID, "err", err)
			all = *new(T)
		}
		f.all = &all
	}
	f.pending = to(f.all) || f.pending
	if time.Since(f.written) >= numbersPause {
		f.write()
	}
}

func (f *numberFile[T]) dir() string { return f.rec.of.c.Store.RunDir(f.rec.of.run.ID) }

// write writes what has not been written.
func (f *numberFile[T]) write() {
	if !f.pending {
		return
	}
	f.written = time.Now()
	if err := f.store(f.dir(), f.all); err != nil { // the next one is tried, as the disk may be full for a while
		f.rec.of.c.Log.Debug("record numbers of the run", "run", f.rec.of.run.ID, "err", err)
		return
	}
	f.pending = false
}
