package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// unattended reports that the run needs no controller, which may end this one.
func (rec *record) unattended(ctx context.Context) error {
	if rec.of.c.Unattended == nil {
		return nil
	}
	rec.of.c.Unattended()
	return context.Cause(ctx)
}

// reachedFromElsewhere returns an error where other machines could not continue what a run
// with a ticket does on a site.
func reachedFromElsewhere(r *controlled, site spec.Site, provider driver.Provider) error {
	if r.sub.Ticket == "" || provider.Foreign() != nil {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site.Name,
		Err:    fmt.Errorf("the run has a ticket, and no other machine can continue it on a site of provider %q", site.Provider),
		Remedy: "Name a site of provider ssh, or of provider slurm with `login`.",
	}
}

// Adopter is this installation as the one that controls a run.
func (c *Runner) Adopter() driver.Adopter {
	machine, err := os.Hostname()
	if err != nil {
		machine = "a machine without a name"
	}
	return driver.Adopter{Installation: c.Store.User(), Machine: machine}
}

// ErrAdopted is the error where another installation controls the run by its ticket.
var ErrAdopted = errors.New("another machine controls it by its ticket")

// AdoptedBy is the error of a run that another installation controls.
func AdoptedBy(run string, by driver.Adopter, remedy string) error {
	return &core.Error{
		Kind: core.Busy, Op: "continue run", Object: run, Remedy: remedy,
		Err: fmt.Errorf("%w: %q, since %s", ErrAdopted, core.Printable(by.Machine, 80), by.Since.UTC().Format("2006-01-02 15:04:05 UTC")),
	}
}

// ticketed is an attempt of a run that other installations can continue by a ticket.
type ticketed struct{ a *attempt }

// controlledElsewhere puts this installation on record at the attempt's site. is means that
// another one is there, or that the site has nothing of the run any more since the run was
// sealed. Then the outcome is what that means for the run here.
func (t ticketed) controlledElsewhere(ctx context.Context, gone bool) (out outcome, is bool, err error) {
	if gone {
		if t.a.sub.Ticket != submission.Sealed {
			return out, false, nil
		}
		out = outcome{state: state.Failed, err: &core.Error{
			Kind: core.Lost, Op: "continue run", Object: t.a.run.ID,
			Err:    fmt.Errorf("site %s has nothing of it any more: another machine has fetched it by its ticket, or the site has ended it", t.a.at.site.Name),
			Remedy: "Look for its outputs there. If no machine has them, submit it again.",
		}}
		t.a.rec.blame(out)
		return out, true, t.closed(ctx, out)
	}
	as, own := t.a.at.lease.Adopters(), t.a.c.Adopter()
	if as == nil {
		return out, false, nil
	}
	by, err := as.Adopt(ctx, own, "")
	if err != nil {
		return out, false, err
	}
	if by.Installation == own.Installation {
		if t.a.sub.Ticket == submission.Adopted {
			return out, false, nil
		}
		if t.a.sub.Ticket = submission.Adopted; t.a.rec.Launched() {
			t.a.run.State = state.Running
		}
		if t.a.run.Submission, err = t.a.sub.Encode(); err != nil {
			return out, false, err
		}
		return out, false, recorded(t.a.c.Store.PutRun(ctx, t.a.run))
	}
	out = outcome{state: state.Suspended, suspended: state.ReasonTicket, err: AdoptedBy(t.a.run.ID, by, "Follow it there; here, `bee stop "+t.a.run.ID+"` gives it up.")}
	if !t.a.stopAsked() {
		return out, true, nil
	}
	out = outcome{state: state.Stopped, err: AdoptedBy(t.a.run.ID, by, "Follow it there: this machine has given it up.")}
	return out, true, t.closed(ctx, out)
}

// replacedLook is how often the controller of an adopted run looks whether it was replaced.
const replacedLook = time.Minute

// untilReplaced returns a context that also ends where another installation has adopted the run
// in place of this one, as it was taken for lost. The cause is ErrAdopted then.
func (t ticketed) untilReplaced(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancelCause(ctx)
	if t.a.sub.Ticket == submission.Adopted && t.a.at.lease != nil {
		go t.a.guard(func() {
			for core.Sleep(work, replacedLook) == nil {
				if err := t.notReplaced(work); err != nil {
					cancel(err)
				}
			}
		})
	}
	return work, func() { cancel(nil) }
}

// notReplaced returns ErrAdopted where the site says that another installation controls the run
// in place of this one.
func (t ticketed) notReplaced(ctx context.Context) error {
	if by, err := t.a.rec.replaced(ctx, t.a.at.lease); err == nil && by.Installation != "" {
		return AdoptedBy(t.a.run.ID, by, "Follow it there.")
	}
	return nil
}

// replaced returns the installation that controls an adopted run in place of this one.
func (rec *record) replaced(ctx context.Context, lease driver.Lease) (driver.Adopter, error) {
	if rec.of.sub.Ticket != submission.Adopted || lease == nil {
		return driver.Adopter{}, nil
	}
	return driver.AdoptedElsewhere(ctx, lease, rec.of.c.Store.User())
}

// closed records that nothing of the attempt is this installation's any more.
func (t ticketed) closed(ctx context.Context, out outcome) error {
	t.a.rec.decide(out)
	t.a.rec.on(machinery.Released)
	t.a.rec.ended()
	return t.a.rec.put(ctx)
}
