package supervisor

import (
	"context"
	"errors"
	"log/slog"

	"github.com/bee-hpc/bee/internal/crashes"
	"github.com/bee-hpc/bee/internal/state"
)

// Mark records the runs of a supervisor, for the case that it crashes. Where no record can
// be made, as on a full disk, the controllers start nevertheless.
type Mark struct {
	store *state.Store
	log   *slog.Logger
	mark  *crashes.Mark // nil: there is no record
}

// Begin records this process as a supervisor. Errors are only logged.
func Begin(ctx context.Context, store *state.Store, log *slog.Logger) Mark {
	m := Mark{store: store, log: log}
	marks, err := marksOf(store)
	if err == nil {
		m.mark, err = marks.Begin(ctx)
	}
	if err != nil {
		log.Warn("mark this supervisor", "err", err)
	}
	return m
}

func (m Mark) add(id string) {
	if m.mark == nil {
		return
	}
	if err := m.mark.Add(id); err != nil {
		m.log.Warn("record a run of this supervisor", "run", id, "err", err)
	}
}

// remove is for a run without a controller from now on. Its crashes are forgotten as well.
func (m Mark) remove(id string) {
	if m.mark == nil {
		return
	}
	if err := errors.Join(m.mark.Remove(id), crashes.Clear(m.store.RunDir(id))); err != nil {
		m.log.Warn("remove the record of a run of this supervisor", "run", id, "err", err)
	}
}

// Close ends the record.
func (m Mark) Close() {
	if m.mark == nil {
		return
	}
	if err := m.mark.Close(); err != nil {
		m.log.Warn("remove the mark of this supervisor", "err", err)
	}
}
