package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"golang.org/x/sys/unix"
)

// What keeps a run that goes on and on from going round in circles.
const (
	// lostInARow is how many attempts may be lost without a new checkpoint, or with
	// copies that hold nothing new, before a run waits for its user: something is wrong
	// with the sites, or with the job.
	lostInARow = 10
	// idleInARow is how many may end with a checkpoint that is the one before: one
	// that is asked to save itself soon after its start has nothing new.
	idleInARow = 3
	// shortInARow is how many may ask to be gone on with after less than
	// shortAttempt, and firstBreath and longestBreath what the run rests between two
	// such, at first and at most.
	shortInARow   = 10
	shortAttempt  = 5 * time.Second
	firstBreath   = 2 * time.Second
	longestBreath = 5 * time.Minute
	// maxMoves is how many attempts in a row may each be continued by another one,
	// whatever each of them has left: no job needs as many.
	maxMoves = 10_000
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
	before, most := moves(attempts, a.rec.N), cmp.Or(a.c.maxMoves, maxMoves)
	if before == 0 || before%most != 0 {
		return out, true, nil
	}
	return outcome{state: state.Suspended, suspended: state.ReasonNoProgress, err: &core.Error{
		Kind: core.Permanent, Op: "continue run", Object: a.run.ID,
		Err:    fmt.Errorf("%d attempts in a row have not finished it, expected fewer", before+1),
		Remedy: fmt.Sprintf("Does the job come closer to its end, and are the site's slots long enough? `bee logs %s` shows what the last attempt did; `bee resume %s` continues with %d more.", a.run.ID, a.run.ID, most),
	}}, true, nil
}

// moves counts the attempts in a row right before the n-th that were continued, at once or
// after a resume. Attempts that a site did not accept are not counted.
func moves(attempts []state.Attempt, n int) int {
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if rec.N >= n || !rec.Launched() {
			continue
		}
		if !rec.Verdict.Goes() {
			break
		}
		count++
	}
	return count
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
		a.rec.NoProgress = !further || r.Answer == protocol.AnswerDied && len(a.sub.Job.Checkpoint.Paths) == 0
		return a.onward(ctx, r)
	}
	if core.KindNamed(r.Kind) != core.Lost || r.Exit != nil {
		return outcome{}, false, nil
	}
	list, err := a.kept(ctx)
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
	lost, err := a.launchedSince(ctx, last)
	switch {
	case err != nil:
		return outcome{}, false, err
	case last == 0 && (lost > lostInARow || !a.asked.IsZero()): // it was asked to save itself, and could not
		return outcome{}, false, nil
	case last == 0:
		return outcome{moved: true, err: errors.New(r.Message + "; the run begins anew, for it has no checkpoint yet")}, true, nil
	case lost > lostInARow:
		return outcome{state: state.Suspended, suspended: state.ReasonLostTooOften, err: &core.Error{
			Kind: core.Lost, Op: "go on from the checkpoint of run", Object: a.run.ID,
			Err:    fmt.Errorf("%d attempts were lost since, the last one so: %s", lostInARow, r.Message),
			Remedy: "Its checkpoint is " + a.storeText() + ". `bee show " + a.run.ID + "` tells how each was lost; `bee resume " + a.run.ID + "` goes on.",
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
	e, reason := &core.Error{Kind: core.Permanent, Op: "go on from the checkpoint of run", Object: a.run.ID}, state.ReasonNoProgress
	switch {
	case idle(before) >= idleInARow:
		e.Err = fmt.Errorf("the last %d attempts changed nothing in it", idleInARow)
		e.Remedy = "Does the job write its checkpoint on the signal, within `checkpoint.grace`, and does `resume:` read it? Is the site's slot long enough? `bee resume " + a.run.ID + "` goes on."
	case short(before) >= shortInARow:
		reason = state.ReasonTooShort
		e.Err = fmt.Errorf("the last %d attempts ended within %s each, and asked to be gone on with", shortInARow, shortAttempt)
		e.Remedy = "Exit code 85 means that the job has saved itself and wants to go on elsewhere: does it mean that? `bee resume " + a.run.ID + "` goes on."
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
	if r.Answer != protocol.AnswerDied {
		return why + ": the job has written its checkpoint"
	}
	signal := unix.SignalName(a.sub.Job.Checkpoint.SignalNumber())
	if len(a.sub.Job.Checkpoint.Paths) == 0 {
		return why + ": the job ended by " + signal + "; its volume is kept"
	}
	return why + ": the job ended by " + signal + " and changed no file of `checkpoint.paths`; its volume is kept"
}

// idle counts the attempts that left the checkpoint as it was, since one that did not.
func idle(attempts []state.Attempt) int {
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if rec.Result == state.Checkpointed && !rec.NoProgress {
			break
		}
		if rec.NoProgress && !rec.Lost() {
			count++
		}
	}
	return count
}

// short counts the attempts at the end of a row that saved themselves soon.
func short(attempts []state.Attempt) int {
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if !rec.Launched() { // a site that did not take it says nothing
			continue
		}
		if rec.Result != state.Checkpointed || rec.Phases[protocol.PhaseRun] >= shortAttempt {
			break
		}
		count++
	}
	return count
}

// breathe rests before the next attempt where the last ones were short: each costs its
// site a job.
func (d *drive) breathe(ctx context.Context) error {
	attempts, err := d.c.Store.Attempts(ctx, d.run.ID)
	if err != nil {
		return err
	}
	n := short(attempts)
	if n < 2 {
		return nil
	}
	pause := min(firstBreath<<(n-2), longestBreath)
	d.record(ctx, event.Backoff{Attempts: n, Shorter: event.Seconds(shortAttempt), Pause: event.Seconds(pause)})
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
	list, err := a.kept(ctx)
	if err != nil {
		return true, err
	}
	before := slices.DeleteFunc(slices.Clone(list), func(k driver.Checkpoint) bool { return k.Attempt >= a.rec.N })
	files := func(of []driver.Checkpoint) map[string]string { return only(of[len(of)-1].Manifest.Files, &a.sub.Job) }
	if len(before) == 0 { // copies that were made meanwhile may have taken their places
		return len(list) == 0 || fingerprint(files(list)) != a.rec.From, nil
	}
	return !maps.Equal(files(before), files(list)), nil
}

// fingerprint differs for files that differ.
func fingerprint(files map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%q %s\n", name, files[name]) //nolint:errcheck // a hash takes all
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// launchedSince counts the attempts up to this one that got as far as their hosts since
// the one with the newest checkpoint, or, where all that was kept of that is what it began
// with, since the last one of which more was. Those that a site did not take say nothing.
func (a *attempt) launchedSince(ctx context.Context, n int) (int, error) {
	attempts, err := a.c.Store.Attempts(ctx, a.run.ID)
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if rec.N == a.rec.N {
			rec = a.rec
		}
		if !rec.Launched() {
			continue
		}
		if rec.N <= n && !(rec.NoProgress && rec.Lost()) {
			break
		}
		count++
	}
	return count, err
}
