package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// SendElsewhere notes, in its user's name, that a run which waits for hosts shall
// have them on other sites, in that order, before those that it has. The Drive that
// waits takes it out of its queue; where it has begun there
// meanwhile, it stays, and goes to these sites when it moves. Invalid: it does not
// wait, or waits for the first of them.
func (c *Controller) SendElsewhere(ctx context.Context, run state.Run, sites []spec.Site) error {
	refuse := func(why, remedy string) error {
		return &core.Error{Kind: core.Invalid, Op: "send elsewhere the run", Object: run.ID, Err: errors.New(why), Remedy: remedy}
	}
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	if run.State.Final() {
		return refuse("it is over ("+string(run.State)+")", "`bee show "+run.ID+"` shows how it ended.")
	}
	if n := len(attempts); n > 0 && !attempts[n-1].Released() {
		switch last := attempts[n-1]; {
		case last.Launched():
			return refuse("it runs on site "+last.Site, "`bee move "+run.ID+"` has a job that can write a checkpoint do so, and continue elsewhere. Where that site is gone for good, `bee resume --site-lost "+run.ID+"` continues the run without it.")
		case last.Site == sites[0].Name:
			return refuse("it waits for site "+last.Site+" already", "Name another with --site.")
		}
	}
	_, err = requests{c.Store}.ask(ctx, run.ID, attempts, state.RequestMove, sites)
	return err
}

// Move has a run continue on other sites, in that order, before those that it has; none: on
// the next. ask has the job of an attempt write a checkpoint and end, see requests.askHead.
func (c *Controller) Move(ctx context.Context, run state.Run, attempt int, sites []spec.Site, ask func() error) error {
	sub, err := SubmissionOf(run)
	if err != nil {
		return err
	}
	if len(sites) == 0 && sub.listed() { // it continues on the next by itself
		return requests{c.Store}.askHead(ctx, run, attempt, ask)
	}
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	if n := len(attempts); n > 0 && !attempts[n-1].Released() && len(sites) > 0 && attempts[n-1].Site == sites[0].Name {
		return &core.Error{Kind: core.Invalid, Op: "move run", Object: run.ID, Err: errors.New("it runs on site " + sites[0].Name + " already"), Remedy: "Name another with --site."}
	}
	// Recorded first: the job may write its checkpoint and end before the next line.
	_, err = requests{c.Store}.askOf(ctx, run, attempt, state.RequestMove, sites, ask)
	return err
}

// Checkpoint has a run write a checkpoint now. ask asks the head of an attempt for it: see
// AskHead.
func (c *Controller) Checkpoint(ctx context.Context, run state.Run, attempt int, ask func() error) error {
	r, err := requests{c.Store}.askOf(ctx, run, attempt, state.RequestCheckpoint, nil, ask)
	if err != nil {
		return err
	}
	return c.Store.Requests().Answer(context.WithoutCancel(ctx), r.ID, state.RequestDone, "")
}

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
		m.d.record(ctx, event.MoveRequested{Sites: siteNames(sites)})
		if err := m.d.reroute(ctx, sites, from); err != nil {
			return false, err
		}
	}
	m.d.first = 0
	return true, recorded(m.d.c.Store.Requests().Answer(ctx, m.d.asksMove, state.RequestDone, ""))
}

func siteNames(sites []spec.Site) []string {
	names := make([]string, len(sites))
	for i, s := range sites {
		names[i] = s.Name
	}
	return names
}

// reroute has the run continue on the sites that its user names before all others, and
// on the one that it comes from last.
func (r *controlled) reroute(ctx context.Context, sites []spec.Site, from string) error {
	r.sub.prefer(sites)
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

// prefer puts sites before those of a submission, which stay known: something may
// be left there. The user's order counts from then on.
func (s *Submission) prefer(sites []spec.Site) {
	for _, old := range s.Sites {
		if !slices.ContainsFunc(sites, func(n spec.Site) bool { return n.Name == old.Name }) {
			sites = append(sites, old)
		}
	}
	s.Sites, s.Job.Order = sites, spec.OrderListed
}

// requestLook is how often it is looked whether the user of a run that waits has sent it
// to another site. With the time between two looks at a queue that is within a minute.
const requestLook = 45 * time.Second

// requestLookAgain is for how long it stays known that he has not: a round of the walk asks
// after every site.
const requestLookAgain = time.Second

func (c *Controller) lookForRequests() time.Duration { return cmp.Or(c.requestLook, requestLook) }

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
