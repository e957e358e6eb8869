package state

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
)

// Bounds of a run's history, which sites and heads add to: events, and how many of the
// first ones stay when others are pruned. They show how the run began.
const (
	maxEvents   = 5000
	firstEvents = 100
)

// AddEvent adds an event to a run's history, unless it reports the same as the last one.
// It returns the event as it is stored. A zero Time is now.
func (s *Store) AddEvent(ctx context.Context, e event.Event) (event.Event, error) {
	written, err := s.Write(ctx, Change{Events: []event.Event{e}})
	if err != nil {
		return e, err
	}
	return written[0], nil
}

// History is what has happened to the runs of a store, as events.
type History struct{ db *conn }

// History returns that of all runs.
func (s *Store) History() History { return History{s.db} }

// Events returns a run's history, oldest first; of given kinds only, if there are any.
func (h History) Events(ctx context.Context, run string, kinds ...event.Kind) ([]event.Event, error) {
	list, err := rows(ctx, h.db, scanEvent, "SELECT "+eventValues+" FROM events WHERE run=? ORDER BY seq", run)
	if err != nil {
		return nil, fmt.Errorf("read the history of run %s: %w", run, err)
	}
	if len(kinds) == 0 {
		return list, nil
	}
	var of []event.Event
	for _, e := range list {
		for _, k := range kinds {
			if e.Is(k) {
				of = append(of, e)
			}
		}
	}
	return of, nil
}

// After returns the events of a run that follow the one with a number, oldest first.
func (h History) After(ctx context.Context, run string, seq int64) ([]event.Event, error) {
	list, err := rows(ctx, h.db, scanEvent, "SELECT "+eventValues+" FROM events WHERE run=? AND seq>? ORDER BY seq", run, seq)
	if err != nil {
		return nil, fmt.Errorf("read the history of run %s: %w", run, err)
	}
	return list, nil
}

// Newest returns the numbers of the newest events of all runs that are not over, by run. A
// run without events has 0.
func (h History) Newest(ctx context.Context) (map[string]int64, error) {
	newest := map[string]int64{}
	_, err := rows(ctx, h.db, func(scan func(...any) error) (none struct{}, err error) {
		var run string
		var seq int64
		err = scan(&run, &seq)
		newest[run] = seq
		return none, err
	}, "SELECT id, COALESCE((SELECT seq FROM events WHERE run=id ORDER BY seq DESC LIMIT 1), 0) FROM runs WHERE "+notOver)
	if err != nil {
		return nil, fmt.Errorf("look for new events: %w", err)
	}
	return newest, nil
}

// Last returns the newest event of a run but for changes of an attempt's state, and
// whether there is one.
func (h History) Last(ctx context.Context, run string) (event.Event, bool, error) {
	list, err := rows(ctx, h.db, scanEvent, "SELECT "+eventValues+" FROM events WHERE run=? AND kind<>'attempt_state' ORDER BY seq DESC LIMIT 1", run)
	if err != nil {
		return event.Event{}, false, fmt.Errorf("read the history of run %s: %w", run, err)
	}
	if len(list) == 0 {
		return event.Event{}, false, nil
	}
	return list[0], true, nil
}

// Has reports whether a run's history has an event of the same attempt that reports
// the same.
func (h History) Has(ctx context.Context, e event.Event) (bool, error) {
	raw, err := event.Encode(e.Fields)
	if err != nil {
		return false, err
	}
	found, err := rows(ctx, h.db, func(scan func(...any) error) (is bool, err error) {
		err = scan(&is)
		return is, err
	}, "SELECT EXISTS (SELECT 1 FROM events WHERE run=? AND attempt=? AND kind=? AND fields=?)", e.Run, e.Attempt, e.Fields.Kind(), string(raw))
	if err != nil {
		return false, fmt.Errorf("read the history of run %s: %w", e.Run, err)
	}
	return len(found) > 0 && found[0], nil
}

// eventValues are the columns of an event. A number that is none, in a damaged file, is 0.
const eventValues = "run, CAST(seq AS INTEGER), CAST(time AS INTEGER), CAST(attempt AS INTEGER), kind, fields"

func scanEvent(scan func(...any) error) (event.Event, error) {
	var (
		e      event.Event
		at     int64
		kind   event.Kind
		fields string
	)
	err := scan(&e.Run, &e.Seq, &at, &e.Attempt, &kind, &fields)
	e.Time, e.Fields = time.Unix(0, at), event.Decode(kind, json.RawMessage(fields))
	return e, err
}

// event writes an event, and prunes the history of its run.
func (t *tx) event(ctx context.Context, e event.Event) (event.Event, error) {
	raw, err := event.Encode(e.Fields)
	if err != nil {
		return e, err
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	newest := "SELECT " + eventValues + " FROM events WHERE run=? ORDER BY seq DESC LIMIT 1"
	last, err := txRows(ctx, t, scanEvent, newest, e.Run)
	if err != nil {
		return e, err
	}
	e.Seq = 1
	if len(last) > 0 {
		e.Seq = last[0].Seq + 1
	}
	if len(last) > 0 && last[0].Is(event.KindAttemptState) && !e.Is(event.KindAttemptState) { // it repeats nothing
		newest = "SELECT " + eventValues + " FROM events WHERE run=? AND kind<>'attempt_state' ORDER BY seq DESC LIMIT 1"
		if last, err = txRows(ctx, t, scanEvent, newest, e.Run); err != nil {
			return e, err
		}
	}
	if len(last) > 0 && last[0].Attempt == e.Attempt && event.Key(last[0].Fields) == event.Key(e.Fields) {
		return last[0], nil
	}
	err = t.exec(ctx, "INSERT INTO events (run, seq, time, attempt, kind, fields) VALUES (?,?,?,?,?,?)", e.Run, e.Seq, e.Time.UnixNano(), e.Attempt, e.Fields.Kind(), string(raw))
	if err == nil && e.Seq > maxEvents {
		err = t.exec(ctx, `DELETE FROM events WHERE run=?1
AND seq <= (SELECT seq FROM events WHERE run=?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)
AND seq > (SELECT seq FROM events WHERE run=?1 ORDER BY seq LIMIT 1 OFFSET ?3)`, e.Run, maxEvents, firstEvents-1)
	}
	return e, err
}
