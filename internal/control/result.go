package control

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// handleEvent records an event of the head, and reports it.
func (a *attempt) handleEvent(ctx context.Context, e protocol.Event) error {
	switch {
	case a.mayHaveEffects(e):
		a.rec.on(machinery.TaskBegins)
	case e.Begin && e.Phase == core.PhaseCheckpoint:
		a.rec.on(machinery.CheckpointAsked)
	}
	switch {
	case e.Begin && e.Phase == core.PhaseCheckpoint:
		a.rec.CheckpointAsked = e.Time
	case e.Begin && e.Phase == core.PhaseRun: // it continues, perhaps after it was asked
		a.rec.CheckpointAsked = time.Time{}
	}
	a.showProgress(ctx, e)
	if e.SetupDone {
		if err := a.setupDone(ctx); err != nil {
			return err
		}
	}
	if e.Remark {
		a.remark(ctx, e)
	} else {
		a.c.Report(e)
	}
	return nil
}

// showProgress records, for commands that show the run, how far the machines around the
// job's containers are, what has started those, and how long that took. Nothing depends
// on it.
func (a *attempt) showProgress(ctx context.Context, e protocol.Event) {
	switch {
	case e.Begin && e.Phase == core.PhaseRun:
		a.rec.HeadPhases = maps.Clone(a.passed.took)
	case len(e.Runtimes) > 0:
		a.rec.Runtime, a.rec.Starting = e.Runtimes[0], ""
	case e.Waited > 0 && e.Message != a.rec.Starting: // it is reported every few seconds
		a.rec.Starting = e.Message
	case e.Begin && e.Phase == core.PhaseCheckpoint: // the process that asked for it may have got no answer
		a.passed.add(e)
	default:
		a.passed.add(e)
		return
	}
	if err := a.rec.write(ctx, false); err != nil {
		a.c.Log.Debug("record how the attempt continues", "run", a.run.ID, "err", err)
	}
}

// durations are those of the phases that a head's events bound.
type durations struct {
	begun map[core.Phase]time.Time
	took  map[core.Phase]time.Duration
}

func (d *durations) add(e protocol.Event) {
	if d.took == nil {
		d.begun, d.took = map[core.Phase]time.Time{}, map[core.Phase]time.Duration{}
	}
	if since, ok := d.begun[e.Phase]; ok && e.End {
		d.took[e.Phase] += e.Time.Sub(since)
		delete(d.begun, e.Phase)
	}
	if e.Begin {
		d.begun[e.Phase] = e.Time
	}
}

// maxRemarks is how many remarks of one attempt's head go into the history.
const maxRemarks = 100

// remark records in the run's history what the head wants its user to know, once:
// another controller receives the same event again.
func (a *attempt) remark(ctx context.Context, e protocol.Event) {
	remark := event.Event{Run: a.run.ID, Attempt: a.rec.N, Fields: event.Remark{Site: a.at.site.Name, Message: core.Printable(e.Message, event.MaxText)}}
	known, _ := a.c.Store.HasEvent(ctx, remark) // else it is recorded twice
	if known {
		return
	}
	if a.remarks++; a.remarks > maxRemarks {
		a.c.say("", report.Sentence(remark))
		return
	}
	a.rec.event(ctx, remark.Fields)
}

// mayHaveEffects reports whether an event means that the attempt may have done what another
// one could not simply begin again. A run that can continue elsewhere loses nothing with a
// setup that was cut short: its next attempt has a volume without it.
func (a *attempt) mayHaveEffects(e protocol.Event) bool {
	return e.Begin && (e.Phase == core.PhaseRun || e.Phase == core.PhaseSetup && a.sub.Job.Checkpoint == nil)
}

func (a *attempt) setupDone(ctx context.Context) error {
	if a.run.SetupDone {
		return nil
	}
	a.run.SetupDone = true
	return recorded(a.c.Store.PutRun(ctx, a.run))
}

// unreadError is the error where a head may have left a result, which cannot be read now
// for a reason on the submitting machine. Whatever it is, the attempt is not to be given up.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return e.err.Error() }

// lastResult reads the result of a head that is gone, or returns why where there
// is none. Neither: it is not known now, as the connection is broken. To take that
// for a lost attempt would throw away the checkpoint that it left.
func (a *attempt) lastResult(ctx context.Context, why error, after *int64) (*protocol.Result, error) {
	result, err := a.left(ctx, after)
	if err == nil {
		return result, nil
	}
	_, torn := errors.AsType[*json.SyntaxError](err)
	switch kind := core.KindOf(err); {
	case errors.As(err, new(headlink.InvalidReport)):
		return nil, err
	case kind == core.NotFound || kind == core.Lost || torn:
		if a.rec.autostarted() {
			a.catchUp(ctx, after)
		}
		return nil, why
	case kind == core.Transient || ctx.Err() != nil:
		return nil, nil //nolint:nilnil // see above
	}
	return nil, &unreadError{err}
}

// left gives the result that a head has left, and takes note of what happened
// after the events that this controller has seen.
func (a *attempt) left(ctx context.Context, after *int64) (*protocol.Result, error) {
	result, err := a.at.headFiles().Result(ctx)
	if err != nil {
		return nil, err
	}
	if result.SetupDone {
		err = a.setupDone(ctx)
	}
	a.unseen = *after == 0
	a.catchUp(ctx, after)
	a.lastSeen = result.Ended
	return result, err
}

// catchUp takes note of the events in the journal of a head that has ended.
func (a *attempt) catchUp(ctx context.Context, after *int64) {
	err := a.at.headFiles().Journal(ctx, func(e protocol.Event) bool {
		a.lastSeen = e.Time
		if e.Seq > *after {
			*after = e.Seq
			a.handleEvent(ctx, e) //nolint:errcheck // a record that cannot be written is noticed by the next
		}
		return false
	})
	if err != nil && !core.IsKind(err, core.NotFound) {
		a.rec.TaskBegan = true // as far as is known
	}
}

// showRest prints the rest of the task's output, which the head has not sent: it ends
// when it has a result, perhaps before it has sent all. A short attempt that its
// site has started may be over before any controller connects.
func (a *attempt) showRest(ctx context.Context) {
	if a.c.Output == nil {
		return
	}
	log := OutputLog(a.c.Store.RunDir(a.run.ID), a.rec.N)
	tasklog.Read(ctx, log, a.shown, a.c.Output) //nolint:errcheck // `bee logs` shows it, or says why not
}

// account adds up the attempt's times that the head reports, once, and where
// the site has started it, what it alone knows.
func (a *attempt) account(ctx context.Context, r *protocol.Result) {
	if a.rec.Nodes == nil {
		most := max(time.Since(a.rec.Started), 0) // a head's word alone must not make an attempt a long one
		for p, took := range r.Phases {
			a.rec.Phases[p] += min(took, most)
		}
	}
	a.rec.Nodes, a.rec.HeadPhases, a.rec.Starting = r.Nodes, nil, ""
	if _, is := a.rec.Phases[core.PhaseUnattended]; !is && !a.rec.Ended.IsZero() {
		a.rec.Phases[core.PhaseUnattended] = max(0, time.Since(a.rec.Ended))
	}
	if !a.rec.autostarted() || r.Started.IsZero() {
		return
	}
	begun := a.rec.Granted
	if a.rec.AutostartAt.After(begun) {
		begun = a.rec.AutostartAt
	}
	a.rec.Phases[core.PhaseLaunch] = max(0, r.Started.Sub(begun))
	if a.unseen {
		a.rec.event(ctx, event.RanUnattended{Site: a.at.site.Name, Started: r.Started, Ended: r.Ended})
	}
}

// measure notes how long a checkpoint took whose head has ended: from asking for
// it, by the head's clock.
func (a *attempt) measure(r *protocol.Result) {
	if !r.Continue {
		return
	}
	a.rec.Saving = r.Phases[core.PhaseCheckpoint]
	if took := r.Ended.Sub(a.rec.CheckpointAsked); !a.rec.CheckpointAsked.IsZero() && took > a.rec.Saving {
		a.rec.Saving = took
	}
}
