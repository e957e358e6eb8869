package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Lock is held by a run's controller for as long as it controls it.
type Lock struct{ f *os.File }

// Lock takes the run for this process, or gives a Busy error when another
// process controls it. The kernel frees it when the holder dies.
func (s *Store) Lock(id string) (*Lock, error) {
	dir := s.RunDir(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock run %s: %w", id, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock run %s: %w", id, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &core.Error{Kind: core.Busy, Op: "lock run", Object: id, Err: errors.New("another bee process controls it")}
		}
		return nil, fmt.Errorf("lock run %s: %w", id, err)
	}
	return &Lock{f}, nil
}

// Unlock frees the run.
func (l *Lock) Unlock() error { return l.f.Close() }

// Controlled tells whether some process controls the run right now.
func (s *Store) Controlled(id string) bool {
	l, err := s.Lock(id)
	if err != nil {
		return core.IsKind(err, core.Busy)
	}
	l.Unlock() //nolint:errcheck // only reads
	return false
}
