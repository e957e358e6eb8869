package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/state"
)

// A site may stop answering for good while it still holds something of a run:
// when the run may go on without it, and how what is left behind there is given
// back once it answers again.

// awayPatience is for how long a site that does not answer is waited for when
// only outputs and logs of an attempt that has ended are left there, and the run
// can go on from a checkpoint at home.
const awayPatience = 5 * time.Minute

// unanswered goes on with an attempt of another controller's whose site does
// not answer, where that is safe: where nothing of it can compute there, and
// nothing is there that the run needs.
func (a *attempt) unanswered(ctx context.Context, cause error) (outcome, error) {
	wait := func(why string) (outcome, error) {
		a.note(ctx, fmt.Sprintf("site %s does not answer (%v); the run waits for it, as %s", a.site.Name, oneLine(cause), why))
		return outcome{}, fmt.Errorf("recover site %s: %w", a.site.Name, cause)
	}
	switch {
	case a.entrusted() && !a.rec.Launched:
		return wait("it may start the job there by itself")
	case a.rec.Fetched || a.rec.GivenUp: // only the release is left
		return a.letGoUnanswered(ctx, a.remembered(), cause)
	case !a.rec.Launched && a.stopAsked():
		return a.letGoUnanswered(ctx, outcome{state: state.Stopped, err: errStopped()}, cause)
	case !a.rec.Launched: // nothing has ever run there
		return a.letGoUnanswered(ctx, outcome{again: true}, cause)
	case a.rec.Over && a.rec.Saved:
		return wait("what the job has saved is not all at home")
	case a.rec.Over:
		return wait("the job has ended, and its outputs are there")
	}
	return wait("the job may still run there")
}

// letGoUnanswered lets go of an attempt whose site is known not to answer.
func (a *attempt) letGoUnanswered(ctx context.Context, out outcome, cause error) (outcome, error) {
	if a.harmless() {
		return out, a.leave(ctx, cause)
	}
	return out, a.letGo(ctx, out)
}

// errAway is why an attempt is not followed any more that is dispensable.
var errAway = errors.New("the site has not answered for too long") //nolint:gochecknoglobals // a constant

// tooLong tells whether a site that does not answer has not done so for so long
// that the run goes on without it. It never is where the run needs what is
// there; an error tells that it cannot be told, or that the run has to wait.
func (a *attempt) tooLong(ctx context.Context, cause error) (bool, error) {
	is, err := a.dispensable(ctx)
	if !is || err != nil {
		return false, err
	}
	return a.overdue(ctx, cause)
}

// overdue is tooLong for an attempt that is known to be dispensable.
func (a *attempt) overdue(ctx context.Context, cause error) (bool, error) {
	if a.away.IsZero() {
		a.away = time.Now()
		a.note(ctx, fmt.Sprintf("site %s does not answer (%v); the job has ended there, and its checkpoint is %s: if the site does not answer until %s (for %s), the run goes on without what the attempt has printed, and its other outputs",
			a.site.Name, oneLine(cause), a.storeText(), time.Now().Add(awayPatience).Format("15:04:05"), awayPatience))
	}
	if time.Since(a.away) < awayPatience {
		return false, nil
	}
	return true, a.wholeAtHome(ctx)
}

// wholeAtHome fails where the copy at home of what the attempt has saved is
// damaged: the only good one is on its site then. A store elsewhere is trusted.
func (a *attempt) wholeAtHome(ctx context.Context) error {
	if !a.rec.Saved || a.sub.Job.Store != "" {
		return nil
	}
	list, err := a.kept(ctx)
	if err == nil && (len(list) == 0 || !list[len(list)-1].Undamaged()) {
		err = &core.Error{Kind: core.Transient, Op: "go on without site", Object: a.site.Name, Err: errors.New("the checkpoint at home is damaged, and the only good copy is there")}
	}
	return err
}

// dispensable tells whether the attempt has ended, and all that the run needs of
// it to go on is at home.
func (a *attempt) dispensable(ctx context.Context) (bool, error) {
	saved := a.rec.Saved
	if !a.rec.Over || a.rec.ExitCode != nil || a.sub.Job.Checkpoint == nil || !saved && !a.rec.Moved && a.rec.Kind != core.Lost.String() {
		return false, nil
	}
	list, err := a.kept(ctx)
	if err != nil || len(list) == 0 {
		return false, err
	}
	newest := list[len(list)-1]
	return !saved || newest.Attempt == a.rec.N && newest.Snapshot == 0, nil
}

// giveUp leaves behind what an attempt that is dispensable holds on a site which
// has not answered for too long.
func (a *attempt) giveUp(ctx context.Context) (outcome, error) {
	out := outcome{state: state.Stopped, err: errStopped()}
	if !a.stopAsked() {
		on, is, err := a.moved(ctx, &protocol.Result{Continue: a.rec.Saved, Kind: core.Lost.String(), Message: a.rec.Message})
		if err != nil {
			return outcome{}, err
		}
		if !is { // as dispensable holds: never
			return outcome{}, &core.Error{Kind: core.Transient, Op: "give up site", Object: a.site.Name, Err: errors.New("there is no checkpoint to go on from")}
		}
		if out = on; out.moved {
			out.err = &core.Error{Kind: core.Lost, Op: "use site", Object: a.site.Name,
				Err: fmt.Errorf("it has not answered for %s; the run goes on from its checkpoint, which is %s", awayPatience, a.storeText())}
		}
	}
	a.note(ctx, fmt.Sprintf("site %s has not answered for %s and is given up as lost; what attempt %d has left there is removed once it answers", a.site.Name, awayPatience, a.rec.N))
	a.blame(out)
	a.rec.GivenUp, a.rec.Moved = true, goesOn(out)
	if err := a.put(ctx); err != nil {
		return outcome{}, err
	}
	return out, a.leave(ctx, errors.New("it does not answer"))
}

// oneLine is an error as it stands in a history.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// goesOn tells whether a run goes on after an outcome, by itself or once its
// user resumes it.
func goesOn(out outcome) bool { return out.moved || out.state == state.Suspended }

// harmless tells whether nothing of the attempt can compute on its site any
// more, released or not.
func (a *attempt) harmless() bool {
	return a.rec.Over || !a.rec.Launched && !a.entrusted()
}

// leave leaves what could not be released on its site. It is tried again while
// this controller carries the run on, and by later ones.
func (a *attempt) leave(ctx context.Context, why error) error {
	safe := "it has been tried for long enough"
	if a.harmless() {
		safe = "nothing of the run computes there, so that it is not waited for"
	}
	a.note(ctx, fmt.Sprintf("warning: site %s could not be cleaned up now (%v); %s; it is tried again later", a.site.Name, oneLine(why), safe))
	if a.rec.ReleaseTried = time.Now(); a.rec.Ended.IsZero() { // since then no site has the run, whoever tries again
		a.rec.Ended = a.rec.ReleaseTried
	}
	if err := a.put(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	a.releaseLater(a.rec)
	return nil
}

// releaseLater tries to release what an attempt has left behind, now and then,
// until this controller is done with the run.
func (d *drive) releaseLater(rec state.Attempt) {
	d.behind.Go(func() {
		for pause := firstRest; sleep(d.during, pause) == nil; pause = min(2*pause, longestRest) {
			ctx, cancel := context.WithTimeout(d.during, releaseTimeout)
			err := d.cleanUp(ctx, rec)
			cancel()
			if err == nil {
				d.note(d.during, fmt.Sprintf("site %s answers again; what attempt %d had left there is removed", rec.Site, rec.N))
				return
			}
			d.c.Log.Debug("what was left behind is still there", "run", d.run.ID, "site", rec.Site, "err", err)
		}
	})
}
