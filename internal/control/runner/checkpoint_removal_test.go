package runner

import (
	"os"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCheckpointsGoOnceTheResultsAreHere and in no other case.
func TestCheckpointsGoOnceTheResultsAreHere(t *testing.T) {
	for name, c := range map[string]struct {
		change func(j *spec.Job)
		code   int
		stay   bool
	}{
		"all outputs":      {func(*spec.Job) {}, 0, false},
		"keep":             {func(j *spec.Job) { j.Checkpoint.Keep = true }, 0, true},
		"no outputs":       {func(j *spec.Job) { j.Outputs = nil }, 0, true},
		"one matched none": {func(j *spec.Job) { j.Outputs = append(j.Outputs, spec.Output{From: "/work/none", To: t.TempDir()}) }, -1, true},
		"an optional one": {func(j *spec.Job) {
			j.Outputs = append(j.Outputs, spec.Output{From: "/work/none", To: t.TempDir(), Optional: true})
		}, 0, false},
		"the command fails": {func(*spec.Job) {}, 1, true},
	} {
		w := newWorld(t, "a", "b")
		job := controltest.Movable()
		job.Outputs = []spec.Output{{From: "/work/state", To: t.TempDir()}}
		c.change(&job)
		w.sites["a"].Head = saving()
		leaveVolume(t, w.sites["a"].Dir, "1")
		leaveVolume(t, w.sites["b"].Dir, "2")
		matches := []protocol.OutputMatch{}
		if len(job.Outputs) > 0 {
			matches = append(matches, protocol.OutputMatch{Path: "volume/state"})
		}
		w.sites["b"].Head = controltest.Events(protocol.Result{Exit: &core.Exit{Code: max(c.code, 0)}, Outputs: matches})
		run := w.submitJob(t, job)
		got := w.drive(t, run, nil)
		if want := map[int]state.RunState{0: state.Succeeded, 1: state.Failed, -1: state.Failed}[c.code]; got.State != want {
			t.Errorf("%s: the run is %s: %s", name, got.State, got.Message)
		}
		list, err := w.Checkpoints(t.Context(), run.ID)
		_, serr := os.Stat(w.Kept().Dir(run.ID))
		if err != nil || len(list) > 0 != c.stay || (serr == nil) != c.stay {
			t.Errorf("%s: checkpoints %+v, %v, their directory: %v", name, list, err, serr)
		}
	}
}
