package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// siteLost is a request to continue without the site of an attempt.
type siteLost struct {
	request int64
	// Sites, if there are any, are those on which the run continues, in that order.
	Sites []spec.Site
	// stop is set where the run ends, and does not continue elsewhere.
	stop bool
}

// declaredLostLook is how often the run's record is asked for requests of its user about a
// site that does not answer: less often than the site, which may be looked at for days.
const declaredLostLook = 30 * time.Second

// declaredLost reports whether the run's user has declared this attempt's site lost: the
// run shall not wait for it.
func (rec *record) declaredLost(ctx context.Context) bool {
	if rec.lost != nil {
		return true
	}
	if !rec.declaredLostAsked.IsZero() && time.Since(rec.declaredLostAsked) < cmp.Or(rec.of.c.requestLook, declaredLostLook) {
		return false
	}
	rec.declaredLostAsked = time.Now()
	r, err := rec.of.c.Store.Requests().Open(ctx, rec.of.run.ID, state.RequestSiteLost)
	if err != nil || r == nil || r.Attempt != rec.N {
		return false
	}
	s := siteLost{request: r.ID}
	if len(r.Sites) > 0 && json.Unmarshal(r.Sites, &s.Sites) != nil {
		return false
	}
	run, err := rec.of.c.Store.Run(ctx, rec.of.run.ID)
	if err != nil {
		return false
	}
	s.stop = run.StopAsked // which this controller may not have heard yet
	rec.lost = &s
	return true
}

// giveUp leaves behind what an attempt holds on a site that does not answer: one that is
// dispensable, after unreachableLimit, or one that its user has declared lost.
func (a *attempt) giveUp(ctx context.Context) (outcome, error) {
	why, gone := fmt.Sprintf("has not answered for %s, and is given up as lost", unreachableLimit), event.SiteLost{Site: a.rec.Site, Limit: event.Seconds(unreachableLimit)}
	switch {
	case a.rec.lost != nil:
		why, gone.Limit = "does not answer, and was declared lost by the run's user", 0
	case !a.rec.Fenced.IsZero():
		why, gone.Limit = fmt.Sprintf("has not answered for %s, and its hosts were stopped", fenceLimit), event.Seconds(fenceLimit)
	}
	out := outcome{state: state.Stopped, err: errStopped()}
	if !a.stopAsked() && (a.rec.lost == nil || !a.rec.lost.stop) {
		var err error
		if out, err = a.withoutSiteFrom(ctx, why); err != nil {
			return outcome{}, err
		}
	} else if err := withdraw(ctx, a.rec, a.rec.N, 0); err != nil {
		return outcome{}, err
	}
	gone.Loss = a.rec.loss(ctx)
	a.rec.event(ctx, gone)
	a.rec.blame(out)
	a.rec.forsake(out)
	if err := a.rec.put(ctx); err != nil {
		return outcome{}, err
	}
	clearArrivals(&a.sub, a.c.Log, a.run.ID)
	return out, a.releasing.leave(ctx, errors.New("it does not answer"))
}

// withoutSiteFrom is the outcome of an attempt whose site is given up: the run continues
// from its last checkpoint or, where its user wants it to and there is none, from
// its beginning.
func (a *attempt) withoutSiteFrom(ctx context.Context, why string) (outcome, error) {
	if a.rec.lost != nil && len(a.rec.lost.Sites) > 0 {
		if err := a.reroute(ctx, a.rec.lost.Sites, a.rec.Site); err != nil {
			return outcome{}, err
		}
	}
	a.reach.newest = nil // what is done now is not taken back
	whole, err := a.reach.dispensable(ctx)
	if err != nil {
		return outcome{}, err
	}
	message := a.rec.Message
	if message == "" {
		message = "site " + a.rec.Site + " " + why
	}
	out, is, err := a.moved(ctx, &protocol.Result{Continue: a.rec.Result == state.Checkpointed && whole, Kind: core.Lost.String(), Message: message})
	if err != nil {
		return outcome{}, err
	}
	list, err := a.checkpoints().Whole(ctx)
	if err != nil {
		return outcome{}, err
	}
	next := "continues from its checkpoint, which is " + a.checkpoints().Text()
	if len(list) == 0 {
		next = "starts again, as no checkpoint is " + a.checkpoints().Text()
	}
	switch {
	case !is && a.rec.lost == nil: // as dispensable holds: never
		return outcome{}, &core.Error{Kind: core.Transient, Op: "give up site", Object: a.rec.Site, Err: errors.New("there is no checkpoint to continue from"), Remedy: "Wait until the site answers, or `bee stop --site-lost RUN` ends the run."}
	case !is:
		out = outcome{moved: true}
	}
	if out.moved {
		out.err = &core.Error{Kind: core.Lost, Op: "use site", Object: a.rec.Site, Err: fmt.Errorf("it %s; the run %s", why, next), Remedy: core.RemedyShow}
	}
	return out, nil
}

// loss returns what may continue on a site that is given up, and what the run loses
// with it.
func (rec *record) loss(ctx context.Context) event.Loss {
	l := event.Loss{Store: rec.of.sub.Job.Store}
	if !rec.harmless(ctx) {
		l.Computes = true
		for _, h := range rec.Hosts {
			l.Hosts = append(l.Hosts, h.Name)
		}
		if left, bounded := rec.canComputeFor(ctx); bounded {
			l.Until = time.Now().Add(left)
		}
	}
	if list, err := rec.of.checkpoints().Whole(ctx); err != nil {
		l.CheckpointUnknown = true
	} else if len(list) > 0 {
		l.Checkpoint = list[len(list)-1].Manifest.Taken
	}
	return l
}

// Loss returns what may continue on the site of an attempt, and what its run loses, if that
// site is given up.
func (c *Runner) Loss(ctx context.Context, run state.Run, last state.Attempt) (event.Loss, error) {
	sub, err := submission.Of(run)
	if err != nil {
		return event.Loss{}, err
	}
	r := control(c, run, sub)
	defer r.checkpoints().Close()
	return (&record{of: r, Attempt: last}).loss(ctx), nil
}
