package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Lock is held by a run's controller for as long as it controls it.
type Lock struct{ f *os.File }

// Lock takes the run for this process, or gives a Busy error when another
// process controls it. The kernel frees it when the holder dies.
func (s *Store) Lock(id string) (*Lock, error) {
	l, err := lock(filepath.Join(s.RunDir(id), "lock"), "lock run", id, "another bee process controls it")
	if e, busy := errors.AsType[*core.Error](err); busy {
		e.Remedy = "`bee show " + id + "` tells what it does with it; `bee stop " + id + "` ends the run."
	}
	return l, err
}

// Carrier is the directory of the process that carries this user's detached
// runs in one environment, known by a key: its lock, and the names of the runs
// that it shall take.
func (s *Store) Carrier(key string) string { return filepath.Join(s.dir, "controllers", key) }

// LockCarrier makes this process the one that carries runs in an environment,
// or gives a Busy error where there is one.
func (s *Store) LockCarrier(key string) (*Lock, error) {
	return lock(filepath.Join(s.Carrier(key), "lock"), "lock the controllers of", s.dir, "another bee process carries its runs")
}

// LockSaved takes a directory of saved virtual machines for this process, which
// makes a run of them, or gives a Busy error when another does.
func LockSaved(dir string) (*Lock, error) {
	return lock(filepath.Join(dir, "lock"), "bring up virtual machines of", dir, "another bee process does so now")
}

func lock(path, op, object, held string) (*Lock, error) {
	fail := func(err error) (*Lock, error) { return nil, fmt.Errorf("%s %s: %w", op, object, err) }
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fail(err)
	}
	if err := flock(f); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &core.Error{Kind: core.Busy, Op: op, Object: object, Err: errors.New(held)}
		}
		return fail(err)
	}
	// The process id is only an address for Nudge; the flock is the lock.
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid()))); err != nil {
		f.Close()
		return fail(err)
	}
	return &Lock{f}, nil
}

// flock tries for a moment: Controlled holds a shared lock while it looks.
func flock(f *os.File) error {
	var err error
	for range 20 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		time.Sleep(time.Millisecond) // whoever only looks whether it is held lets go at once
	}
	return err
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Unlock frees the run.
func (l *Lock) Unlock() error { return l.f.Close() }

// Controlled tells whether some process controls the run right now.
func (s *Store) Controlled(id string) bool {
	f, err := os.Open(filepath.Join(s.RunDir(id), "lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	// A shared lock, so that two processes that ask at once do not take each
	// other for the controller.
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Nudge sends TERM to the process that controls a run, so that it looks for a
// stop that AskStop recorded. False: no process controls the run.
func (s *Store) Nudge(id string) (bool, error) {
	if !s.Controlled(id) {
		return false, nil
	}
	raw, err := os.ReadFile(filepath.Join(s.RunDir(id), "lock"))
	if err != nil {
		return false, fmt.Errorf("find controller of run %s: %w", id, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return false, nil // it has the lock, and is about to write its id: it will look by itself
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("tell controller of run %s: %w", id, err)
	}
	return true, nil
}
