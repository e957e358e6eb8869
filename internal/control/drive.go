package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// outcome is what one attempt means for its run.
type outcome struct {
	// next asks for the run's next site: the user's command never ran here.
	next bool
	// again asks for a new attempt on the same site, likewise.
	again bool
	// moved asks for a further attempt that goes on from the checkpoint which
	// this one has left at home.
	moved bool
	state state.RunState
	exit  *int
	err   error // why, where exit is nil
	where string
}

// Drive carries a run to its end, whatever an earlier controller did of it
// already. The caller holds the run's lock. Closing stop ends the run cleanly;
// cancelling ctx only ends the controlling, and the run's nodes go on.
//
// An error means that the run is not over and another Drive has to follow;
// a run that failed is no error.
func (c *Controller) Drive(ctx context.Context, id string, stop <-chan struct{}) (state.Run, error) {
	run, err := c.Store.Run(ctx, id)
	if err != nil {
		return run, err
	}
	sub, err := SubmissionOf(run)
	if err != nil && !run.State.Final() {
		return c.finish(ctx, run, outcome{state: state.Failed, err: err})
	}
	if err != nil {
		return run, err
	}
	if run.StopAsked {
		closed := make(chan struct{})
		close(closed)
		stop = closed
	}
	attempts, err := c.Store.Attempts(ctx, id)
	if err != nil {
		return run, err
	}
	d := &drive{c: c, run: run, sub: sub, stop: stop, attempts: len(attempts)}
	for _, rec := range attempts {
		d.moved = d.moved || rec.Moved
	}
	if run.State == state.Suspended && !run.StopAsked { // until it is resumed
		return run, nil
	}
	if run.State.Final() {
		for _, rec := range attempts {
			if !rec.Released {
				err = errors.Join(err, d.cleanUp(ctx, rec))
			}
		}
		return run, err
	}
	if n := len(attempts); n > 0 && !attempts[n-1].Released {
		out, err := d.adopt(ctx, attempts[n-1])
		if err != nil {
			return d.run, err
		}
		if !out.next && !out.again && !out.moved {
			return c.finish(ctx, d.run, out)
		}
		if out.moved {
			d.first = d.after(attempts[n-1].Site)
		}
	}
	out, err := d.walk(ctx)
	if err != nil {
		return d.run, err
	}
	return c.finish(ctx, d.run, out)
}

// drive is the carrying out of one run by this controller.
type drive struct {
	c        *Controller
	run      state.Run
	sub      Submission
	stop     <-chan struct{}
	attempts int         // made so far
	first    int         // of the sites, where the walk begins
	moved    bool        // an attempt has left a checkpoint
	image    *core.Image // once it is there
	// imageTook is how long the image took to get, before the first
	// attempt of this controller; it counts as that attempt's.
	imageTook time.Duration
}

// walk takes the run's sites in order until one of them brings it to an end.
func (d *drive) walk(ctx context.Context) (outcome, error) {
	var passed []string
	pass := func(site spec.Site, why error) {
		passed = append(passed, fmt.Sprintf("%s: %v", site.Name, why))
		if len(d.sub.Sites) == 1 {
			return
		}
		d.note(ctx, fmt.Sprintf("passing over site %s: %v", site.Name, why))
	}
	var last error
	for tried, at := 0, d.first; tried < len(d.sub.Sites); at++ {
		site := d.sub.Sites[at%len(d.sub.Sites)]
		out, err := d.attempt(ctx, site)
		if err != nil {
			return outcome{}, err
		}
		switch {
		case out.moved: // all sites are open to it again, the next one first
			tried, passed, d.moved = 0, nil, true
			continue
		case !out.next:
			return out, nil
		}
		pass(site, out.err)
		last = out.err
		tried++
	}
	if d.moved { // what it has done is not given up
		return outcome{state: state.Suspended, err: &core.Error{Kind: core.KindOf(last), Op: "find a site for", Object: d.run.Name,
			Err:    errors.New("none can take the run now: " + strings.Join(passed, "; ")),
			Remedy: "Its checkpoint is at home. `bee resume " + d.run.ID + "` goes on from it, on another site with --site."}}, nil
	}
	if len(d.sub.Sites) == 1 {
		return outcome{state: state.Failed, err: last}, nil
	}
	return outcome{state: state.Failed, err: &core.Error{Kind: core.KindOf(last), Op: "find a site for", Object: d.run.Name,
		Err:    errors.New("none can take the run now: " + strings.Join(passed, "; ")),
		Remedy: core.Remedy(last)}}, nil
}

// after is the place of the site that follows one in order of priority.
func (d *drive) after(name string) int {
	for i, s := range d.sub.Sites {
		if s.Name == name {
			return (i + 1) % len(d.sub.Sites)
		}
	}
	return 0
}

// getImage makes sure, once, that the job's image is in the cache.
func (d *drive) getImage(ctx context.Context) error {
	if d.image != nil {
		return nil
	}
	begun := time.Now()
	image, err := d.c.Images.Resolve(ctx, &d.sub.Job, wantArch(nil), d.sub.Pull, d.progress(protocol.PhaseImage))
	if err != nil {
		return err
	}
	d.imageTook = time.Since(begun)
	d.image, d.run.Image = &image, image.ID
	return d.c.Store.PutRun(ctx, d.run)
}

// failed is the outcome of an error before or outside the task.
func (d *drive) failed(ctx context.Context, err error) (outcome, error) {
	if d.stopAsked() {
		return outcome{state: state.Stopped, err: errStopped()}, nil
	}
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	return outcome{state: state.Failed, err: err}, nil
}

// passable tells whether the next site may do better.
func passable(err error) bool {
	switch core.KindOf(err) {
	case core.Unsupported, core.Transient, core.Busy, core.Lost:
		return true
	}
	return false
}

func errStopped() error {
	return &core.Error{Kind: core.Stopped, Err: errors.New("stopped by its user")}
}

func (d *drive) stopAsked() bool {
	select {
	case <-d.stop:
		return true
	default:
		return false
	}
}

// untilStop gives a context that also ends when the user asks for a stop.
func (d *drive) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-d.stop:
			cancel(errStopped())
		case <-work.Done():
		}
	}()
	return work, func() { cancel(nil) }
}

func (d *drive) progress(p protocol.Phase) func(string, int64, int64) {
	return func(message string, done, total int64) {
		d.c.Report(protocol.Event{Time: time.Now(), Phase: p, Rank: -1, Message: message, Done: done, Total: total})
	}
}

// finish writes the run's end.
func (c *Controller) finish(ctx context.Context, run state.Run, out outcome) (state.Run, error) {
	run.State, run.ExitCode = out.state, out.exit
	if out.state.Final() {
		run.Ended = time.Now()
	}
	if out.err != nil {
		run.Kind, run.Message, run.Remedy = core.KindOf(out.err).String(), out.err.Error(), core.Remedy(out.err)
	}
	return run, c.Store.PutRun(context.WithoutCancel(ctx), run)
}
