package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// moveRequests are what the run's user asks of a run that looks for a site: to have others.
type moveRequests struct{ d *drive }

// sites gives the sites that the run's user has sent it to; sent without any: to any but
// the one that has it.
func (m moveRequests) sites(ctx context.Context) (sites []spec.Site, sent bool, err error) {
	if !m.d.unsent.IsZero() && time.Since(m.d.unsent) < requestLookAgain {
		return nil, false, nil
	}
	r, err := m.d.c.Store.Requests().Open(ctx, m.d.run.ID, state.RequestMove)
	if err != nil {
		return nil, false, err
	}
	if r == nil {
		m.d.unsent = time.Now()
		return nil, false, nil
	}
	if over, err := m.overtaken(ctx, *r); err != nil {
		return nil, false, err
	} else if over {
		return nil, false, m.d.c.Store.Requests().Answer(ctx, r.ID, state.RequestOvertaken, "")
	}
	if len(r.Sites) > 0 {
		if err := json.Unmarshal(r.Sites, &sites); err != nil {
			return nil, false, m.d.c.Store.Requests().Answer(ctx, r.ID, state.RequestRefused, err.Error())
		}
	}
	m.d.asksMove = r.ID
	return sites, true, nil
}

// overtaken reports whether a request means an attempt that is over, and that ran: the one
// after it was not meant. A run that looks for a site is meant by any of its attempts.
func (m moveRequests) overtaken(ctx context.Context, r state.Request) (bool, error) {
	if r.Attempt == 0 || r.Attempt >= m.d.attempts {
		return false, nil
	}
	attempts, err := m.d.c.Store.Attempts(ctx, m.d.run.ID)
	return slices.ContainsFunc(attempts, func(a state.Attempt) bool { return a.N == r.Attempt && a.Launched() }), err
}

// sentElsewhere reports whether the user has sent the run to other sites while it waited.
func (d *drive) sentElsewhere(ctx context.Context) bool {
	sites, _, err := moveRequests{d}.sites(ctx)
	return err == nil && len(sites) > 0
}

// apply puts the sites first that the run's user has sent it to, if any, and the one
// that it comes from last.
func (m moveRequests) apply(ctx context.Context, from string) (bool, error) {
	sites, sent, err := m.sites(ctx)
	if err != nil || !sent {
		return false, err
	}
	if len(sites) == 0 {
		m.d.avoid = launch.First(from, m.d.movedFrom) // the one that an earlier controller had seen it leave
		m.d.record(ctx, event.MoveRequested{From: m.d.avoid})
	} else {
		m.d.record(ctx, event.MoveRequested{Sites: submission.SiteNames(sites)})
		if err := m.d.reroute(ctx, sites, from); err != nil {
			return false, err
		}
	}
	m.d.first = 0
	return true, recorded(m.d.c.Store.Requests().Answer(ctx, m.d.asksMove, state.RequestDone, ""))
}

// reroute has the run continue on the sites that its user names before all others, and
// on the one that it comes from last.
func (r *controlled) reroute(ctx context.Context, sites []spec.Site, from string) error {
	r.sub.Prefer(sites)
	if at := slices.IndexFunc(r.sub.Sites, func(s spec.Site) bool { return s.Name == from }); at >= 0 {
		last := r.sub.Sites[at]
		r.sub.Sites = append(slices.Delete(r.sub.Sites, at, at+1), last)
	}
	raw, err := json.Marshal(r.sub)
	if err != nil {
		return err
	}
	r.run.Submission = raw
	return recorded(r.c.Store.PutRun(ctx, r.run))
}

// requestLook is how often it is looked whether the user of a run that waits has sent it
// to another site. With the time between two looks at a queue that is within a minute.
const requestLook = 45 * time.Second

// requestLookAgain is for how long the last answer counts that there is no such request: a
// round of the walk asks after every site.
const requestLookAgain = time.Second

func (c *Runner) lookForRequests() time.Duration { return cmp.Or(c.requestLook, requestLook) }

// wait rests, unless the run's user sends it to another site meanwhile.
func (m moveRequests) wait(ctx context.Context, pause time.Duration) error {
	for end := time.Now().Add(pause); ; {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if err := core.Sleep(ctx, min(left, m.d.c.lookForRequests())); err != nil {
			return err
		}
		if m.d.sentElsewhere(ctx) {
			return nil
		}
	}
}
