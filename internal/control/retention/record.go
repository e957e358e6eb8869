package retention

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state"
)

// Record is what a store keeps of a run beside its checkpoints, so that another
// machine can adopt it. It holds no secrets, but where they come from.
type Record struct {
	Version  int             `json:"version"`
	Holder   string          `json:"holder"` // the installation that carries the run
	Run      state.Run       `json:"run"`
	Attempts []state.Attempt `json:"attempts"`
}

// RecordVersion is the version of the records that this bee writes.
const RecordVersion = 1

// Note writes the run's record into its store.
func (c *Checkpoints) Note(ctx context.Context, store driver.Checkpoints) error {
	attempts, err := c.State.Attempts(ctx, c.run.ID)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(Record{RecordVersion, c.State.User(), *c.run, attempts})
	if err != nil {
		return err
	}
	return store.Note(ctx, raw)
}

// CheckHolder makes sure that the store knows the run, and that no other installation
// has taken it over from there: only one may write to it.
func (c *Checkpoints) CheckHolder(ctx context.Context, store driver.Checkpoints) error {
	raw, err := store.Noted(ctx)
	if err != nil {
		return err
	}
	if raw == nil {
		return &core.Error{
			Kind: core.Transient, Err: errors.New("it knows nothing of this run"),
			Remedy: "Is it the right one, and is its file system mounted?",
		}
	}
	if h := Holder(raw); h == "" || h == c.State.User() { // a damaged record is written again
		return nil
	}
	return &core.Error{
		Kind: core.Permanent, Op: "continue run", Object: c.run.ID, Err: ErrTaken,
		Remedy: "Follow it there; here, `bee stop " + c.run.ID + "` gives it up.",
	}
}

// Holder returns the installation that carries a run, by its record in a store, or "".
func Holder(raw []byte) string {
	var r struct { // of all attempts nothing is made
		Holder string `json:"holder"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return ""
	}
	return r.Holder
}

// ErrTaken is the error where another installation has adopted the run.
var ErrTaken = errors.New("another installation of bee has continued it from the store")
