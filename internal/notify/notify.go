// Package notify sends notifications about runs: to a webhook, to a command of the user and
// by mail. Each receiver gets its events in their order and at least once, over the end of
// any process; how far each is, is on the disk. A receiver that fails is tried again for a
// day, and delays neither the run nor another receiver. The package reads records and events,
// and knows no controller, site or terminal; what is sent is given to it.
package notify

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Receiver is who is notified, as the Beefile or the sites file has it.
type Receiver struct {
	spec.Notify
	// Dir is where its command begins.
	Dir string
}

// Notifier sends the notifications of one run.
type Notifier struct {
	Store *state.Store
	Log   *slog.Logger
	Run   string
	// Receivers are always the same ones of a run, in the same order.
	Receivers []Receiver
	// Body is what a webhook and a command get of a run, and Text what a mail has.
	Body func(ctx context.Context, run state.Run) ([]byte, error)
	Text func(ctx context.Context, run state.Run) (string, error)
	// Secret reads the value of a key.
	Secret func(ctx context.Context, from spec.Secret) (string, error)

	// first is the pause before the second try; 0: firstPause.
	first time.Duration
	// roots, if set, are in place of the machine's own certificates of authorities.
	roots *x509.CertPool
	// tlsPort is a port like spec.SMTPPort.
	tlsPort string
}

const (
	// look is how often the records are looked at.
	look = time.Second
	// unattended is how long a run may be without a controller before no more of its
	// events are expected. A run that another process takes over has none for a moment.
	unattended = time.Minute
	// limit is how long a notification is tried, with so many tries at least.
	limit      = 24 * time.Hour
	leastTries = 3
	// firstPause and longestPause are between two tries.
	firstPause   = 5 * time.Second
	longestPause = 15 * time.Minute
)

// dirOf is the directory of what is to send for a run.
func dirOf(store *state.Store, run string) string {
	return filepath.Join(store.Dir(), "notifications", run)
}

const lockName = "lock"

// lockTime is how long a lock is waited for: a process that only looks has it for a moment.
const lockTime = 2 * time.Second

// Prepare records that a run has receivers. It is called before the run is on record, so
// that no end of a process loses its notifications.
func Prepare(store *state.Store, run string) error {
	return fsutil.MkdirAll(dirOf(store, run), 0o700)
}

// Remove removes what Prepare has recorded.
func Remove(store *state.Store, run string) error { return fsutil.RemoveAll(dirOf(store, run)) }

// Has reports whether something may be to send for a run.
func Has(store *state.Store, run string) bool {
	_, err := os.Lstat(dirOf(store, run))
	return err == nil
}

// OfArray returns the run by whose notifications those of the whole array of a run are sent;
// "": the run itself is that, or there are none to send, or a process sends them.
func OfArray(ctx context.Context, store *state.Store, run string) (string, error) {
	if Has(store, run) {
		return "", nil
	}
	cases, err := store.Arrays().Beside(ctx, run, false)
	if err != nil || len(cases) == 0 || !Has(store, cases[0]) {
		return "", err
	}
	free, err := Unattended(store)
	if err != nil || !slices.Contains(free, cases[0]) {
		return "", err
	}
	return cases[0], nil
}

// Unattended returns the runs with notifications that no process sends now.
func Unattended(store *state.Store) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(store.Dir(), "notifications"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if !state.IsID(e.Name()) {
			continue
		}
		lock, err := fsutil.TryLockShared(filepath.Join(dirOf(store, e.Name()), lockName)) // others may look as well
		if core.IsKind(err, core.Busy) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return ids, err
		}
		lock.Unlock()
		ids = append(ids, e.Name())
	}
	return ids, nil
}

// abandoned is how old the directory of a run without a record is when it is removed. A
// newer one may be of a run that is being submitted.
const abandoned = time.Hour

// Pending reports whether there is something to send now. It sends and records nothing.
func (n *Notifier) Pending(ctx context.Context) (bool, error) {
	dir := dirOf(n.Store, n.Run)
	f, err := n.read(ctx)
	if core.IsKind(err, core.NotFound) {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > abandoned {
			return false, fsutil.RemoveAll(dir)
		}
		return false, nil
	}
	if err != nil || f.run.State.Final() { // else the directory would be gone
		return err == nil, err
	}
	p, err := readProgress(dir, len(n.Receivers))
	if err != nil {
		return false, err
	}
	for i := range n.Receivers {
		if _, is := n.next(f.events, i, p.Receivers[i].Done); is {
			return true, nil
		}
	}
	return false, nil
}

// Serve sends what is to send until the run has ended and all of it is sent, or given up. It
// does nothing where another process does it.
func (n *Notifier) Serve(ctx context.Context) error {
	dir := dirOf(n.Store, n.Run)
	short, stop := context.WithTimeout(ctx, lockTime)
	defer stop()
	lock, err := fsutil.LockFile(short, filepath.Join(dir, lockName))
	switch {
	case err == nil:
	case short.Err() != nil, errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
	defer lock.Unlock()
	p, err := readProgress(dir, len(n.Receivers))
	if err != nil {
		return err
	}
	s := &sending{Notifier: n, dir: dir, progress: p, busy: make([]bool, len(n.Receivers)), results: make(chan result, len(n.Receivers))}
	ctx, cancel := context.WithCancel(ctx)
	defer s.all.Wait()
	defer cancel()
	return s.serve(ctx)
}

// sending is a Notifier at work.
type sending struct {
	*Notifier
	dir      string
	progress progress
	busy     []bool
	results  chan result
	all      sync.WaitGroup
	// controlled is when the run last had a controller.
	controlled time.Time
}

// result is what became of one try.
type result struct {
	receiver int
	event    notification
	err      error
}

func (s *sending) serve(ctx context.Context) error {
	s.controlled = time.Now()
	for {
		controlled := s.attended(ctx)
		if controlled {
			s.controlled = time.Now()
		}
		f, err := s.find(ctx)
		if ctx.Err() != nil {
			return nil // it is to end, and another process continues
		}
		if core.IsKind(err, core.NotFound) {
			return fsutil.RemoveAll(s.dir)
		}
		if err != nil {
			return err
		}
		waiting, again := s.start(ctx, f)
		switch {
		case waiting:
		case f.run.State.Final():
			return fsutil.RemoveAll(s.dir)
		case !controlled && (f.run.State.Resumable() || time.Since(s.controlled) > unattended):
			return nil
		}
		select {
		case <-time.After(min(max(time.Until(again), 0), look)):
		case r := <-s.results:
			if err := s.note(ctx, r); err != nil && ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// start starts the tries that are due. It reports whether anything is still to send, and
// when the next try is due.
func (s *sending) start(ctx context.Context, f found) (waiting bool, again time.Time) {
	again = time.Now().Add(look)
	for i := range s.Receivers {
		if s.busy[i] {
			waiting = true
			continue
		}
		e, is := s.next(f.events, i, s.progress.Receivers[i].Done)
		if !is {
			continue
		}
		waiting = true
		if !e.due() {
			continue
		}
		if c := s.progress.Receivers[i]; c.Tries > 0 && time.Now().Before(c.Next) && time.Until(c.Next) <= longestPause {
			if c.Next.Before(again) {
				again = c.Next
			}
			continue
		}
		s.busy[i] = true
		s.all.Go(func() {
			s.results <- result{i, e, core.Caught(func() error { return s.send(ctx, s.Receivers[i], f.run, e) })}
		})
	}
	return waiting, again
}

// note records what became of a try.
func (s *sending) note(ctx context.Context, r result) error {
	if ctx.Err() != nil && r.err != nil { // it was broken off
		return nil
	}
	s.busy[r.receiver] = false
	c := &s.progress.Receivers[r.receiver]
	switch {
	case r.err == nil:
		*c = cursor{Done: r.event.Seq}
	case c.Tries+1 >= leastTries && time.Since(r.event.Time) > limit:
		if err := s.giveUp(ctx, r); err != nil {
			return err
		}
		*c = cursor{Done: r.event.Seq}
	default:
		pause := longestPause
		if c.Tries < 8 { // else it is longer
			pause = min(cmp.Or(s.first, firstPause)<<c.Tries, longestPause)
		}
		c.Tries, c.Next = c.Tries+1, time.Now().Add(pause)
		s.Log.Warn("send a notification", "run", s.Run, "receiver", nameOf(s.Receivers[r.receiver]), "event", r.event.word, "try", c.Tries, "again", c.Next.Format(time.RFC3339), "err", r.err)
	}
	return s.progress.write(s.dir)
}
