package runner

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// record is the record of an attempt, with what of it is still to be written. All parts of
// the attempt share it, and its state changes in no other way.
type record struct {
	state.Attempt
	of *controlled
	// changes are those of its state that are to be written.
	changes []event.Event
	answers []state.Request // of which the change is the result
	// lost is the request that declares its site lost, once this controller has read it.
	lost *siteLost
	// declaredLostAsked is when the run's record was last asked for that.
	declaredLostAsked time.Time
}

// owner returns what names the attempt to its site: of an adopted one, the installation that
// began it.
func (rec *record) owner() core.Owner {
	if rec.of.sub.Ticket == submission.Adopted && rec.Lease != nil {
		return rec.Lease.Owner
	}
	return core.Owner{User: rec.of.c.Store.User(), Run: rec.of.run.ID, Attempt: rec.N}
}

// timed runs one phase of the controller's own and notes how long it took.
func (rec *record) timed(ctx context.Context, p core.Phase, do func() error) error {
	begun := time.Now()
	rec.of.c.Report(protocol.Event{Time: begun, Phase: p, Begin: true, Rank: -1})
	err := do()
	rec.Phases[p] += time.Since(begun)
	rec.of.c.Report(protocol.Event{Time: time.Now(), Phase: p, End: true, Rank: -1})
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// blame notes why the attempt ended so.
func (rec *record) blame(out outcome) {
	if out.err != nil {
		rec.Kind, rec.Message, rec.Remedy = core.KindOf(out.err).String(), out.err.Error(), core.Remedy(out.err)
	}
	rec.ExitCode = out.exit
}

// ended notes since when no site has had the run for the attempt, however late that is.
func (rec *record) ended() {
	if !rec.Ended.IsZero() {
		return
	}
	rec.Ended = time.Now()
}

// autostarted reports whether the site may start the attempt by itself.
func (rec *record) autostarted() bool { return rec.Autostart.MayStart() }
