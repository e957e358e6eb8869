package supervisor

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// Control makes a run's controller work once. An error means that the run is not over, and
// that it is tried again after retry. A stop that is asked of it ends the run.
type Control func(ctx context.Context, run string, stop *Stop, retry time.Duration) error

// Supervisor holds the controllers of many runs in one process: each has its own goroutines,
// its own log and its own lock. When it is killed, `bee supervise`, or the next command that
// changes a run, continues all of them.
type Supervisor struct {
	Store *state.Store
	Log   *slog.Logger
	// Inbox is the directory in which the names of runs are left for it: see Leave.
	Inbox string
	// Mark records the runs that it holds.
	Mark    Mark
	Control Control
	// Notify sends the notifications of a run, until no more are expected; nil: there are
	// none. It runs beside the controller, and longer.
	Notify func(ctx context.Context, run string) error

	mu sync.Mutex
	// notifying are the runs whose notifications are being sent; true: the run was left
	// here again since.
	notifying map[string]bool
	// runs are those that have a controller, or wait to be tried again.
	runs map[string]*supervised
	all  sync.WaitGroup
}

// supervised is a run of a supervisor.
type supervised struct {
	stop *Stop
	wake chan struct{} // ends a pause before it is tried again
}

func newSupervised() *supervised {
	return &supervised{stop: NewStop(), wake: make(chan struct{}, 1)}
}

// Stop is a user's request that a run ends.
type Stop struct {
	asked chan struct{}
	once  sync.Once
}

// NewStop returns a request that is not made yet.
func NewStop() *Stop { return &Stop{asked: make(chan struct{})} }

// Ask makes the request. It is idempotent.
func (s *Stop) Ask() { s.once.Do(func() { close(s.asked) }) }

// Asked is closed once the request is made.
func (s *Stop) Asked() <-chan struct{} { return s.asked }

// How long a supervisor waits before it tries a run again whose controller has failed, at
// first and at most.
const (
	firstRetry   = 5 * time.Second
	longestRetry = 15 * time.Minute
)

const (
	// TakeInterval is how often a supervisor looks for runs that were left for it.
	TakeInterval = 200 * time.Millisecond
	// StopInterval is how often a controller looks whether its run was asked to stop by a
	// command that could not signal it.
	StopInterval = 2 * time.Second
)

// Serve takes runs until there are none any more.
func (v *Supervisor) Serve(ctx context.Context) error {
	// TERM says that some run was asked to stop: which, the records show. HUP
	// comes when the terminal goes, and means nothing here.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	look := time.NewTicker(TakeInterval)
	defer look.Stop()
	stops := time.NewTicker(StopInterval)
	defer stops.Stop()
	defer v.all.Wait()
	for {
		names, err := waiting(v.Inbox)
		if err != nil {
			return err
		}
		for _, id := range names {
			v.take(ctx, id)
		}
		if len(names) == 0 && v.idle() {
			return nil
		}
		select {
		case <-look.C:
		case <-stops.C:
			v.lookForStops(ctx)
		case got := <-signals:
			if got != syscall.SIGHUP {
				v.lookForStops(ctx)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (v *Supervisor) idle() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.runs) == 0 && len(v.notifying) == 0
}

// add makes a run known to the supervisor. Callers hold the lock.
func (v *Supervisor) add(id string) *supervised {
	r := newSupervised()
	if v.runs == nil {
		v.runs = map[string]*supervised{}
	}
	v.runs[id] = r
	return r
}

// take starts the controller of a run, unless the run has one.
func (v *Supervisor) take(ctx context.Context, id string) {
	defer os.Remove(filepath.Join(v.Inbox, id)) // a process that waits for this may end now
	v.mu.Lock()
	defer v.mu.Unlock()
	v.takeLocked(ctx, id)
}

// takeLocked is take for callers that hold the lock.
func (v *Supervisor) takeLocked(ctx context.Context, id string) {
	if r := v.runs[id]; r != nil {
		v.startNotifying(ctx, id)
		select {
		case r.wake <- struct{}{}:
		default:
		}
		return
	}
	v.startNotifying(ctx, id)
	lock, err := v.Store.Locks().Acquire(id)
	if err != nil {
		if !core.IsKind(err, core.Busy) { // else another process was quicker
			v.Log.Warn("take over run", "run", id, "err", err)
		}
		return
	}
	r := v.add(id)
	v.Mark.add(id)
	v.all.Go(func() {
		for lock != nil {
			v.controlToEnd(ctx, id, r, lock)
			lock = v.forget(ctx, id)
		}
	})
}

// startNotifying sends the notifications of a run, whichever process controls it. Callers
// hold the lock.
func (v *Supervisor) startNotifying(ctx context.Context, id string) {
	if v.Notify == nil {
		return
	}
	if _, runs := v.notifying[id]; runs {
		v.notifying[id] = true
		return
	}
	if v.notifying == nil {
		v.notifying = map[string]bool{}
	}
	v.notifying[id] = false
	v.all.Go(func() {
		for again := true; again; again = v.notified(id) {
			if err := core.Caught(func() error { return v.Notify(ctx, id) }); err != nil {
				v.Log.Warn("send notifications", "run", id, "err", err)
			}
		}
	})
}

// notified reports whether a run was left here again while its notifications were sent.
// Else it is forgotten.
func (v *Supervisor) notified(id string) (again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if again = v.notifying[id]; again {
		v.notifying[id] = false
	} else {
		delete(v.notifying, id)
	}
	return again
}

// forget removes a run whose controller has ended. Where its user has resumed or stopped
// the run since, and left it here, a new lock of it is returned.
func (v *Supervisor) forget(ctx context.Context, id string) *state.Lock {
	v.mu.Lock()
	defer v.mu.Unlock()
	run, err := v.Store.Run(ctx, id)
	if err == nil && !run.State.Final() && run.State != state.SetAside && (run.State != state.Suspended || run.StopAsked) {
		if lock, err := v.Store.Locks().Acquire(id); err == nil {
			return lock
		}
	}
	if err == nil {
		v.takeNext(ctx, run.Case.Array)
	}
	delete(v.runs, id)
	v.Mark.remove(id)
	return nil
}

// takeNext starts the controllers of those cases of an array whose turn has come by the end
// of another one. Until then they have none. Callers hold the lock.
func (v *Supervisor) takeNext(ctx context.Context, array string) {
	if array == "" {
		return
	}
	due, err := v.Store.Arrays().Due(ctx, array)
	if err != nil {
		v.Log.Warn("continue array", "array", array, "err", err)
	}
	for _, id := range due {
		if v.runs[id] == nil {
			v.takeLocked(ctx, id)
		}
	}
}

// controlToEnd makes controllers of a run until it has ended. What fails may pass: a disk
// that is full, a connection that is lost. In the meantime the run has no controller, so
// `bee supervise` tries it at once, except where it cannot read the run's secrets.
func (v *Supervisor) controlToEnd(ctx context.Context, id string, r *supervised, lock *state.Lock) {
	retry := fsutil.Backoff{First: firstRetry, Longest: longestRetry}
	for {
		wait := retry.Next()
		err := core.Caught(func() error { return v.Control(ctx, id, r.stop, wait) })
		lock.Unlock()
		if err == nil || ctx.Err() != nil {
			return
		}
		again, over := v.rest(ctx, id, r, wait)
		if over {
			return
		}
		if again {
			retry.Reset()
		}
		if lock, err = v.Store.Locks().Acquire(id); err != nil {
			return // another process has it, or the state directory is gone
		}
	}
}

// rest is the pause before a run is tried again, which ends when that is asked for, or
// another process has brought the run to its end.
func (v *Supervisor) rest(ctx context.Context, id string, r *supervised, wait time.Duration) (asked, over bool) {
	t, look := time.NewTimer(wait), time.NewTicker(StopInterval)
	defer t.Stop()
	defer look.Stop()
	for {
		select {
		case <-t.C:
			return false, false
		case <-r.wake:
			return true, false
		case <-look.C:
			run, err := v.Store.Run(ctx, id)
			if over := err == nil && run.State.Final() || core.IsKind(err, core.NotFound); over {
				return false, true
			}
		case <-ctx.Done():
			return false, true
		}
	}
}

// lookForStops ends the runs that their user wants to end.
func (v *Supervisor) lookForStops(ctx context.Context) {
	if v.idle() {
		return
	}
	ids, err := v.Store.Requests().Stopping(ctx)
	if err != nil {
		return // the next look is soon
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		if r := v.runs[id]; r != nil {
			r.stop.Ask()
		}
	}
}
