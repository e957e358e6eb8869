package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"golang.org/x/sys/unix"
)

// moved is the outcome of an attempt whose checkpoint is at home.
func (a *attempt) moved(ctx context.Context, r *protocol.Result) (outcome, bool, error) {
	out, is, err := a.continued(ctx, r)
	if err != nil || !is || !out.moved {
		return out, is, err
	}
	attempts, err := a.c.Store.Attempts(ctx, a.run.ID)
	if err != nil {
		return outcome{}, false, err
	}
	before, most := placement.Continued(attempts, a.rec.N), cmp.Or(a.c.maxMoves, placement.MostContinued)
	if before == 0 || before%most != 0 {
		return out, true, nil
	}
	return outcome{state: state.Suspended, suspended: state.ReasonNoProgress, err: &core.Error{
		Kind: core.Permanent, Op: "continue run", Object: a.run.ID,
		Err:    fmt.Errorf("%d attempts in a row have not finished it, expected fewer", before+1),
		Remedy: fmt.Sprintf("Does the job come closer to its end, and are the site's slots long enough? `bee logs %s` shows what the last attempt did; `bee resume %s` continues with %d more.", a.run.ID, a.run.ID, most),
	}}, true, nil
}

// continued is moved without a bound on the number of attempts.
func (a *attempt) continued(ctx context.Context, r *protocol.Result) (outcome, bool, error) {
	if a.sub.Job.Checkpoint == nil || a.stopAsked() {
		return outcome{}, false, nil
	}
	if r.Continue {
		further, err := a.progressed(ctx)
		if err != nil {
			return outcome{}, false, err
		}
		// Without `paths` a log that grew looks like progress.
		a.rec.NoProgress = !further || r.Answer == core.AnswerDied && len(a.sub.Job.Checkpoint.Paths) == 0
		return a.onward(ctx, r)
	}
	if core.KindNamed(r.Kind) != core.Lost || r.Exit != nil {
		return outcome{}, false, nil
	}
	list, err := a.checkpoints().Whole(ctx)
	if err != nil {
		return outcome{}, false, err
	}
	last := 0
	if len(list) > 0 {
		last = list[len(list)-1].Attempt
	}
	further := last == a.rec.N // by a copy that was made while it ran
	if further {
		if further, err = a.progressed(ctx); err != nil {
			return outcome{}, false, err
		}
	}
	a.rec.NoProgress = !further
	attempts, err := a.c.Store.Attempts(ctx, a.run.ID)
	if err != nil {
		return outcome{}, false, err
	}
	lost := placement.LaunchedSince(attempts, a.rec, last)
	switch {
	case last == 0 && (lost > placement.MostLost || !a.rec.CheckpointAsked.IsZero()): // it was asked to save itself, and could not
		return outcome{}, false, nil
	case last == 0:
		return outcome{moved: true, err: errors.New(r.Message + "; the run begins anew, for it has no checkpoint yet")}, true, nil
	case lost > placement.MostLost:
		return outcome{state: state.Suspended, suspended: state.ReasonLostTooOften, err: &core.Error{
			Kind: core.Lost, Op: "continue from the checkpoint of run", Object: a.run.ID,
			Err:    fmt.Errorf("%d attempts were lost since, the last one so: %s", placement.MostLost, r.Message),
			Remedy: "Its checkpoint is " + a.checkpoints().Text() + ". `bee show " + a.run.ID + "` shows how each was lost; `bee resume " + a.run.ID + "` continues the run.",
		}}, true, nil
	}
	return outcome{moved: true, err: errors.New(r.Message + "; the run goes on from its last checkpoint")}, true, nil
}

// onward is moved's outcome after an attempt that has saved itself. The run waits for its
// user where it goes round in circles.
func (a *attempt) onward(ctx context.Context, r *protocol.Result) (outcome, bool, error) {
	all, err := a.c.Store.Attempts(ctx, a.run.ID)
	if err != nil {
		return outcome{}, false, err
	}
	before := append(slices.DeleteFunc(all, func(rec state.Attempt) bool { return rec.N >= a.rec.N }), a.rec)
	e, reason := &core.Error{Kind: core.Permanent, Op: "continue from the checkpoint of run", Object: a.run.ID}, state.ReasonNoProgress
	switch {
	case placement.Unchanged(before) >= placement.MostUnchanged:
		e.Err = fmt.Errorf("the last %d attempts changed nothing in it", placement.MostUnchanged)
		e.Remedy = "Does the job write its checkpoint on the signal, within `checkpoint.grace`, and does `resume:` read it? Is the site's slot long enough? `bee resume " + a.run.ID + "` continues the run."
	case placement.Short(before) >= placement.MostShort:
		reason = state.ReasonTooShort
		e.Err = fmt.Errorf("the last %d attempts ended within %s each, and asked to be gone on with", placement.MostShort, placement.ShortAttempt)
		e.Remedy = "Exit code 85 means that the job has written its checkpoint, to continue on another site. Does the job use it so? `bee resume " + a.run.ID + "` continues the run."
	default:
		return outcome{moved: true, err: errors.New(a.leftBehind(r) + "; the run continues from there")}, true, nil
	}
	return outcome{state: state.Suspended, suspended: reason, err: e}, true, nil
}

// leftBehind is the text of why a job ended that continues elsewhere, and of what it left.
func (a *attempt) leftBehind(r *protocol.Result) string {
	why := r.Message
	if why == "" { // it was not asked to
		why = fmt.Sprintf("exit code %d", protocol.ContinueCode)
	}
	if r.Answer != core.AnswerDied {
		return why + ": the job has written its checkpoint"
	}
	signal := unix.SignalName(a.sub.Job.Checkpoint.SignalNumber())
	if len(a.sub.Job.Checkpoint.Paths) == 0 {
		return why + ": the job ended by " + signal + "; its volume is kept"
	}
	return why + ": the job ended by " + signal + " and changed no file of `checkpoint.paths`; its volume is kept"
}

// backoff rests before the next attempt where the last ones were short: each costs its
// site a job.
func (d *drive) backoff(ctx context.Context) error {
	attempts, err := d.c.Store.Attempts(ctx, d.run.ID)
	if err != nil {
		return err
	}
	n := placement.Short(attempts)
	pause := placement.Pause(n)
	if pause == 0 {
		return nil
	}
	d.record(ctx, event.Backoff{Attempts: n, Shorter: event.Seconds(placement.ShortAttempt), Pause: event.Seconds(pause)})
	work, cancel := d.untilStop(ctx)
	defer cancel()
	if d.restFor(work, pause) != nil && !d.stopAsked() {
		return context.Cause(ctx)
	}
	return nil
}

// progressed tells whether this attempt's checkpoint differs from the newest of
// the attempts before it in what a checkpoint consists of. A job that only
// writes the same again would go round for ever.
func (a *attempt) progressed(ctx context.Context) (bool, error) {
	list, err := a.checkpoints().Whole(ctx)
	if err != nil {
		return true, err
	}
	before := slices.DeleteFunc(slices.Clone(list), func(k driver.Checkpoint) bool { return k.Attempt >= a.rec.N })
	files := func(of []driver.Checkpoint) map[string]string {
		return placement.CheckpointFiles(of[len(of)-1].Manifest.Files, &a.sub.Job)
	}
	if len(before) == 0 { // copies that were made meanwhile may have taken their places
		return len(list) == 0 || placement.Fingerprint(files(list)) != a.rec.From, nil
	}
	return !maps.Equal(files(before), files(list)), nil
}
