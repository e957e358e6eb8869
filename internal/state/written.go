package state

import (
	"context"
	"fmt"
	"time"
)

// Written is a file that an output of a run was stored as. One that still has the same size
// and time of modification is that run's, and nobody changed it since then.
type Written struct {
	Path     string // absolute, without links in its directory
	Size     int64  // bytes
	Modified time.Time
	// Partial: an attempt that was lost left it, perhaps in the middle of writing it.
	Partial bool
}

const addWritten = `
CREATE TABLE written (
  name TEXT NOT NULL, path TEXT NOT NULL, run TEXT NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
  PRIMARY KEY (name, path, run)) WITHOUT ROWID;
CREATE INDEX written_by_run ON written(run);
`

const addPartial = `
ALTER TABLE written ADD COLUMN partial INTEGER NOT NULL DEFAULT 0;
`

// PutWritten records files that a run is about to write. It is called before they are there.
func (s *Store) PutWritten(ctx context.Context, run Run, files []Written) error {
	if len(files) == 0 {
		return nil
	}
	err := s.db.change(ctx, func(ctx context.Context, t *tx) error {
		for _, f := range files {
			if err := t.exec(ctx, "INSERT OR REPLACE INTO written (name, path, run, size, modified, partial) VALUES (?,?,?,?,?,?)", run.Name, f.Path, run.ID, f.Size, f.Modified.UnixNano(), f.Partial); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record outputs of run %s: %w", run.ID, err)
	}
	return nil
}

func scanWritten(scan func(...any) error) (w Written, err error) {
	var modified int64
	err = scan(&w.Path, &w.Size, &modified, &w.Partial)
	w.Modified = time.Unix(0, modified)
	return w, err
}

// Written returns the files at a path and below it that runs of a name have written. A run
// that is removed has none.
func (s *Store) Written(ctx context.Context, name, path string) ([]Written, error) {
	list, err := rows(ctx, s.db, scanWritten, "SELECT path, CAST(size AS INTEGER), CAST(modified AS INTEGER), CAST(partial AS INTEGER) FROM written WHERE name=?1 AND (path=?2 OR path>?2||'/' AND path<?2||'0')", name, path)
	if err != nil {
		return nil, fmt.Errorf("list outputs of runs named %q: %w", name, err)
	}
	return list, nil
}

// WrittenBy returns files at and below a path that a run has written, in the order of their
// paths, and at most so many.
func WrittenBy(ctx context.Context, s *Store, run, path string, most int) ([]Written, error) {
	list, err := rows(ctx, s.db, scanWritten, "SELECT path, CAST(size AS INTEGER), CAST(modified AS INTEGER), CAST(partial AS INTEGER) FROM written WHERE run=?1 AND (path=?2 OR path>?2||'/' AND path<?2||'0') ORDER BY path LIMIT ?3", run, path, most)
	if err != nil {
		return nil, fmt.Errorf("list outputs of run %s: %w", run, err)
	}
	return list, nil
}
