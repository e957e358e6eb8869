package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/state"
)

// carrier carries many runs in one process: each in its own goroutines, with
// its own log and its own lock. When it is killed, `bee supervise`, or the next command
// that changes a run, continues all of them.
type carrier struct {
	s      *session
	box    string
	marked marked
	mu     sync.Mutex
	// runs are those that are carried, or wait to be tried again.
	runs map[string]*carried
	all  sync.WaitGroup
}

// carried is a run in the hands of a carrier.
type carried struct {
	stop chan struct{} // closed when its user wants it to end
	once sync.Once
	wake chan struct{} // ends a pause before it is tried again
}

func newCarrier(s *session, box string, marked marked) *carrier {
	return &carrier{s: s, box: box, marked: marked, runs: map[string]*carried{}}
}

// How long a carrier waits before it tries a run again that could not be
// carried to its end, at first and at most.
const (
	firstRetry   = 5 * time.Second
	longestRetry = 15 * time.Minute
)

// serve takes runs until there are none any more.
func (c *carrier) serve(ctx context.Context) error {
	// TERM says that some run was asked to stop: which, the records tell. HUP
	// comes when the terminal goes, and means nothing here.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	look := time.NewTicker(takeLook)
	defer look.Stop()
	stops := time.NewTicker(stopLook)
	defer stops.Stop()
	defer c.all.Wait()
	for {
		names, err := namesLeft(c.box)
		if err != nil {
			return err
		}
		for _, id := range names {
			c.take(ctx, id)
		}
		if len(names) == 0 && c.idle() {
			return nil
		}
		select {
		case <-look.C:
		case <-stops.C:
			c.lookForStops(ctx)
		case got := <-signals:
			if got != syscall.SIGHUP {
				c.lookForStops(ctx)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *carrier) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs) == 0
}

// take begins to carry a run, unless someone does already.
func (c *carrier) take(ctx context.Context, id string) {
	defer os.Remove(filepath.Join(c.box, id)) // whoever waits for it may go now
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[id]; r != nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
		return
	}
	lock, err := c.s.Store.Lock(id)
	if err != nil {
		if !core.IsKind(err, core.Busy) { // else someone was quicker
			c.s.Log.Warn("take over run", "run", id, "err", err)
		}
		return
	}
	r := &carried{stop: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.runs[id] = r
	c.marked.add(id)
	c.all.Go(func() {
		for lock != nil {
			c.carry(ctx, id, r, lock)
			lock = c.letGo(ctx, id)
		}
	})
}

// letGo forgets a run that was carried. Its user may have resumed or stopped it,
// and handed it over, since it was let go of: then it gives a new lock for it.
func (c *carrier) letGo(ctx context.Context, id string) *state.Lock {
	c.mu.Lock()
	defer c.mu.Unlock()
	run, err := c.s.Store.Run(ctx, id)
	if err == nil && !run.State.Final() && run.State != state.SetAside && (run.State != state.Suspended || run.StopAsked) {
		if lock, err := c.s.Store.Lock(id); err == nil {
			return lock
		}
	}
	delete(c.runs, id)
	c.marked.remove(id)
	return nil
}

// carry carries a run to its end. What stands against it may pass: a disk that
// is full, a line that is broken. In the meantime the run has no controller, so
// `bee supervise` tries it at once, except where it cannot read the run's secrets.
func (c *carrier) carry(ctx context.Context, id string, r *carried, lock *state.Lock) {
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		err := core.Caught(func() error { return c.drive(ctx, id, r, wait) })
		lock.Unlock() //nolint:errcheck // it is free in any case
		if err == nil || ctx.Err() != nil {
			return
		}
		again, over := c.rest(ctx, id, r, wait)
		if over {
			return
		}
		if again {
			wait = firstRetry
		}
		if lock, err = c.s.Store.Lock(id); err != nil {
			return // someone has it, or the state directory is gone
		}
	}
}

// rest is the pause before a run is tried again, which ends when that is asked for, or
// another process has brought the run to its end.
func (c *carrier) rest(ctx context.Context, id string, r *carried, wait time.Duration) (asked, over bool) {
	t, look := time.NewTimer(wait), time.NewTicker(stopLook)
	defer t.Stop()
	defer look.Stop()
	for {
		select {
		case <-t.C:
			return false, false
		case <-r.wake:
			return true, false
		case <-look.C:
			run, err := c.s.Store.Run(ctx, id)
			if over := err == nil && run.State.Final() || core.IsKind(err, core.NotFound); over {
				return false, true
			}
		case <-ctx.Done():
			return false, true
		}
	}
}

// controllerLog returns the path of a controller's log in the directory of its run.
func controllerLog(runDir string) string { return filepath.Join(runDir, "controller.log") }

// drive has the run driven once, and tells its log what came of it.
func (c *carrier) drive(ctx context.Context, id string, r *carried, wait time.Duration) error {
	log, err := logfile.Open(controllerLog(c.s.Store.RunDir(id)))
	if err != nil {
		return err
	}
	defer log.Close()
	run, err := c.s.Store.Run(ctx, id)
	if core.IsKind(err, core.NotFound) {
		return nil // it was removed
	}
	sub, serr := control.SubmissionOf(run)
	abandoned := err == nil && serr == nil && sub.InGuest
	if abandoned {
		r.once.Do(func() { close(r.stop) })
	}
	own, one := *c.s.app, *c.s.Controller
	own.stdout, own.stderr = log, log
	one.Log, one.Report = own.log(), newProgress(&own, false).report
	fmt.Fprintf(log, "bee: %s controller of run %s\n", time.Now().Format(time.RFC3339), id) //nolint:errcheck // a full disk must not end the run
	ended, err := one.Drive(ctx, id, r.stop)
	switch {
	case err == nil && abandoned:
		return one.Forget(ctx, ended, control.Leaving{})
	case err == nil:
		own.sayEnding(ctx, ended, c.s)
	default:
		printError(log, err)
		fmt.Fprintf(log, "     It is tried again at %s, and `bee supervise` tries it at once.\n", time.Now().Add(wait).Format("15:04:05")) //nolint:errcheck // a full disk must not end the run
	}
	return err
}

// lookForStops ends the runs that their user wants to end.
func (c *carrier) lookForStops(ctx context.Context) {
	if c.idle() {
		return
	}
	ids, err := c.s.Store.Stopping(ctx)
	if err != nil {
		return // it is looked again soon
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if r := c.runs[id]; r != nil {
			r.once.Do(func() { close(r.stop) })
		}
	}
}
