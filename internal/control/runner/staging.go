package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/wire"
)

// staging brings the files of an attempt to its hosts, and makes the launch spec of its
// nodes. What it knows is found again by each controller that continues the attempt.
type staging struct {
	rec     *record
	at      *siteLease
	keeping *keeping
	maker   maker
	// image is the one for the architecture of the hosts, vm the machines around the
	// containers, binds where inputs appear that lie outside of the volume. resumed is set
	// when the attempt continues from a checkpoint.
	image   core.Image
	vm      *protocol.VM
	binds   map[string]string
	resumed bool
	// mounts are the job's on this site; nil: they are not found yet.
	mounts []protocol.Mount
	// saved describes the virtual machines in that checkpoint, where it is of those.
	saved *protocol.Saved
}

// launchSpec returns what the nodes of the attempt are started by, at first with its key.
func (st *staging) launchSpec(ctx context.Context, secrets map[string]string) (*launch.Spec, error) {
	earlier, err := st.rec.of.c.Store.Attempts(ctx, st.rec.of.run.ID)
	if err != nil {
		return nil, err
	}
	job := &st.rec.of.sub.Job
	if job, err = openCases(ctx, st.rec.of.c.Store, st.rec.of.run.ID, job); err != nil {
		return nil, err
	}
	m := placement.LearnMargin(job, st.at.site, earlier, st.at.lease.KeepsFiles())
	plan, err := launch.MakePlan(job, st.rec.of.run, st.image, secrets, st.binds, st.resumed, m)
	if err != nil {
		return nil, err
	}
	if job.Checkpoint != nil && (st.at.site.Slot > 0 || !st.at.lease.Deadline().IsZero() || st.at.awaited()) {
		st.rec.Margin, st.rec.MarginWhy = m.Total, m.Why
	}
	if st.mounts == nil { // another controller has found them
		if st.mounts, err = st.at.candidate().Mounts(ctx); err != nil {
			return nil, err
		}
	}
	plan.Mounts = st.mounts
	if err := st.placeBurst(plan.Burst); err != nil {
		return nil, err
	}
	plan.VM, plan.Slot, plan.InGuest = st.vm, st.at.site.Slot, st.rec.of.sub.InGuest
	plan.Input, plan.Terminal = st.rec.of.sub.Input, st.rec.of.sub.Terminal
	if plan.Restore = st.saved != nil; plan.Restore {
		plan.Setup = nil
	}
	if len(st.rec.Key) == 0 {
		st.rec.Key = wire.NewKey()
	}
	return &launch.Spec{
		Shared:  st.rec.Key,
		Version: protocol.Version, Owner: st.rec.owner(), Plan: plan, Nodes: job.Nodes, PerHost: job.NodesPerHost(),
		Runtime: launch.RuntimeFor(job, st.at.site), Network: launch.First(job.Network, st.at.site.Network),
	}, nil
}

// stageAutostart leaves a staged attempt with its site, where the site can start it by
// itself. From the record on, it counts as one that may run: the launch spec is
// enabled at the next status check, by this controller or by another.
func (st *staging) stageAutostart(ctx context.Context) error {
	u := st.at.lease.Autostart()
	if u == nil || !st.at.awaited() {
		return nil
	}
	if st.rec.of.sub.Job.NeedsController() {
		return st.attend(ctx, u)
	}
	o, err := st.launchSpec(ctx, nil)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := u.StageSpec(ctx, raw); core.IsKind(err, core.Unsupported) {
		return nil
	} else if err != nil {
		return err
	}
	return st.rec.putUnlessStopped(ctx, func() {
		st.rec.on(machinery.Enabling)
		st.rec.Autostart, st.rec.AutostartAt = state.Enabling, time.Now()
	})
}

// attend reports to a site, and to the user, that it cannot start a staged attempt by itself.
func (st *staging) attend(ctx context.Context, u driver.Autostart) error {
	if st.at.site.Granted() { // the hosts are there, and go with us
		return nil
	}
	if err := u.Attend(ctx); core.IsKind(err, core.Unsupported) {
		return nil
	} else if err != nil {
		return err
	}
	st.rec.Autostart = state.Attended
	st.rec.event(ctx, event.Attendance{Site: st.at.site.Name})
	return nil
}

// stage brings image, inputs and checkpoint to the head's host.
func (st *staging) stage(ctx context.Context) error {
	hosts := st.at.lease.Hosts()
	if len(hosts) == 0 {
		return &core.Error{Kind: core.Lost, Op: "use the hosts of site", Object: st.at.site.Name, Err: fmt.Errorf("there are none, expected %d", st.rec.of.sub.Job.Hosts()), Remedy: core.RemedyShow}
	}
	st.image = st.maker.jobImage()
	if want := launch.WantArch(hosts); st.image.Arch != "" && st.image.Arch != want && st.rec.of.sub.Job.Platform == "" {
		var err error
		if st.image, err = st.rec.of.c.Images.Resolve(ctx, &st.rec.of.sub.Job, want, st.rec.of.sub.Pull, st.rec.of.c.Progress(core.PhaseImage)); err != nil {
			return err
		}
		if st.image.Arch != want {
			return &core.Error{
				Kind: core.Unsupported, Op: "run the image on", Object: hosts[0].Name,
				Err:    fmt.Errorf("the image is for %s, and the host is %s", st.image.Arch, want),
				Remedy: "Use an image for " + want + ", or say `platform: linux/" + st.image.Arch + "` where the hosts emulate that.",
			}
		}
	}
	files, home := st.stager(), st.rec.of.c.Store.RunDir(st.rec.of.run.ID)
	var copies []inputs.Copy
	var left []inputs.Download
	var earlier *earlierInputs
	var err error
	st.resumed, st.saved, st.binds = false, nil, nil
	if st.rec.of.sub.Job.Checkpoint != nil {
		err := st.rec.timed(ctx, core.PhaseStage, func() error {
			var err error
			st.resumed, err = st.restore(ctx, hosts[0])
			return err
		})
		if err != nil {
			return err
		}
	}
	if st.saved != nil {
		st.image = st.saved.Image // all else is in the machines
	} else {
		job := st.missing()
		st.binds = inputs.Binds(&st.rec.of.sub.Job)
		files.Binds = st.binds
		if left, err = files.LeaveToSite(job); err != nil {
			return err
		}
		if err := (remoteFiles{st.rec.of}).inputs().Fetch(ctx, job); err != nil {
			return err
		}
		if earlier, err = st.newEarlier(ctx, files, job); err != nil {
			return err
		}
		defer earlier.close()
		if copies, err = st.copiesOf(ctx, job, earlier); err != nil {
			return err
		}
	}
	if st.vm, err = st.guests().Choose(ctx); err != nil {
		return err
	}
	if st.vm != nil { // saved machines continue with this very one
		st.rec.Guest = st.vm.Guest.ID
	}
	err = st.rec.timed(ctx, core.PhaseStage, func() error {
		leave, err := st.rec.of.c.Routes.Enter(ctx, st.at.site.Name)
		if err != nil {
			return err
		}
		defer leave()
		if st.vm != nil {
			if err := files.StageImage(ctx, "the image that virtual machines boot", st.vm.Guest, home, protocol.GuestPath(hosts[0].Dir)); err != nil {
				return err
			}
		}
		return errors.Join(files.StageImage(ctx, "image "+st.image.Ref, st.image, home, protocol.ArchivePath(hosts[0].Dir)), files.Stage(ctx, hosts[0], copies))
	})
	if err == nil && len(left) > 0 {
		err = st.rec.timed(ctx, core.PhaseStage, func() error { return files.Download(ctx, hosts[0], left) })
	}
	if err == nil && earlier != nil {
		err = st.rec.timed(ctx, core.PhaseStage, func() error { return earlier.bring(ctx, hosts[0]) })
	}
	return err
}

// copiesOf plans what is sent of a job's inputs.
func (st *staging) copiesOf(ctx context.Context, job *spec.Job, earlier *earlierInputs) ([]inputs.Copy, error) {
	copies, err := inputs.PlanAt(job, st.binds)
	if err != nil {
		return nil, err
	}
	own, passed := earlier.confine(copies)
	for _, c := range own {
		if err := st.rec.of.sub.Confined().Check(c.Local); err != nil {
			return nil, err
		}
	}
	own, err = inputs.FollowLinks(ctx, job, st.rec.of.sub.Own, own)
	return append(own, passed...), err
}

// missing is the job without those inputs that its checkpoint has: their sources on the
// submitting machine may be gone by now.
func (st *staging) missing() *spec.Job {
	if st.resumed {
		return inputs.WithoutVolume(&st.rec.of.sub.Job)
	}
	job := st.rec.of.sub.Job
	return &job
}

// guests returns what plans the attempt's virtual machines.
func (st *staging) guests() *launch.Guests {
	return &launch.Guests{
		Lease: st.at.lease, Site: st.at.site, Job: &st.rec.of.sub.Job, VolumeFrom: st.missing().Volume.From, Saved: st.saved, Pull: st.rec.of.sub.Pull,
		Images: st.rec.of.c.Images, Progress: st.rec.of.c.Progress(core.PhaseImage), Say: st.rec.of.c.ReportText, Record: st.rec.event,
	}
}

// stager returns what sends files to the head's host.
func (st *staging) stager() *inputs.Stager {
	return &inputs.Stager{
		Site: st.at.transfers(), Remote: remoteFiles{st.rec.of}.inputs(), Images: st.rec.of.c.Images, Within: st.rec.of.sub.Confined(), Progress: st.rec.of.c.Progress(core.PhaseStage), Reuse: func(ctx context.Context, head core.Host, c inputs.Copy) {
			if b := st.keeping.before(); b != nil {
				b.ReuseInput(ctx, st.at.lease, head, c.Local, c.Remote)
			}
		},
	}
}
