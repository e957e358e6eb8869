package head

import (
	"context"
	"sync"
	"time"
)

// ending is when and why an attempt ends.
type ending struct {
	over   context.Context // ends when the attempt shall end, with the reason
	finish context.CancelCauseFunc
	// early ends when the site takes its hosts back before the task's grace is over.
	early context.Context
	cut   context.CancelFunc

	mu     sync.Mutex
	grace  time.Duration // that the task has then
	faulty string        // the host at fault
}

func newEnding(grace time.Duration) *ending {
	e := &ending{grace: grace}
	e.over, e.finish = context.WithCancelCause(context.Background())
	e.early, e.cut = context.WithCancel(context.Background())
	return e
}

// stop ends the attempt for a reason. The first reason counts.
func (e *ending) stop(why error, grace time.Duration) {
	e.mu.Lock()
	e.grace = grace
	e.mu.Unlock()
	e.finish(why)
}

// takenBack ends the attempt for a reason, and leaves the task that much grace. Where the attempt ends already, the task
// has no more than that from now on.
func (e *ending) takenBack(why error, grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over.Err() == nil {
		e.grace = grace
		e.finish(why)
		return
	}
	e.grace = min(e.grace, grace)
	time.AfterFunc(grace, e.cut)
}

// rest is ctx for what has its grace once the attempt ends: only the loss of the hosts ends it.
func (e *ending) rest(ctx context.Context) (context.Context, context.CancelFunc) {
	rest, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(e.early, cancel)
	return rest, func() { stop(); cancel() }
}

// fail ends the attempt because of a host.
func (e *ending) fail(host string, why error) {
	e.mu.Lock()
	if e.faulty == "" {
		e.faulty = host
	}
	e.mu.Unlock()
	e.finish(why)
}

// blame records the host at fault, where none is known and the attempt does not end for
// another reason.
func (e *ending) blame(host string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.faulty == "" && e.over.Err() == nil {
		e.faulty = host
	}
}

// host names the host at fault; "": none is.
func (e *ending) host() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.faulty
}

// graceNow is the grace of the task.
func (e *ending) graceNow() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.grace
}
