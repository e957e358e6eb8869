// Package progress decides what the end of an attempt means for a run with checkpoints: it
// continues elsewhere, or waits for its user as it makes no progress. It reads records and
// checkpoints, and changes neither.
package progress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"golang.org/x/sys/unix"
)

// Attempt is one that has ended.
type Attempt struct {
	Run    string
	Job    *spec.Job      // which is interruptible
	Record *state.Attempt // whose NoProgress is set
	Kept   *retention.Checkpoints
	// Attempts lists those of the run.
	Attempts func(ctx context.Context) ([]state.Attempt, error)
	Most     int // attempts in a row, in place of placement.MostContinued; 0: that
}

// Continuation is what becomes of the run: another attempt, or it is suspended.
type Continuation struct {
	Moved     bool
	Suspended state.SuspendReason // where it is not
	Err       error               // why
}

// Continue reports what the result of an attempt means; nil: the run does not continue by it.
func (a *Attempt) Continue(ctx context.Context, r *protocol.Result) (*Continuation, error) {
	if !r.Continue && (core.KindNamed(r.Kind) != core.Lost || r.Exit != nil) {
		return nil, nil // it does not continue
	}
	if a.Job.Checkpoint == nil && (r.Continue || r.SlotEnded) {
		return nil, nil // the next slot would be too short, too
	}
	list, err := a.Kept.Whole(ctx)
	if err != nil {
		return nil, err
	}
	attempts, err := a.Attempts(ctx)
	if err != nil {
		return nil, err
	}
	next := a.continued(r, list, attempts)
	if next == nil || !next.Moved {
		return next, nil
	}
	before, most := placement.Continued(attempts, a.Record.N), cmp.Or(a.Most, placement.MostContinued)
	if before == 0 || before%most != 0 {
		return next, nil
	}
	return &Continuation{Suspended: state.ReasonNoProgress, Err: &core.Error{
		Kind: core.Permanent, Op: "continue run", Object: a.Run,
		Err:    fmt.Errorf("%d attempts in a row have not finished it, expected fewer", before+1),
		Remedy: fmt.Sprintf("Does the job come closer to its end, and are the site's slots long enough? `bee logs %s` shows what the last attempt did; `bee resume %s` continues with %d more.", a.Run, a.Run, most),
	}}, nil
}

// continued is Continue without a bound on the number of attempts, for the checkpoints and
// the attempts of the run.
func (a *Attempt) continued(r *protocol.Result, list []driver.Checkpoint, attempts []state.Attempt) *Continuation {
	if r.Continue {
		// Without `paths` a log that grew looks like progress.
		a.Record.NoProgress = !a.progressed(list) || r.Answer == core.AnswerDied && len(a.Job.Checkpoint.Paths) == 0
		return a.onward(r, attempts)
	}
	last := 0
	if len(list) > 0 {
		last = list[len(list)-1].Attempt
	}
	further := last == a.Record.N && a.progressed(list) // by a copy that was made while it ran
	a.Record.NoProgress = !further
	lost := placement.LaunchedSince(attempts, *a.Record, last)
	switch {
	case last == 0 && (lost > placement.MostLost || !a.Record.CheckpointAsked.IsZero()): // it was asked for a checkpoint, and could not write it
		return nil
	case a.Job.Checkpoint == nil:
		return &Continuation{Moved: true, Err: errors.New(r.Message + "; the run starts again (`restarts`)")}
	case last == 0:
		return &Continuation{Moved: true, Err: errors.New(r.Message + "; the run starts again, as it has no checkpoint yet")}
	case lost > placement.MostLost:
		return &Continuation{Suspended: state.ReasonLostTooOften, Err: &core.Error{
			Kind: core.Lost, Op: "continue from the checkpoint of run", Object: a.Run,
			Err:    fmt.Errorf("%d attempts were lost since, the last one so: %s", placement.MostLost, r.Message),
			Remedy: "Its checkpoint is " + a.Kept.Text() + ". `bee show " + a.Run + "` shows how each was lost; `bee resume " + a.Run + "` continues the run.",
		}}
	}
	return &Continuation{Moved: true, Err: errors.New(r.Message + "; the run continues from its last checkpoint")}
}

// onward is the continuation after an attempt that has written a checkpoint. The run waits
// for its user where it makes no progress.
func (a *Attempt) onward(r *protocol.Result, attempts []state.Attempt) *Continuation {
	before := append(slices.DeleteFunc(slices.Clone(attempts), func(rec state.Attempt) bool { return rec.N >= a.Record.N }), *a.Record)
	e, reason := &core.Error{Kind: core.Permanent, Op: "continue from the checkpoint of run", Object: a.Run}, state.ReasonNoProgress
	switch {
	case placement.Unchanged(before) >= placement.MostUnchanged:
		e.Err = fmt.Errorf("the last %d attempts changed nothing in it", placement.MostUnchanged)
		e.Remedy = "Does the job write its checkpoint on the signal, within `checkpoint.grace`, and does `resume:` read it? Is the site's slot long enough? `bee resume " + a.Run + "` continues the run."
	case placement.Short(before) >= placement.MostShort:
		reason = state.ReasonTooShort
		e.Err = fmt.Errorf("the last %d attempts ended within %s each, and asked to be continued", placement.MostShort, placement.ShortAttempt)
		e.Remedy = "Exit code 85 means that the job has written its checkpoint, to continue on another site. Does the job use it so? `bee resume " + a.Run + "` continues the run."
	default:
		return &Continuation{Moved: true, Err: errors.New(LeftBehind(a.Job, r) + "; the run continues from there")}
	}
	return &Continuation{Suspended: reason, Err: e}
}

// LeftBehind is the text of why a job ended that continues elsewhere, and of what it left.
func LeftBehind(job *spec.Job, r *protocol.Result) string {
	why := r.Message
	if why == "" { // it was not asked to
		why = fmt.Sprintf("exit code %d", protocol.ContinueCode)
	}
	if r.Answer != core.AnswerDied {
		return why + ": the job has written its checkpoint"
	}
	signal := unix.SignalName(job.Checkpoint.SignalNumber())
	if len(job.Checkpoint.Paths) == 0 {
		return why + ": the job ended by " + signal + "; its volume is kept"
	}
	return why + ": the job ended by " + signal + " and changed no file of `checkpoint.paths`; its volume is kept"
}

// progressed reports whether this attempt's checkpoint differs from the newest of
// the attempts before it in what a checkpoint consists of. A job that only
// writes the same again would be continued without end.
func (a *Attempt) progressed(list []driver.Checkpoint) bool {
	before := slices.DeleteFunc(slices.Clone(list), func(k driver.Checkpoint) bool { return k.Attempt >= a.Record.N })
	files := func(of []driver.Checkpoint) map[string]string {
		return placement.CheckpointFiles(of[len(of)-1].Manifest.Files, a.Job)
	}
	if len(before) == 0 { // copies that were made meanwhile may have taken their places
		return len(list) == 0 || placement.Fingerprint(files(list)) != a.Record.From
	}
	return !maps.Equal(files(before), files(list))
}
