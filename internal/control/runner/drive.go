package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	guestimage "github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// outcome is what one attempt means for its run.
type outcome struct {
	// next asks for the run's next site: the user's command never ran here.
	next bool
	// again asks for a new attempt on the same site, likewise.
	again bool
	// moved asks for a further attempt that continues from the checkpoint which
	// this one has left in the run's store.
	moved bool
	state state.RunState
	// by is the event by which the attempt ended; "": the usual one.
	by machinery.Event
	// suspended is why, in that state.
	suspended state.SuspendReason
	exit      *int
	err       error // why, where exit is nil
}

// Drive carries a run to its end, whatever an earlier controller did of it
// already. The caller holds the run's lock. Closing stop ends the run cleanly;
// cancelling ctx only ends the controller, and the run's nodes continue.
//
// An error means that the run is not over and another Drive has to follow;
// a run that failed is no error.
//
// A panic ends this run's controller alone: see setAside.
func (c *Runner) Drive(ctx context.Context, id string, stop <-chan struct{}) (state.Run, error) {
	run, err := c.Store.Run(ctx, id)
	if err != nil {
		return run, err
	}
	if !run.StopAsked {
		if run, err = c.ApplyResume(ctx, run); err != nil {
			return run, err
		}
	}
	if run.State == state.SetAside {
		return c.driveAside(ctx, run)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var driven state.Run
	err = core.Caught(func() (err error) { driven, err = c.drive(ctx, run, stop, fail); return err })
	if p := poison(ctx, err); p != nil {
		return c.setAside(ctx, id, p)
	}
	return driven, err
}

// drive is Drive for a run that is not set aside. fail ends it with a panic of another
// goroutine.
func (c *Runner) drive(ctx context.Context, run state.Run, stop <-chan struct{}, fail context.CancelCauseFunc) (state.Run, error) {
	id := run.ID
	sub, err := submission.Of(run)
	if err != nil && !run.State.Final() && !core.IsKind(err, core.Unsupported) { // else it is that of another bee, which can
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
	if err := readable(attempts); err != nil && !run.State.Final() {
		return run, err
	}
	if err := c.understands(run, attempts); err != nil {
		return run, err
	}
	r := control(c, run, sub)
	r.stop, r.fail, r.continued = stop, fail, len(attempts) > 0
	d := &drive{controlled: r, attempts: len(attempts), asked: run.Created}
	defer d.checkpoints().Close()
	defer d.disconnect()
	during, done := context.WithCancel(ctx)
	d.during = during
	defer func() { done(); d.behind.Wait() }()
	countEarlier(ctx, d, attempts)
	if run.Suspended == state.ReasonTicket && !run.StopAsked { // its attempt computes
		return run, nil
	}
	if run.State.Final() || run.State == state.Suspended && !run.StopAsked { // until it is resumed
		for _, rec := range attempts {
			if !rec.Released() {
				err = errors.Join(err, d.cleanUpNow(ctx, rec))
			}
		}
		if run.State.Final() {
			_, rerr := removePassed(ctx, c.Store, run, false)
			err = errors.Join(err, rerr)
		}
		return run, err
	}
	for _, rec := range attempts[:max(len(attempts)-1, 0)] {
		if !rec.Released() {
			d.releaseLater(rec, 0) // its controller may have died as it released it, and the run may end soon
		}
	}
	if n := len(attempts); n > 0 && (!attempts[n-1].Released() || concludes(attempts[n-1])) {
		out, err := d.continueFrom(ctx, attempts[n-1])
		if err != nil {
			return d.run, err
		}
		if !(walker{d}).beginAfter(ctx, attempts[n-1], out) {
			return d.finish(ctx, out)
		}
	}
	if len(attempts) == 0 {
		if err := d.checkpoints().Enter(ctx); err != nil {
			if ctx.Err() != nil {
				return d.run, context.Cause(ctx)
			}
			return c.finish(ctx, d.run, outcome{state: state.Failed, err: err})
		}
		if out, begins, err := awaitDependencies(ctx, d); err != nil || !begins {
			if err != nil {
				return d.run, err
			}
			return d.finish(ctx, out)
		}
	}
	out, err := walker{d}.walk(ctx)
	if err != nil {
		return d.run, err
	}
	d.releaseBefore(ctx)
	return d.finish(ctx, out)
}

// countEarlier reads from the records of earlier attempts what decides where the next one
// begins, and when.
func countEarlier(ctx context.Context, d *drive, attempts []state.Attempt) {
	if list, err := d.c.Checkpoints(ctx, d.run.ID); err == nil {
		d.moved = len(list) > 0
	}
	for i, rec := range attempts {
		d.moved = d.moved || rec.Verdict.Goes()
		if decided := i < len(attempts)-1 || rec.Released() && !concludes(rec); decided && rec.ExitCode != nil && *rec.ExitCode != 0 {
			d.retries++
		}
		if rec.Ended.After(d.asked) {
			d.asked = rec.Ended
		}
	}
	if now := time.Now(); d.asked.After(now) { // a clock that was put back must not have it wait for longer
		d.asked = now
	}
}

// finish writes the run's end, and removes what the run needs no more.
func (d *drive) finish(ctx context.Context, out outcome) (state.Run, error) {
	if out.state.Final() || out.state == state.Suspended { // a lost attempt may have left some
		clearArrivals(&d.sub, d.c.Log, d.run.ID)
	}
	if out.state.Final() {
		remoteFiles{d.controlled}.forget()
		remoteFiles{d.controlled}.tryAbort(ctx)
	}
	run, err := d.c.finish(ctx, d.run, out)
	if err == nil && out.state.Final() {
		lentVolumes{d}.release(ctx, run)
	}
	if err == nil && d.needless(ctx, out) {
		d.removeCheckpoints(ctx)
	}
	return run, err
}

// continueFrom returns what the last attempt means for the run, which is not over by the record.
func (d *drive) continueFrom(ctx context.Context, last state.Attempt) (outcome, error) {
	switch {
	case !last.Released():
		return d.reattach(ctx, last)
	case d.stopAsked() && d.run.State != state.Running: // while it waited to be tried again
		return outcome{state: state.Stopped, err: errStopped()}, nil
	}
	return remembered(last), nil
}

// concludes reports whether an attempt was to be its run's last, unless the run is tried
// again. A controller that died before the run's end was recorded has not made another.
func concludes(rec state.Attempt) bool {
	return rec.Decided() && rec.Verdict.Final()
}

// drive is the carrying out of one run by this controller.
type drive struct {
	*controlled
	attempts  int         // made so far
	first     int         // of the sites, where the walk begins
	movedFrom string      // the site of the attempt before, where the run moves
	why       string      // why the site of this attempt
	moved     bool        // an attempt has left a checkpoint
	lends     *attempt    // that has left its checkpoint on its site too, for the next one's
	asked     time.Time   // since when no site has taken the run
	unsent    time.Time   // when its user had last not sent it elsewhere
	asksMove  int64       // the request to move that was found last
	avoid     string      // the site that its user has just sent it away from
	image     *core.Image // once it is there
	// printed are the last texts of the events that recordOnce has recorded since a site last
	// took the run, by key.
	printed map[string]string
	leases  []driver.Lease  // that it has held
	during  context.Context // until this controller is done with the run
	behind  sync.WaitGroup  // those that release what was left behind
	// imageTook is how long the image took to get, before the first
	// attempt of this controller; it counts as that attempt's.
	imageTook time.Duration
}

// disconnect ends the connections to sites, also of what is still held there: this process may
// carry other runs for long.
func (d *drive) disconnect() {
	for _, l := range d.leases {
		disconnect(l)
	}
}

// disconnect ends the connections of a lease; nil: there are none.
func disconnect(l driver.Lease) {
	if l != nil {
		l.Disconnect()
	}
}

// getImage makes sure, once, that the job's image is in the cache.
func (d *drive) getImage(ctx context.Context) error {
	if d.image != nil {
		return nil
	}
	begun := time.Now()
	image, is := d.savedImage(ctx)
	if !is {
		job := d.asBegun()
		if err := d.sub.Confined().CheckBuild(job); err != nil {
			return err
		}
		var err error
		if image, err = d.c.Images.Resolve(ctx, job, launch.WantArch(nil), d.sub.Pull, d.c.Progress(core.PhaseImage)); err != nil {
			return err
		}
		if guestimage.Is(image.Config.Env) {
			return &core.Error{
				Kind: core.Invalid, Op: "run the job in", Object: d.sub.Job.Image, Err: errors.New("it is a guest image, which virtual machines boot"),
				Remedy: "Name it by `vm: {image: …}`, and by `image:` the one that has the job's programs.",
			}
		}
		if was := d.run.Image; d.attempts > 0 && was != "" && was != image.ID {
			d.record(ctx, event.ImageReplaced{Was: was, Is: image.ID})
		}
	}
	d.imageTook = time.Since(begun)
	if err := d.locate(image.Config); err != nil {
		return err
	}
	d.image, d.run.Image = &image, image.ID
	return recorded(d.c.Store.PutRun(ctx, d.run))
}

// asBegun is the job with the image that the run began with, where the cache has it: what
// the Beefile names may mean another one by now, or be gone.
func (d *drive) asBegun() *spec.Job {
	job := d.sub.Job
	if d.attempts > 0 && d.run.Image != "" && d.c.Images.Has(d.run.Image) {
		job.Image, job.Build = d.run.Image, nil
	}
	return &job
}

// unrecorded is an error of recording the state of a run (a full disk): the run
// has not failed by it, and continues from what was recorded before.
type unrecorded struct{ error }

func (u unrecorded) Unwrap() error { return u.error }

func recorded(err error) error {
	if err == nil {
		return nil
	}
	return unrecorded{err}
}

// failed is the outcome of an error before or outside the task.
func (r *controlled) failed(ctx context.Context, err error) (outcome, error) {
	if r.stopAsked() || errors.Is(err, errStopAsked) { // which this controller may not have heard yet
		return outcome{state: state.Stopped, err: errStopped()}, nil
	}
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	if errors.As(err, new(unrecorded)) || errors.As(err, new(unread)) {
		return outcome{}, err
	}
	return outcome{state: state.Failed, err: err}, nil
}

// errStopAsked is the cause of errStopped.
var errStopAsked = errors.New("stopped by its user")

func errStopped() error { return &core.Error{Kind: core.Stopped, Err: errStopAsked} }

func (r *controlled) stopAsked() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// untilStop gives a context that also ends when the user asks for a stop.
func (r *controlled) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancelCause(ctx)
	if r.stopAsked() { // before anything is begun
		cancel(errStopped())
	}
	go func() {
		select {
		case <-r.stop:
			cancel(errStopped())
		case <-work.Done():
		}
	}()
	return work, func() { cancel(nil) }
}

// finish writes the run's end.
func (c *Runner) finish(ctx context.Context, run state.Run, out outcome) (state.Run, error) {
	run.State, run.Suspended, run.ExitCode = out.state, out.suspended, out.exit
	if out.state.Final() {
		run.Ended = time.Now()
	}
	if out.err != nil {
		run.Kind = core.KindOf(out.err).String()
		run.Message, run.Remedy = core.Printable(out.err.Error(), maxText), core.Printable(core.Remedy(out.err), maxText)
	}
	ctx = context.WithoutCancel(ctx)
	change := state.Change{Run: &run}
	endOfCase(ctx, c.Store, &run, &change)
	c.pause()
	_, err := c.Store.Write(ctx, change)
	return run, err
}

// locate makes the job's relative outputs absolute, once its image is known.
func (d *drive) locate(image core.ImageConfig) (err error) {
	changed, err := d.sub.Job.OutputsIn(image.Workdir(d.sub.Job.Workdir, d.sub.Job.Volume.Path))
	if err != nil || !changed {
		return err
	}
	d.run.Submission, err = d.sub.Encode()
	return err
}
