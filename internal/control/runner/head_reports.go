package runner

import (
	"context"
	"maps"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// headReports are those of the head of an attempt: its events, and its result.
type headReports struct {
	rec *record
	at  *siteLease
	// passed are the phases of the head so far.
	passed   durations
	measured numberFile[measure.Record]
	samples  numberFile[measure.Samples]
	// remarks counts those that went into the history.
	remarks int
}

// handle records an event of the head, and reports it.
func (h *headReports) handle(ctx context.Context, e protocol.Event) error {
	switch {
	case h.mayHaveEffects(e):
		h.rec.on(machinery.TaskBegins)
	case e.Begin && e.Phase == core.PhaseCheckpoint:
		h.rec.on(machinery.CheckpointAsked)
	}
	switch {
	case e.Begin && e.Phase == core.PhaseCheckpoint:
		h.rec.CheckpointAsked = e.Time
	case e.Begin && e.Phase == core.PhaseRun: // it continues, perhaps after it was asked
		h.rec.CheckpointAsked = time.Time{}
	}
	if e.Measured != nil {
		h.measured.add(func(all *measure.Record) bool { return all.Add(h.rec.N, e.Seq, e.Time, measure.Values(*e.Measured)) })
		return nil
	}
	if e.Used != nil {
		h.samples.add(func(all *measure.Samples) bool { return all.Add(h.rec.N, e.Seq, e.Time, measure.Used(*e.Used)) })
		return nil
	}
	h.showProgress(ctx, e)
	if e.Case != nil {
		return h.caseEvent(ctx, e)
	}
	if e.Result != nil && len(h.rec.of.sub.Job.Pack) > 0 {
		if err := h.rec.of.c.Store.Arrays().PausePack(ctx, h.rec.of.run.ID); err != nil {
			return recorded(err)
		}
	}
	if e.SetupDone {
		if err := h.setupDone(ctx); err != nil {
			return err
		}
	}
	if e.Remark {
		h.remark(ctx, e)
	} else {
		h.rec.of.c.Report(e)
	}
	if e.Begin && e.Phase == core.PhaseRun {
		return h.rec.unattended(ctx)
	}
	return nil
}

// showProgress records, for commands that show the run, how far the machines around the
// job's containers are, what has started those, and how long that took. Nothing depends
// on it.
func (h *headReports) showProgress(ctx context.Context, e protocol.Event) {
	switch {
	case e.Begin && e.Phase == core.PhaseRun:
		h.rec.HeadPhases = maps.Clone(h.passed.took)
	case len(e.Runtimes) > 0:
		h.rec.Runtime, h.rec.Starting = e.Runtimes[0], ""
	case e.Waited > 0 && e.Message != h.rec.Starting: // it is reported every few seconds
		h.rec.Starting = e.Message
	case e.Begin && e.Phase == core.PhaseCheckpoint: // the process that asked for it may have got no answer
		h.passed.add(e)
	default:
		h.passed.add(e)
		return
	}
	if err := h.rec.write(ctx, state.Change{}); err != nil {
		h.rec.of.c.Log.Debug("record how the attempt continues", "run", h.rec.of.run.ID, "err", err)
	}
}

// remark records in the run's history what the head wants its user to know, once:
// another controller receives the same event again.
func (h *headReports) remark(ctx context.Context, e protocol.Event) {
	remark := event.Event{Run: h.rec.of.run.ID, Attempt: h.rec.N, Fields: event.Remark{Site: h.at.site.Name, Message: core.Printable(e.Message, event.MaxText)}}
	known, _ := h.rec.of.c.Store.History().Has(ctx, remark) // else it is recorded twice
	if known {
		return
	}
	if h.remarks++; h.remarks > maxRemarks {
		h.rec.of.c.ReportText("", report.Sentence(remark))
		return
	}
	h.rec.event(ctx, remark.Fields)
}

// mayHaveEffects reports whether an event means that the attempt may have done what another
// one could not simply begin again. A run that can continue elsewhere loses nothing with a
// setup that was cut short: its next attempt has a volume without it.
func (h *headReports) mayHaveEffects(e protocol.Event) bool {
	return e.Begin && (e.Phase == core.PhaseRun || e.Phase == core.PhaseSetup && h.rec.of.sub.Job.Checkpoint == nil)
}

func (h *headReports) setupDone(ctx context.Context) error {
	if h.rec.of.run.SetupDone {
		return nil
	}
	h.rec.of.run.SetupDone = true
	return recorded(h.rec.of.c.Store.PutRun(ctx, h.rec.of.run))
}

// account adds up the attempt's times that the head reports, once, and where
// the site has started it, what it alone knows.
func (h *headReports) account(ctx context.Context, r *protocol.Result, unseen bool) {
	if h.rec.Nodes == nil {
		most := max(time.Since(h.rec.Started), 0) // a head's word alone must not make an attempt a long one
		for p, took := range r.Phases {
			h.rec.Phases[p] += min(took, most)
		}
	}
	h.rec.Nodes, h.rec.HeadPhases, h.rec.Starting = r.Nodes, nil, ""
	if h.rec.autostarted() && !r.Started.IsZero() {
		h.startedThere(ctx, r, unseen)
	}
	_, is := h.rec.Phases[core.PhaseUnattended]
	switch {
	case is:
	case !h.rec.Ended.IsZero():
		h.rec.Phases[core.PhaseUnattended] = max(0, time.Since(h.rec.Ended))
	case unseen && !r.Ended.IsZero(): // by the clock of the site: no more than what has no name
		h.rec.Phases[core.PhaseUnattended] = max(0, min(time.Since(r.Ended), h.rec.Nameless(time.Now())))
	}
}

// startedThere notes what the site alone knows of an attempt that it has started by itself.
func (h *headReports) startedThere(ctx context.Context, r *protocol.Result, unseen bool) {
	begun := h.rec.Granted
	if h.rec.AutostartAt.After(begun) {
		begun = h.rec.AutostartAt
	}
	h.rec.Phases[core.PhaseLaunch] = max(0, r.Started.Sub(begun))
	if unseen {
		h.rec.event(ctx, event.RanUnattended{Site: h.at.site.Name, Started: r.Started, Ended: r.Ended})
	}
}

// measure notes how long a checkpoint took whose head has ended: from asking for
// it, by the head's clock.
func (h *headReports) measure(r *protocol.Result) {
	if !r.Continue {
		return
	}
	h.rec.Saving = r.Phases[core.PhaseCheckpoint]
	if took := r.Ended.Sub(h.rec.CheckpointAsked); !h.rec.CheckpointAsked.IsZero() && took > h.rec.Saving {
		h.rec.Saving = took
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

// begun reports whether the head's journal says that the user's setup or run
// command was started, and takes note of what that means.
func (h *headReports) begun(ctx context.Context) bool {
	if h.rec.TaskBegan {
		return true
	}
	is := false
	err := h.at.headFiles().Journal(ctx, func(e protocol.Event) bool {
		is = is || e.Result != nil || e.Begin && (e.Phase == core.PhaseSetup || e.Phase == core.PhaseRun)
		h.rec.TaskBegan = h.rec.TaskBegan || h.mayHaveEffects(e)
		return h.rec.TaskBegan
	})
	// Without the journal, assume the worse: that it ran. Only a journal that
	// was never begun means that it did not.
	if err != nil && !core.IsKind(err, core.NotFound) {
		is, h.rec.TaskBegan = true, true
	}
	return is
}
