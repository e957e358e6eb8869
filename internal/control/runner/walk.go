package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// How long the walk rests when no site could take the run, at first and at
// most, and for how long it continues to ask for a run that has a checkpoint.
const (
	firstRest   = 30 * time.Second
	longestRest = 15 * time.Minute
	// The same where it waits for other runs of its user.
	firstLookAtRuns, longestLookAtRuns = time.Second, 5 * time.Second
	defaultWait                        = 24 * time.Hour
)

// passed is a site that could not take the run, and why.
type passed struct {
	site string
	err  error
}

// walker takes a run through its sites.
type walker struct{ d *drive }

// beginAfter sets the site where the walk begins after the last attempt of an earlier
// controller. It reports whether there is another attempt.
func (w walker) beginAfter(ctx context.Context, last state.Attempt, out outcome) bool {
	switch {
	case out.moved:
		if w.d.moved = true; last.Ended.IsZero() { // else it was over for an earlier controller
			w.d.asked = time.Now()
		}
		w.d.first, w.d.movedFrom = w.follower(last.Site), last.Site
	case w.tryAgain(ctx, out):
		w.d.first = w.place(last.Site)
	case out.next:
		w.d.first = w.follower(last.Site)
		if len(w.d.sub.Sites) > 1 || candidate.Missed(out.err) {
			w.d.recordOf(ctx, last.N, skipped(last.Site, out.err))
		}
	default:
		return out.again
	}
	return true
}

// walk takes the run's sites in order, round after round, until one of them
// brings it to an end: Algorithm 1 of the BEE paper (J. Chen et al., "BEE:
// Build and Execution Environment", 2018), with rests in between.
func (w walker) walk(ctx context.Context) (outcome, error) {
	pause := fsutil.Backoff{First: firstRest, Longest: longestRest, Exact: true}
	for {
		out, none, err := w.round(ctx)
		if err != nil || none == nil {
			return out, err
		}
		if !w.worthAsking(ctx, none) {
			return w.noSite(none), nil
		}
		w.d.releaseBefore(ctx)
		if stopped, err := w.rest(ctx, none, pause.Next()); err != nil || stopped {
			return outcome{state: state.Stopped, err: errStopped()}, err
		}
		w.d.first = 0
	}
}

// round asks every site once, from the first one of this walk on. It gives what
// became of the run, or why no site has taken it.
func (w walker) round(ctx context.Context) (outcome, []passed, error) {
	if _, err := moveRequests(w).apply(ctx, ""); err != nil {
		return outcome{}, nil, err
	}
	sites, none := w.ordered(ctx), []passed{}
	for at := w.d.first; len(none) < len(sites); {
		site := sites[at%len(sites)]
		w.d.why = w.reason(site, none)
		out, err := w.try(ctx, site)
		if err != nil {
			return outcome{}, nil, err
		}
		sent := false
		if out.moved { // an attempt takes its time
			w.d.unsent = time.Time{}
		}
		if out.moved || out.next {
			if sent, err = moveRequests(w).apply(ctx, site.Name); err != nil {
				return outcome{}, nil, err
			}
		}
		switch {
		case out.moved: // all sites are open to it again
			w.d.moved, w.d.movedFrom, w.d.asked, none = true, site.Name, time.Now(), []passed{}
			sites, at = w.ordered(ctx), w.follower(site.Name)
			if err := w.d.backoff(ctx); err != nil {
				return outcome{}, nil, err
			}
			continue
		case w.tryAgain(ctx, out):
			none = []passed{}
			continue
		case !out.next:
			return out, nil, nil
		case sent:
			sites, at, none = w.ordered(ctx), 0, []passed{}
			continue
		}
		none = append(none, passed{site.Name, out.err})
		if len(sites) > 1 {
			skip := skipped(site.Name, out.err)
			w.d.recordOnce(ctx, event.Key(skip), skip)
		}
		at++
	}
	return outcome{}, none, nil
}

// try makes an attempt on a site, if its size and its slot are any use.
func (w walker) try(ctx context.Context, site spec.Site) (outcome, error) {
	if err := cmp.Or(placement.CheckSize(site, &w.d.sub.Job), placement.CheckSlot(site, &w.d.sub.Job), placement.CheckVolume(site, &w.d.sub.Job)); err != nil {
		return w.d.siteFailed(ctx, err)
	}
	return w.d.attempt(ctx, site)
}

// tryAgain reports whether a run whose own command failed gets another attempt,
// and counts it.
func (w walker) tryAgain(ctx context.Context, out outcome) bool {
	if !triesAgain(w.d.controlled, out) {
		return false
	}
	w.d.retries++
	w.d.record(ctx, event.Retry{Cause: event.CauseOf(out.err), Retry: w.d.retries, Of: w.d.sub.Job.Retry})
	return true
}

// triesAgain reports whether the run is tried again after its command has failed.
func triesAgain(r *controlled, out outcome) bool {
	return out.state == state.Failed && out.exit != nil && *out.exit != 0 && r.retries < r.sub.Job.Retry && !r.stopAsked()
}

// worthAsking reports whether it is worth asking again later.
func (w walker) worthAsking(ctx context.Context, none []passed) bool {
	if waitsForRuns(none) {
		return true
	}
	if slices.ContainsFunc(none, func(p passed) bool { return candidate.Missed(p.err) }) && w.d.missedBefore(ctx) < missedInARow {
		return true
	}
	wait := w.d.sub.Job.Wait
	if wait == 0 && w.d.moved {
		wait = defaultWait
	}
	return time.Since(w.d.asked) < wait && slices.ContainsFunc(none, func(p passed) bool { return core.KindOf(p.err) != core.Unsupported })
}

// rest waits before the next round.
func (w walker) rest(ctx context.Context, none []passed, pause time.Duration) (stopped bool, err error) {
	why := event.NoSite{}
	for _, p := range none {
		why.Sites = append(why.Sites, event.Skip(skipped(p.site, p.err)))
	}
	key := event.Key(why)
	if waitsForRuns(none) {
		pause = min(pause/(firstRest/firstLookAtRuns), longestLookAtRuns) // a product would overflow
	} else {
		why.Until = time.Now().Add(pause)
	}
	w.d.recordOnce(ctx, key, why)
	if w.d.run.State != state.Queued {
		w.d.run.State = state.Queued
		if err := w.d.c.Store.PutRun(ctx, w.d.run); err != nil {
			return false, err
		}
	}
	work, cancel := w.d.untilStop(ctx)
	defer cancel()
	if moveRequests(w).wait(work, pause) == nil {
		return false, nil
	}
	if w.d.stopAsked() {
		return true, nil
	}
	return false, context.Cause(ctx)
}

func whyNone(none []passed) string {
	reasons := make([]string, len(none))
	for i, p := range none {
		reasons[i] = p.site + ": " + event.SiteCause(p.site, p.err).Message
	}
	return strings.Join(reasons, "; ")
}

// skipped is the event of a site that was not used.
func skipped(site string, err error) event.SiteSkipped {
	return event.SiteSkipped{Site: site, Cause: event.SiteCause(site, err)}
}

// noSite is the outcome of a walk that found no site.
func (w walker) noSite(none []passed) outcome {
	last := none[len(none)-1].err
	e := &core.Error{
		Kind: core.KindOf(last), Op: "find a site for", Object: w.d.run.Name,
		Err: errors.New("none can take the run now: " + whyNone(none)), Remedy: core.Remedy(last),
	}
	switch {
	case w.d.moved: // what it has done is not given up
		e.Remedy = "`bee resume " + w.d.run.ID + "` continues the run, on another site with --site."
		if list, err := w.d.c.Checkpoints(w.d.during, w.d.run.ID); err == nil && len(list) > 0 {
			e.Remedy = "Its checkpoint is " + w.d.checkpoints().Text() + ". `bee resume " + w.d.run.ID + "` continues from it, on another site with --site."
		}
		if remedy := core.Remedy(last); remedy != "" {
			e.Remedy = remedy + " " + e.Remedy
		}
		return outcome{state: state.Suspended, suspended: state.ReasonNoSite, err: e}
	case len(w.d.sub.Sites) == 1:
		return outcome{state: state.Failed, err: last}
	}
	return outcome{state: state.Failed, err: e}
}

// follower is the place of the site at which a run continues that was moved from
// another: in order of priority, the one after it.
func (w walker) follower(name string) int {
	if !w.d.sub.Listed() {
		return 0
	}
	return (w.place(name) + 1) % len(w.d.sub.Sites)
}

func (w walker) place(name string) int {
	return max(0, slices.IndexFunc(w.d.sub.Sites, func(s spec.Site) bool { return s.Name == name }))
}

// reason says why a site is tried, for people.
func (w walker) reason(site spec.Site, none []passed) string {
	switch {
	case len(w.d.sub.Sites) == 1:
		return "the only site"
	case len(none) > 0:
		names := make([]string, len(none))
		for i, p := range none {
			names[i] = p.site
		}
		return "after " + strings.Join(names, ", ")
	case w.d.sub.Job.Order == spec.OrderCheapest && site.AsksPrice() && site.Price.Amount == 0:
		return "the first whose price is not known"
	case w.d.sub.Job.Order == spec.OrderCheapest:
		return fmt.Sprintf("the cheapest, %s for each host and hour", site.Price)
	case w.d.sub.Job.Order == spec.OrderSoonest:
		return "the soonest"
	case w.d.movedFrom != "":
		return "the next after " + w.d.movedFrom
	}
	return "the first in order of priority"
}

// ordered gives the sites in the order in which the job wants them tried now.
func (w walker) ordered(ctx context.Context) []spec.Site {
	var starts []candidate.Forecast
	switch w.d.sub.Job.Order {
	case spec.OrderSoonest:
		starts = w.d.c.Forecasts(ctx, &w.d.sub, w.d.run.ID)
	case spec.OrderCheapest:
		starts = w.d.c.prices(ctx, &w.d.sub, w.d.run.ID)
	}
	sites, priced := make([]spec.Site, 0, len(w.d.sub.Sites)), w.d.sub.Priced(starts)
	for _, i := range w.d.sub.Order(starts) {
		sites = append(sites, priced[i])
	}
	if at := slices.IndexFunc(sites, func(s spec.Site) bool { return s.Name == w.d.avoid }); at >= 0 {
		last := sites[at]
		sites = append(slices.Delete(sites, at, at+1), last)
		w.d.avoid = ""
	}
	return sites
}

// waitsForRuns reports whether the run waits for other runs of its user at some site.
func waitsForRuns(none []passed) bool {
	return slices.ContainsFunc(none, func(p passed) bool { return errors.As(p.err, new(candidate.OccupiedError)) })
}
