package state

import (
	"context"
	"fmt"
	"time"
)

// Note is one line of a run's history, for people: why it waited, why a site
// was passed over, why it moved.
type Note struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// AddNote adds a line to a run's history, unless it is the last one already.
func (s *Store) AddNote(ctx context.Context, run, text string) error {
	err := s.db.exec(ctx, `INSERT INTO history (run, time, text) SELECT ?1, ?2, ?3
WHERE ?3 IS NOT (SELECT text FROM history WHERE run=?1 ORDER BY rowid DESC LIMIT 1)`, run, time.Now().UnixNano(), text)
	if err != nil {
		return fmt.Errorf("note in the history of run %s: %w", run, err)
	}
	return nil
}

// Notes gives a run's history, oldest first.
func (s *Store) Notes(ctx context.Context, run string) ([]Note, error) {
	list, err := rows(ctx, s.db, scanNote, "SELECT time, text FROM history WHERE run=? ORDER BY rowid", run)
	if err != nil {
		return nil, fmt.Errorf("read the history of run %s: %w", run, err)
	}
	return list, nil
}

func scanNote(scan func(...any) error) (Note, error) {
	var (
		n  Note
		at int64
	)
	err := scan(&at, &n.Text)
	n.Time = time.Unix(0, at)
	return n, err
}
