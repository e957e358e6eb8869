package cli

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// doneView is what came of one of the things that a command was given, as --json
// gives it.
type doneView struct {
	ID string `json:"id"`
	// State is that of a run that was to end, which may have ended otherwise.
	State state.RunState `json:"state,omitempty"`
	Error *errorView     `json:"error,omitempty"`
}

// tally collects what came of each of the things that a command was given: one that
// fails keeps none of the others from being dealt with.
type tally struct {
	app    *app
	asJSON bool
	done   []doneView
	code   int // of the first that failed
}

func (a *app) newTally(asJSON bool) *tally { return &tally{app: a, asJSON: asJSON, done: []doneView{}} }

// add takes what came of one thing, and reports its error at once.
func (t *tally) add(v doneView, err error) {
	if err != nil {
		t.app.printError(err)
		v.Error = errorOf(core.KindOf(err).String(), err.Error(), core.Remedy(err))
		if t.code == 0 {
			t.code = codeOf(err)
		}
	}
	t.done = append(t.done, v)
}

// removed is add for a command that removes, and reports what is gone by its id.
func (t *tally) removed(id string, err error) {
	if err == nil && !t.asJSON {
		_, err = fmt.Fprintln(t.app.stdout, id)
	}
	t.add(doneView{ID: id}, err)
}

// end writes the list where that is wanted, and fails as the first of its things did.
func (t *tally) end() error {
	if t.asJSON {
		if err := t.app.writeJSON(t.done); err != nil {
			return err
		}
	}
	if t.code != 0 {
		return exitError{t.code}
	}
	return nil
}
