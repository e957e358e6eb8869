package runner

import (
	"context"
	"errors"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// reachability is what this controller knows of how the site of an attempt answers, and so
// for how long the run waits for that site.
type reachability struct {
	rec *record
	at  *siteLease
	silence
	// newest is the newest checkpoint that its store was known to have when it was listed,
	// for who asks at each look at a site that does not answer.
	newest *driver.Generation
	listed time.Time
	// gone is why the lease was not there when it was looked for; nil: it was, or the site has no reason.
	gone error
	// ends is a later end of the hosts' time, which is still to be sent to the head; zero:
	// none. A head that never receives it ends sooner.
	ends time.Time
}

// silence is since when a site has not answered. None of it is on record: only the time in
// which this controller has looked without success counts, and another one may have got an
// answer before.
type silence struct {
	// suspended is set while the site itself has the hosts suspended. No time counts then.
	suspended bool
	// silent is since when there has been no connection to the head, and unneeded since when
	// the site has not answered while the run can continue without it; zero: it answers.
	silent, unneeded time.Time
	reported         waitReport
	// fenced is when the site was last asked to stop the hosts.
	fenced time.Time
	// unanswered is for how long the site has answered without a break while its hosts have not, and looked when it last did.
	unanswered time.Duration
	looked     time.Time
}

// waitReport is what the run's history says of a wait for a site.
type waitReport int

// The reports, each after the one before.
const (
	waitUnreported waitReport = iota
	waitReported
	overReported // with the time limit over: nothing computes there any more
)

// away reports whether the site does not answer.
func (s *silence) away() bool { return !s.silent.IsZero() || !s.unneeded.IsZero() }

// longestBetweenLooks bounds the time between two looks that counts. More has passed where this process was stopped.
const longestBetweenLooks = 2 * time.Minute

// hostsSilent notes a look at hosts that do not answer. answers is set where their site does: without it, the
// connection of this machine may be broken.
func (s *silence) hostsSilent(answers bool) {
	now := time.Now()
	switch {
	case !answers:
		s.unanswered, s.looked = 0, time.Time{}
		return
	case !s.looked.IsZero():
		s.unanswered += min(now.Sub(s.looked), longestBetweenLooks)
	}
	s.looked = now
}

// news reports whether a wait for the site belongs in the history. over is set once the time
// limit is over.
func (s *silence) news(over bool) bool {
	return s.reported == waitUnreported || over && s.reported == waitReported
}

// report notes that the history has a wait.
func (s *silence) report(over bool) {
	if s.reported = waitReported; over {
		s.reported = overReported
	}
}

// unreachable notes that the site does not answer, at one of the two times.
func (r *reachability) unreachable(since *time.Time) {
	if !r.away() {
		r.rec.on(machinery.Unreachable)
	}
	if since.IsZero() {
		*since = time.Now()
	}
}

// reachable notes that the site answers.
func (r *reachability) reachable() {
	if r.away() {
		r.rec.on(machinery.Reachable)
	}
	r.silence = silence{suspended: r.suspended}
}

// recover finds the attempt's lease again, if it is still there. Where the run can
// continue without a site that does not answer, recover waits for that site at most for
// unreachableLimit; lost reports that this time is over, or that the site is declared lost.
func (r *reachability) recover(ctx context.Context, connected func(driver.Lease)) (lost bool, err error) {
	begun := time.Now()
	pause := fsutil.Backoff{First: firstLook, Longest: laterLook, Exact: true}
	for {
		r.at.lease, err = r.at.provider.Recover(ctx, *r.rec.Lease)
		if err == nil || core.IsKind(err, core.NotFound) {
			connected(r.at.lease)
			if err != nil && !r.rec.Decided() {
				r.gone, r.rec.HostsEnd = err, core.HostsEndOf(err)
			}
			if r.at.lease == nil || err != nil {
				return false, nil
			}
			if err := core.CheckHosts(r.at.lease.Hosts(), r.rec.of.sub.Job.Hosts(), nil); err != nil { // what is there is released by its owner
				r.rec.event(ctx, event.SiteInvalid{Site: r.at.site.Name, Cause: event.CauseOf(err)})
				r.at.lease = nil
			} else if len(r.at.lease.Hosts()) == 0 && !r.queued() { // it was half made
				r.at.lease = nil
			}
			return false, nil
		}
		r.at.lease = nil
		if r.rec.Decided() || ctx.Err() != nil {
			return false, err
		}
		if r.rec.declaredLost(ctx) {
			return true, nil
		}
		if is, derr := r.dispensable(ctx); !unsure(derr, begun) {
			if !is || derr != nil {
				return false, errors.Join(err, derr)
			}
			if lost, terr := r.overdue(ctx, err); lost || terr != nil {
				return lost, terr
			}
		}
		if serr := pause.Wait(ctx); serr != nil {
			return false, serr
		}
	}
}

// queued reports whether the attempt waits in a queue from which its hosts are still to come.
func (r *reachability) queued() bool {
	return r.rec.State == state.InQueue && !r.rec.autostarted() && r.at.lease.Queue() != nil
}

// waitForSite calls bring, which collects something, until that succeeds or fails for
// another reason than that the site does not answer. Where the run can continue without
// what is left there, the wait is limited; errAway: the limit is over, or the site is
// declared lost.
func (r *reachability) waitForSite(ctx context.Context, bring func() error) error {
	begun := time.Now()
	pause := fsutil.Backoff{First: firstLook, Longest: laterLook, Exact: true}
	for {
		err := bring()
		if err == nil || ctx.Err() != nil || !unreached(err) { // what is wrong may be here
			return err
		}
		_, serr := r.at.lease.Status(ctx)
		if serr == nil {
			return err
		}
		if r.rec.declaredLost(ctx) {
			return errAway
		}
		if is, derr := r.dispensable(ctx); !unsure(derr, begun) {
			if !is || derr != nil {
				return errors.Join(err, derr)
			}
			if lost, terr := r.overdue(ctx, serr); terr != nil {
				return terr
			} else if lost {
				return errAway
			}
		}
		if serr := pause.Wait(ctx); serr != nil {
			return serr
		}
	}
}
