package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

// Lock is held by a run's controller for as long as it controls it.
type Lock struct{ f *os.File }

// Locks are the locks of the runs of a state directory, and what they show of the
// processes that hold them.
type Locks struct{ dir string }

// Locks returns the locks of all runs.
func (s *Store) Locks() Locks { return Locks{s.dir} }

// Acquire locks the run for this process, or returns a Busy error where another process
// controls it. The kernel frees it when the holder dies.
func (l Locks) Acquire(id string) (*Lock, error) {
	held, err := lock(l.path(id), "lock run", id, "")
	if e, busy := errors.AsType[*core.Error](err); busy {
		e.Err = errors.New(l.Who(id) + " controls it")
		e.Remedy = "`bee show " + id + "` shows what it does with it; `bee stop " + id + "` ends the run."
	}
	return held, err
}

const lockName = "lock"

// LockSaved takes a directory of saved virtual machines for this process, which
// makes a run of them, or gives a Busy error when another does.
func LockSaved(dir string) (*Lock, error) {
	return take(filepath.Join(dir, lockName), "bring up virtual machines of", dir, "another bee process does so now")
}

// lock is take with a note in the file of whom Nudge reaches.
func lock(path, op, object, held string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("%s %s: %w", op, object, err)
	}
	l, err := take(path, op, object, held)
	if err != nil {
		return nil, err
	}
	self, err := address()
	if err == nil {
		err = errors.Join(l.f.Truncate(0), writeAt(l.f, self))
	}
	if err != nil {
		l.f.Close()
		return nil, fmt.Errorf("%s %s: %w", op, object, err)
	}
	return l, nil
}

// take locks a file, which others may have put there: no link is followed.
func take(path, op, object, held string) (*Lock, error) {
	fail := func(err error) (*Lock, error) {
		if errors.Is(err, unix.ELOOP) || errors.Is(err, fsutil.ErrNotPlain) {
			return nil, &core.Error{Kind: core.Invalid, Op: op, Object: object, Err: err, Remedy: "Bee has not made that: see who may write to the directory, and remove it."}
		}
		return nil, fmt.Errorf("%s %s: %w", op, object, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return fail(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "lock", Path: path, Err: fsutil.ErrNotPlain}
	}
	if err != nil {
		f.Close()
		return fail(err)
	}
	if err := flock(f); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &core.Error{Kind: core.Busy, Op: op, Object: object, Err: errors.New(held), Remedy: "Wait until that has ended."}
		}
		return fail(err)
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(info, now) { // its last holder has removed it
		f.Close()
		return nil, &core.Error{Kind: core.Busy, Op: op, Object: object, Err: errors.New(held), Remedy: "Wait until that has ended."}
	}
	return &Lock{f}, nil
}

// flock waits up to a second for processes in Controlled: they hold a shared lock for a
// moment, or for longer where they get no processor. For the holder of an exclusive lock it
// waits a moment only, as that one may be about to end.
func flock(f *os.File) error {
	fd, begun := int(f.Fd()), time.Now()
	for {
		err := fsutil.TryFlock(fd, unix.LOCK_EX)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		timeout := 20 * time.Millisecond
		if fsutil.TryFlock(fd, unix.LOCK_SH) == nil { // it would be in the way of others that want it
			if err := fsutil.TryFlock(fd, unix.LOCK_UN); err != nil {
				return err
			}
			timeout = time.Second
		}
		if time.Since(begun) > timeout {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Unlock frees the run.
func (l *Lock) Unlock() error { return l.f.Close() }

// Controlled reports whether some process controls the run right now.
func (l Locks) Controlled(id string) bool { return locked(l.path(id)) }

// locked reports whether some process has a file locked.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	// A shared lock, so that two processes that ask at once do not take each
	// other for the controller.
	return errors.Is(fsutil.TryFlock(int(f.Fd()), unix.LOCK_SH), unix.EWOULDBLOCK)
}

// Nudge has the process that controls a run look for a stop that Requests.AskStop recorded:
// one on this machine gets TERM. One on another machine that shares the directory looks by
// itself: see Requests.Stopping. False: no process controls the run.
func (l Locks) Nudge(id string) (bool, error) {
	if !l.Controlled(id) {
		return false, nil
	}
	// Where there is no process of that name here, it is elsewhere, or has just taken
	// the lock, or released it: its holder looks by itself.
	holder, _ := holder(l.path(id))
	if _, err := holder.Signal(unix.SIGTERM); err != nil {
		return false, fmt.Errorf("tell controller of run %s: %w", id, err)
	}
	return true, nil
}

// Elsewhere names the host on which a process controls a run, where it is another one
// that shares the directory; else "".
func (l Locks) Elsewhere(id string) string {
	holder, host := holder(l.path(id))
	boot, err := procid.Boot()
	if err != nil || holder.Boot == "" || holder.Boot == boot || !l.Controlled(id) {
		return ""
	}
	return host
}

// Taken is when the process that controls a run has begun to, or the last one had; zero:
// not known.
func (l Locks) Taken(id string) time.Time {
	info, err := os.Stat(l.path(id)) // each writes itself into it
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Who names the other process that controls a run, as far as it is known.
func (l Locks) Who(id string) string {
	if host := l.Elsewhere(id); host != "" {
		return "a bee process on host " + host
	}
	return "another bee process"
}

// Alone reports whether the directory of a run is known to hold nothing but its lock.
func (l Locks) Alone(id string) bool { return onlyLock(runDir(l.dir, id)) }

func (l Locks) path(id string) string { return filepath.Join(runDir(l.dir, id), lockName) }

// address is what the holder of a lock writes into it: its process, whose number means
// nothing on another machine and after the next boot, and the host's name for people.
func address() (string, error) {
	id, err := procid.Of(os.Getpid())
	if err != nil {
		return "", err
	}
	host, err := os.Hostname()
	return id.String() + "\n" + host + "\n", err
}

// holder reads which process has written itself into a lock, and on which host. The
// zero ID: none that is known.
func holder(path string) (procid.ID, string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return procid.ID{}, ""
	}
	text, host, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	id, err := procid.Parse(text)
	if err == nil {
		return id, host
	}
	// Before, it was a number alone: it means the process that has the file open.
	pid, err := strconv.Atoi(text)
	if err != nil {
		return procid.ID{}, ""
	}
	if id, err = procid.Of(pid); err != nil || !hasOpen(pid, path) {
		return procid.ID{}, ""
	}
	return id, ""
}

// hasOpen reports whether a process of this machine has a file open.
func hasOpen(pid int, path string) bool {
	want, err := os.Stat(path)
	if err != nil {
		return false
	}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is a good one
	for _, fd := range fds {
		if is, err := os.Stat(fd); err == nil && os.SameFile(want, is) {
			return true
		}
	}
	return false
}
