package state

import (
	"context"
	"fmt"
	"time"
)

// Forgotten is what stays known of a run that its user has removed: a sweep may then
// remove what turns up of it later.
type Forgotten struct {
	Known bool
	// Store is where its checkpoints were left because the user wanted so, or "".
	Store string
}

// Forget records that the user removes a run, before anything of it is removed.
func (s *Store) Forget(ctx context.Context, id, store string) error {
	err := s.db.exec(ctx, "INSERT OR REPLACE INTO forgotten (run, time, store) VALUES (?,?,?)", id, time.Now().UnixNano(), store)
	if err != nil {
		return fmt.Errorf("forget run %s: %w", id, err)
	}
	return nil
}

// Forgotten returns what is known of a run that was removed.
func (s *Store) Forgotten(ctx context.Context, id string) (Forgotten, error) {
	found, err := rows(ctx, s.db, func(scan func(...any) error) (f Forgotten, err error) {
		f.Known, err = true, scan(&f.Store)
		return f, err
	}, "SELECT store FROM forgotten WHERE run=?", id)
	if err != nil || len(found) == 0 {
		return Forgotten{}, err
	}
	return found[0], nil
}
