package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state/event"
)

// openStop finds the requests of a run's user that its controller end it.
const openStop = "SELECT id FROM requests WHERE run=? AND kind='stop' AND result=''"

// Change is a set of records that are written in one transaction: a run, an attempt, or
// both, with the events that report the change.
type Change struct {
	Run *Run
	// New are runs that are submitted together, such as the cases of an array.
	New     []Run
	Attempt *Attempt
	// Attempts are those of a run that another installation has begun.
	Attempts []Attempt
	Events   []event.Event
	// StopArrayAt, if set, asks those cases of Run's array to stop that have not begun, if so
	// many cases have failed.
	StopArrayAt int
	// StopCounts is the array whose failed cases count, and StopRuns that whose runs stop; "": that
	// of Run. With packs, these are two.
	StopCounts, StopRuns string
	// StopWhy is their reason.
	StopWhy Stop
	// Answers are requests whose result the change is.
	Answers []Request
	// Admit, if set, gets the runs but Run that are not over, in the transaction. Its error
	// is that of Write, and nothing is written.
	Admit func(active []Run) error
	// UnlessStopped has nothing be written where a stop of Attempt's run is an open request. The
	// error of Write is then ErrStopAsked.
	UnlessStopped bool
	// Durable makes the change survive a power failure: set it when something outside
	// of this machine is about to be made.
	Durable bool
}

// ErrStopAsked is the error of a change that a stop has overtaken: see Change.UnlessStopped.
var ErrStopAsked = errors.New("a stop of the run is on record")

// Write writes a change, all of it or nothing. It returns the events as they are stored.
func (s *Store) Write(ctx context.Context, c Change) ([]event.Event, error) {
	db := s.db
	if c.Durable {
		db = s.durable
	}
	written := make([]event.Event, len(c.Events))
	err := db.change(ctx, func(ctx context.Context, t *tx) error {
		if c.Admit != nil {
			own := ""
			if c.Run != nil {
				own = c.Run.ID
			}
			active, err := txRows(ctx, t, scanRun, "SELECT "+runValues+" FROM runs WHERE "+notOver+" AND id<>?", own)
			if err == nil {
				err = c.Admit(active)
			}
			if err != nil {
				return err
			}
		}
		if c.UnlessStopped {
			asked, err := txRows(ctx, t, func(scan func(...any) error) (id int64, err error) { return id, scan(&id) }, openStop, c.Attempt.Run)
			if err == nil && len(asked) > 0 {
				err = ErrStopAsked
			}
			if err != nil {
				return err
			}
		}
		if c.Run != nil {
			if err := t.run(ctx, *c.Run); err != nil {
				return fmt.Errorf("record run %s: %w", c.Run.ID, err)
			}
		}
		if c.Run != nil {
			if err := t.carry(ctx, *c.Run); err != nil {
				return err
			}
		}
		if c.StopArrayAt > 0 {
			if err := t.stopCases(ctx, cmp.Or(c.StopCounts, c.Run.Case.Array), cmp.Or(c.StopRuns, c.Run.Case.Array), c.StopArrayAt, c.StopWhy); err != nil {
				return err
			}
		}
		for _, r := range c.New {
			if err := t.run(ctx, r); err != nil {
				return fmt.Errorf("record run %s (%s): %w", r.ID, r.Name, err)
			}
		}
		if c.Attempt != nil {
			if err := t.attempt(ctx, *c.Attempt); err != nil {
				return fmt.Errorf("record attempt %d of run %s: %w", c.Attempt.N, c.Attempt.Run, err)
			}
		}
		for _, a := range c.Attempts {
			if err := t.attempt(ctx, a); err != nil {
				return fmt.Errorf("record attempt %d of run %s: %w", a.N, a.Run, err)
			}
		}
		for i, e := range c.Events {
			var err error
			if written[i], err = t.event(ctx, e); err != nil {
				return fmt.Errorf("record an event of run %s: %w", e.Run, err)
			}
		}
		for _, r := range c.Answers {
			if err := t.exec(ctx, answerRequest, r.Result, r.Why, r.ID); err != nil {
				return fmt.Errorf("record the result of a request of run %s: %w", r.Run, err)
			}
		}
		return c.answerRest(ctx, t)
	})
	if err != nil {
		return nil, err
	}
	switch {
	case c.Run != nil:
		core.BestEffort(s.writeBeside(ctx, c.Run.ID)) // a copy, which the next change writes again
	case c.Attempt != nil && c.Attempt.Unreadable == nil:
		core.BestEffort(s.writeBeside(ctx, c.Attempt.Run))
	}
	return written, nil
}

// answerRest answers the requests that the change leaves without an object.
func (c Change) answerRest(ctx context.Context, t *tx) (err error) {
	if a := c.Attempt; a != nil && a.Decided() {
		err = t.exec(ctx, answerCheckpoint, a.Run, a.N)
	}
	if r := c.Run; err == nil && r != nil && r.State.Final() {
		err = t.exec(ctx, answerAtEnd, r.State, r.ID)
	}
	if err != nil {
		return fmt.Errorf("record the results of requests: %w", err)
	}
	return nil
}

// tx is a transaction on one connection.
type tx struct{ c *conn }

// change runs f in a transaction, which is undone where f fails. The transaction begins
// and ends by statements of its own: those of database/sql could not use what is prepared.
func (c *conn) change(ctx context.Context, f func(context.Context, *tx) error) error {
	return c.do(ctx, func(ctx context.Context, _ *sql.DB) error {
		t := &tx{c}
		if err := t.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
			return err
		}
		err := f(ctx, t)
		if err == nil {
			err = t.exec(ctx, "COMMIT")
		}
		if err != nil {
			return errors.Join(err, t.exec(ctx, "ROLLBACK"))
		}
		return nil
	})
}

func (t *tx) exec(ctx context.Context, query string, args ...any) error {
	s, err := t.c.prepared(ctx, query)
	if err == nil {
		_, err = s.ExecContext(ctx, args...)
	}
	return err
}

func txRows[T any](ctx context.Context, t *tx, read func(scan func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	s, err := t.c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	return scanned(rows, read)
}
