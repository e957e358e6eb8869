package runview

import (
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/state"
)

// JobProgress returns how far the job of a run is, by what the run has measured, or nil.
func JobProgress(all *measure.Record, attempts []state.Attempt) *measure.Progress {
	last := len(attempts) - 1
	runs := last >= 0 && attempts[last].State == state.Computing && attempts[last].N == all.Attempt
	return all.Progress(runs, time.Now())
}

// measure adds progress and metrics of the job to the view of a run. A record that cannot be
// read counts as empty, as other facts of the run do not depend on it.
func (v *View) measure(s *workspace.Session, r state.Run, attempts []state.Attempt) {
	all, err := state.ReadMeasured(s.Store.RunDir(r.ID))
	if err != nil {
		return
	}
	v.JobProgress, v.Metrics = JobProgress(&all, attempts), all.Newest()
}
