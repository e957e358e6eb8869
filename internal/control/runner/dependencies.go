package runner

import (
	"cmp"
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// How often the runs are looked at that another one waits for, at first and later.
const (
	firstLookAtDependencies   = 100 * time.Millisecond
	longestLookAtDependencies = 2 * time.Second
)

// awaitDependencies waits until the runs have ended that the run is to begin after. Where it
// cannot begin, out is its end.
func awaitDependencies(ctx context.Context, d *drive) (out outcome, begins bool, err error) {
	if len(d.sub.After) == 0 && !d.sub.Array.Limited() {
		return outcome{}, true, nil
	}
	work, cancel := d.untilStop(ctx)
	defer cancel()
	pause := fsutil.Backoff{First: firstLookAtDependencies, Longest: longestLookAtDependencies}
	for {
		waits, err := dependency(work, d)
		turn := true
		if err == nil && waits == nil {
			turn, err = hasTurn(work, d)
		}
		stopped, ended := false, false
		if err == nil && turn { // it is read after what may have given it the turn
			stopped, err = stoppedByArray(work, d)
		}
		if err == nil {
			out, ended, err = endedByArray(work, d) // likewise
		}
		switch {
		case ended:
			return out, false, nil
		case d.stopAsked() || stopped:
			return outcome{state: state.Stopped, err: errStopped()}, false, nil
		case ctx.Err() != nil:
			return outcome{}, false, context.Cause(ctx)
		case core.IsKind(err, core.Permanent):
			return outcome{state: state.Failed, err: err}, false, nil
		case err != nil:
			return outcome{}, false, err
		case waits == nil && turn:
			return outcome{}, true, nil
		case waits == nil:
			d.recordLast(ctx, d.sub.Array.Full())
		default:
			d.recordLast(ctx, event.Dependency{Other: waits.Run, Name: waits.Name, On: waits.On, Array: waits.Array})
		}
		core.Pause(work, pause.Next()) // why it ends is looked at next
	}
}

// dependency returns the first run that has not ended; nil: the run may begin. An error of
// kind Permanent means that it never can.
func dependency(ctx context.Context, d *drive) (waits *submission.Dependency, err error) {
	for i := range d.sub.After {
		dep := &d.sub.After[i]
		other, ended, err := dep.Look(ctx, d.c.Store)
		switch {
		case core.IsKind(err, core.NotFound):
			return nil, dep.Never(d.run.ID, "was removed")
		case err != nil:
			return nil, err
		case !other.Final():
			waits = cmp.Or(waits, dep)
			continue
		case !dep.Met(other):
			return nil, dep.Never(d.run.ID, string(other))
		}
		if ended.After(d.asked) { // since then it asks for a site
			d.asked = ended
		}
	}
	if now := time.Now(); d.asked.After(now) {
		d.asked = now
	}
	return waits, nil
}
