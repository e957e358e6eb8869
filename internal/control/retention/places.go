package retention

import (
	"path/filepath"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state"
)

// checkpointsDir, below a run's directory, has the checkpoints of a run without a store.
// keptName is the note of what is in a store.
const (
	checkpointsDir = "checkpoints"
	keptName       = "checkpoints.json"
)

// Places opens the places that may have checkpoints.
type Places struct {
	State *state.Store
	// Open opens a store by its name.
	Open func(store string) (driver.Store, error)
	// OpenDir opens a directory of this machine.
	OpenDir func(dir string) driver.Checkpoints
}

// Dir returns the directory of a run's checkpoints on the submitting machine.
func (p Places) Dir(run string) string {
	return filepath.Join(p.State.RunDir(run), checkpointsDir)
}

// Of returns the checkpoints of a run: in a store, or on the submitting machine where store
// is "". name is the run's name in the store, and "" where this installation began it. The run
// is read again whenever its record is written.
func (p Places) Of(run *state.Run, store, name string) *Checkpoints {
	if name == "" {
		name = driver.RunName(p.State.User(), run.ID)
	}
	return &Checkpoints{Places: p, run: run, store: store, Name: name}
}
