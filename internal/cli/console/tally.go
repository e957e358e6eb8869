package console

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// DoneView is what came of one of the things that a command was given, as --json
// gives it.
type DoneView struct {
	ID string `json:"id"`
	// State is that of a run that was to end, which may have ended otherwise.
	State state.RunState `json:"state,omitempty"`
	Error *ErrorView     `json:"error,omitempty"`
}

// Tally collects what came of each of the things that a command was given: one that
// fails keeps none of the others from being dealt with.
type Tally struct {
	console *Console
	AsJSON  bool
	done    []DoneView
	code    int // of the first that failed
}

// NewTally returns an empty tally.
func (a *Console) NewTally(asJSON bool) *Tally {
	return &Tally{console: a, AsJSON: asJSON, done: []DoneView{}}
}

// Add takes what came of one thing, and reports its error at once.
func (t *Tally) Add(v DoneView, err error) {
	if err != nil {
		t.console.PrintError(err)
		v.Error = ErrorOf(core.KindOf(err).String(), err.Error(), core.Remedy(err))
		if t.code == 0 {
			t.code = CodeOf(err)
		}
	}
	t.done = append(t.done, v)
}

// Removed is add for a command that removes, and reports what is gone by its id.
func (t *Tally) Removed(id string, err error) {
	if err == nil && !t.AsJSON {
		_, err = fmt.Fprintln(t.console.Stdout, id)
	}
	t.Add(DoneView{ID: id}, err)
}

// End writes the list where that is wanted, and fails as the first of its things did.
func (t *Tally) End() error {
	if t.AsJSON {
		if err := t.console.WriteJSON(t.done); err != nil {
			return err
		}
	}
	if t.code != 0 {
		return Exit(t.code)
	}
	return nil
}
