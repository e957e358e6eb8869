package state

import (
	"context"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Note is one line of a run's history, for people: why it waited, why a site
// was passed over, why it moved.
type Note struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// Bounds of a run's history, which sites and heads add to: bytes of a note, and notes.
// Beyond that the oldest go, but for the first ones, which tell how it began.
const (
	MaxNote    = 4 << 10
	maxNotes   = 5000
	firstNotes = 100
)

// AddNote adds a line to a run's history, unless it is the last one already.
func (s *Store) AddNote(ctx context.Context, run, text string) error {
	text = core.Printable(text, MaxNote)
	err := s.db.exec(ctx, `INSERT INTO history (run, time, text) SELECT ?1, ?2, ?3
WHERE ?3 IS NOT (SELECT text FROM history WHERE run=?1 ORDER BY rowid DESC LIMIT 1)`, run, time.Now().UnixNano(), text)
	if err == nil {
		err = s.db.exec(ctx, `DELETE FROM history WHERE run=?1
AND rowid <= (SELECT rowid FROM history WHERE run=?1 ORDER BY rowid DESC LIMIT 1 OFFSET ?2)
AND rowid > (SELECT rowid FROM history WHERE run=?1 ORDER BY rowid LIMIT 1 OFFSET ?3)`, run, maxNotes, firstNotes-1)
	}
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

// Noted reports whether a run's history has a text.
func (s *Store) Noted(ctx context.Context, run, text string) (bool, error) {
	found, err := rows(ctx, s.db, func(scan func(...any) error) (is bool, err error) {
		err = scan(&is)
		return is, err
	}, "SELECT EXISTS (SELECT 1 FROM history WHERE run=? AND text=?)", run, text)
	if err != nil {
		return false, fmt.Errorf("read the history of run %s: %w", run, err)
	}
	return len(found) > 0 && found[0], nil
}
