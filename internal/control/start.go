package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// begin carries an attempt from its lease to its launched nodes. Where a site
// has a queue, files are brought there while we wait in it; where it can start
// the nodes by itself, it is left to do so.
func (a *attempt) begin(ctx context.Context) error {
	early := len(a.at.lease.Hosts()) > 0
	if early {
		if err := a.stage(ctx); err != nil {
			return err
		}
		if err := a.stageAutostart(ctx); err != nil {
			return err
		}
	}
	if err := a.await(ctx); err != nil {
		return err
	}
	if a.rec.autostarted() {
		return a.launchedThere(ctx)
	}
	if !early {
		a.rec.on(machinery.HostsReady)
		if err := a.stage(ctx); err != nil {
			return err
		}
	}
	return a.start(ctx)
}

// stage brings image, inputs and checkpoint to the head's host.
func (a *attempt) stage(ctx context.Context) error {
	hosts := a.at.lease.Hosts()
	if len(hosts) == 0 {
		return &core.Error{Kind: core.Lost, Op: "use the hosts of site", Object: a.at.site.Name, Err: fmt.Errorf("there are none, expected %d", a.sub.Job.Hosts())}
	}
	a.theirs = a.runner.jobImage()
	if want := launch.WantArch(hosts); a.theirs.Arch != "" && a.theirs.Arch != want && a.sub.Job.Platform == "" {
		var err error
		if a.theirs, err = a.c.Images.Resolve(ctx, &a.sub.Job, want, a.sub.Pull, a.c.Progress(core.PhaseImage)); err != nil {
			return err
		}
		if a.theirs.Arch != want {
			return &core.Error{
				Kind: core.Unsupported, Op: "run the image on", Object: hosts[0].Name,
				Err:    fmt.Errorf("the image is for %s, and the host is %s", a.theirs.Arch, want),
				Remedy: "Use an image for " + want + ", or say `platform: linux/" + a.theirs.Arch + "` where the hosts emulate that.",
			}
		}
	}
	files, home := a.stager(), a.c.Store.RunDir(a.run.ID)
	var copies []inputs.Copy
	var left []inputs.Download
	var err error
	a.resumed, a.saved, a.binds = false, nil, nil
	if a.sub.Job.Checkpoint != nil {
		err := a.rec.timed(ctx, core.PhaseStage, func() error {
			var err error
			a.resumed, err = a.restore(ctx, hosts[0])
			return err
		})
		if err != nil {
			return err
		}
	}
	if a.saved != nil {
		a.theirs = a.saved.Image // all else is in the machines
	} else {
		job := a.missing()
		a.binds = inputs.Binds(&a.sub.Job)
		files.Binds = a.binds
		if left, err = files.LeaveToSite(job); err != nil {
			return err
		}
		if err := a.remote().Fetch(ctx, job); err != nil {
			return err
		}
		if copies, err = inputs.PlanAt(job, a.binds); err != nil {
			return err
		}
		for _, c := range copies {
			if err := a.sub.confined().Check(c.Local); err != nil {
				return err
			}
		}
		if copies, err = inputs.FollowLinks(ctx, job, a.sub.Own, copies); err != nil {
			return err
		}
	}
	if a.vm, err = a.guests().Choose(ctx); err != nil {
		return err
	}
	if a.vm != nil { // saved machines continue with this very one
		a.rec.Guest = a.vm.Guest.ID
	}
	err = a.rec.timed(ctx, core.PhaseStage, func() error {
		leave, err := a.c.Routes.Enter(ctx, a.at.site.Name)
		if err != nil {
			return err
		}
		defer leave()
		if a.vm != nil {
			if err := files.StageImage(ctx, "the image that virtual machines boot", a.vm.Guest, home, protocol.GuestPath(hosts[0].Dir)); err != nil {
				return err
			}
		}
		return errors.Join(files.StageImage(ctx, "image "+a.theirs.Ref, a.theirs, home, protocol.ArchivePath(hosts[0].Dir)), files.Stage(ctx, hosts[0], copies))
	})
	if err != nil || len(left) == 0 {
		return err
	}
	return a.rec.timed(ctx, core.PhaseStage, func() error { return files.Download(ctx, hosts[0], left) })
}

// missing is the job without those inputs that its checkpoint has: their sources on the
// submitting machine may be gone by now.
func (a *attempt) missing() *spec.Job {
	if a.resumed {
		return inputs.WithoutVolume(&a.sub.Job)
	}
	job := a.sub.Job
	return &job
}

// guests returns what plans the attempt's virtual machines.
func (a *attempt) guests() *launch.Guests {
	return &launch.Guests{
		Lease: a.at.lease, Site: a.at.site, Job: &a.sub.Job, VolumeFrom: a.missing().Volume.From, Saved: a.saved, Pull: a.sub.Pull,
		Images: a.c.Images, Progress: a.c.Progress(core.PhaseImage), Say: a.c.say, Record: a.rec.event,
	}
}

// stager returns what sends files to the head's host.
func (a *attempt) stager() *inputs.Stager {
	return &inputs.Stager{
		Site: a.at.transfers(), Remote: a.remote(), Images: a.c.Images, Within: a.sub.confined(), Progress: a.c.Progress(core.PhaseStage), Reuse: func(ctx context.Context, head core.Host, c inputs.Copy) {
			if b := a.keeping.before(); b != nil {
				b.ReuseInput(ctx, a.at.lease, head, c.Local, c.Remote)
			}
		},
	}
}

// How often a queue, or a site that does not answer, is looked at: at first, later, and
// at least, however long it takes.
const (
	firstLook = 100 * time.Millisecond
	laterLook = 10 * time.Second
	longLook  = 30 * time.Second
)

// longestLook is the longest pause between two looks at what has been waited for since a
// time: a part of that which nobody feels.
func longestLook(since time.Time) time.Duration {
	return min(max(time.Since(since)/60, laterLook), longLook)
}

// await waits in the site's queue until its hosts are there, for as long as
// the site's `wait` says.
func (a *attempt) await(ctx context.Context) error {
	q := a.at.lease.Queue()
	if q == nil {
		return nil
	}
	w, err := a.look(ctx, q)
	if err == nil && !w.Ready || core.IsKind(err, core.Transient) {
		if a.rec.State == state.Staging {
			a.rec.on(machinery.Staged)
		}
		err = a.rec.timed(ctx, core.PhaseQueue, func() (err error) {
			if err := a.enter(ctx, state.Queued); err != nil {
				return err
			}
			w, err = a.queue(ctx, q, w)
			return errors.Join(err, a.enter(ctx, state.Running))
		})
	}
	if err != nil {
		return err
	}
	return a.holdSince(ctx, w.Since)
}

// enter records a state of the run.
func (a *attempt) enter(ctx context.Context, s state.RunState) error {
	a.run.State = s
	return recorded(a.c.Store.PutRun(context.WithoutCancel(ctx), a.run))
}

func (a *attempt) queue(ctx context.Context, q driver.LeaseQueue, w driver.Waiting) (driver.Waiting, error) {
	last, known, asked, begun := reported{}, true, time.Time{}, time.Now()
	for pause := firstLook; ; pause = min(2*pause, longestLook(begun)) {
		a.expect(ctx, w.Expected)
		if news, is := last.news(w); is {
			last = reported{w, time.Now()}
			a.rec.event(ctx, news)
		}
		// What may start by itself is given up only when it is known not to have.
		if a.at.site.Wait > 0 && time.Since(a.rec.Started) > a.at.site.Wait && (known || !a.rec.autostarted()) {
			return w, endsBy{&core.Error{
				Kind: core.Busy, Op: "use site", Object: a.at.site.Name, Err: fmt.Errorf("its hosts did not come within %s (%s)", a.at.site.Wait, w.Reason),
				Remedy: "Raise the site's `wait`, or let another site take the run.",
			}, machinery.QueueLimit}
		}
		if time.Since(asked) >= a.c.lookForRequests() {
			asked = time.Now()
			if a.runner.sentElsewhere(ctx) {
				return w, endsBy{&core.Error{Kind: core.Busy, Op: "use site", Object: a.at.site.Name, Err: errors.New("its user has sent the run elsewhere")}, machinery.Leave}
			}
		}
		if left := time.Until(a.rec.Started.Add(a.at.site.Wait)); a.at.site.Wait > 0 && left > 0 {
			pause = max(min(pause, left), firstLook)
		}
		if err := core.Sleep(ctx, pause); err != nil {
			return w, err
		}
		var err error
		if w, err = a.look(ctx, q); core.IsKind(err, core.Transient) {
			w, known = driver.Waiting{Reason: "the site does not answer: " + err.Error()}, false
			if a.rec.declaredLost(ctx) {
				return w, endsBy{&core.Error{Kind: core.Lost, Op: "use site", Object: a.at.site.Name, Err: errors.New("it was declared lost by the run's user")}, machinery.SiteLost}
			}
		} else if core.IsKind(err, core.Lost) && !missed(err) {
			return w, endsBy{err, machinery.Dropped}
		} else if err != nil || w.Ready {
			return w, err
		} else {
			known = true
		}
	}
}

// reported is what was last recorded of a wait, and when.
type reported struct {
	driver.Waiting
	at time.Time
}

// leastMove is by how much an expectation moves at least to be news, and how long
// after the last that can be.
const leastMove = 10 * time.Minute

// news returns what is waited for, and until when if the site reports that. It reports
// whether that is worth a line after the last one. A site computes again all the time: in
// a wait of days each little move would be one.
func (t reported) news(w driver.Waiting) (event.Queued, bool) {
	news, left, due := event.Queued{Reason: w.Reason}, time.Until(w.Expected), time.Since(t.at) >= leastMove
	far := left >= time.Minute // an expectation that is near says less than the reason
	if far {
		news.Expected = w.Expected
	}
	switch {
	case w.Reason != t.Reason:
		return news, w.Reason != ""
	case far && t.Expected.IsZero():
		return news, true
	case far:
		moved := w.Expected.Sub(t.Expected).Abs()
		return news, due && moved >= leastMove && moved > time.Until(t.Expected)/4
	}
	return news, due && w.Expected.IsZero() && time.Until(t.Expected) > time.Minute
}

// expect records when the hosts are expected, as the site says now: the history has
// only what was news.
func (a *attempt) expect(ctx context.Context, at time.Time) {
	if at = at.Truncate(time.Minute); at.Equal(a.rec.Expected) || time.Since(a.expected) < time.Minute {
		return
	}
	a.rec.Expected, a.expected = at, time.Now()
	if err := a.rec.put(ctx); err != nil {
		a.c.Log.Warn("when the hosts are expected could not be recorded", "run", a.run.ID, "err", err)
	}
}

// start launches the nodes.
func (a *attempt) start(ctx context.Context) error {
	values, err := a.secrets(ctx)
	if err != nil {
		return err
	}
	o, err := a.launchSpec(ctx, values)
	if err != nil {
		return err
	}
	if a.at.site.Slot > 0 {
		o.Plan.Slot = max(time.Until(a.rec.Granted.Add(a.at.site.Slot)), 1)
	}
	configs, err := o.Configs(a.at.lease)
	if err != nil {
		return err
	}
	a.rec.on(machinery.Launch)
	a.rec.Span = a.at.timeLimit()
	if err := a.rec.put(ctx); err != nil {
		return err
	}
	err = a.rec.timed(ctx, core.PhaseLaunch, func() error { return launch.Nodes(ctx, a.at.lease, configs, a.watch.connect) })
	if q := a.at.lease.Queue(); q != nil && err != nil { // they may have been released just before
		if _, rerr := ready(ctx, q); missed(rerr) {
			a.rec.on(machinery.Expired)
			err = rerr
		}
	}
	if err != nil || a.rec.Span == 0 {
		return err
	}
	a.rec.Begun = a.c.moment() // the slot of the head has begun before
	return a.rec.put(ctx)
}
