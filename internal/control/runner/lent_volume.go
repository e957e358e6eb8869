package runner

import (
	"context"
	"maps"
	"time"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// The last attempt of a run leaves its volume on its site as long as other runs have inputs of
// it (ADR 96). Its state is lending then, with a verdict that ends the run. It is released when
// none of these runs needs it: by the controller of the last of them, or by a later one.

// lentVolume is the volume of an attempt as one that other runs read.
type lentVolume struct{ a *attempt }

// readers reports whether other runs need the volume of an attempt that is lent to them. Who
// they are stays as it is until unlock is called.
func readers(ctx context.Context, store *state.Store, run state.Run, at state.Attempt) (lent bool, unlock func(), err error) {
	if !at.LentToRuns() {
		return false, func() {}, nil
	}
	unlock, err = retention.DependentsOf(store, run.ID).Lock(ctx)
	if err != nil {
		return false, nil, err
	}
	reader, err := submission.AReaderOf(ctx, store, run.ID, ended(run))
	if err != nil {
		unlock()
		return false, nil, err
	}
	return reader != "", unlock, nil
}

// lends is readers for who only looks.
func lends(ctx context.Context, store *state.Store, run state.Run, at state.Attempt) bool {
	if !at.LentToRuns() {
		return false
	}
	reader, err := submission.AReaderOf(ctx, store, run.ID, ended(run))
	return err != nil || reader != ""
}

// ended is how a run has ended; "": it is not over.
func ended(run state.Run) state.RunState {
	if run.State.Final() {
		return run.State
	}
	return ""
}

// mostReaders bounds the runs that an event names.
const mostReaders = 10

// wanted reports whether the site is to keep the volume for other runs, where the attempt means
// out for its run. Who they are stays as it is until unlock is called. A site that keeps no
// files has what they need fetched.
func (v lentVolume) wanted(ctx context.Context, out outcome) (lent bool, unlock func(), err error) {
	a := v.a
	none := func() {}
	if !out.state.Final() || out.next || out.again || out.moved || triesAgain(a.controlled, out) {
		return false, none, nil
	}
	var list []submission.Reader
	for passed := map[string]bool{}; ; {
		if unlock, err = retention.DependentsOf(a.c.Store, a.run.ID).Lock(ctx); err != nil {
			return false, none, err
		}
		list, err = submission.ReadersOf(ctx, a.c.Store, a.run.ID, out.state)
		if err != nil {
			unlock()
			return false, none, err
		}
		if len(list) > 0 && a.at.lease.VolumeReuse() != nil {
			break
		}
		lacking := pathsOf(list)
		maps.DeleteFunc(lacking, func(p string, _ bool) bool { return passed[p] })
		if len(lacking) == 0 {
			return false, unlock, nil
		}
		unlock() // what is fetched may take long, and others may be submitted meanwhile
		if err := v.pass(ctx, lacking, nil); err != nil {
			return false, none, err
		}
		maps.Copy(passed, lacking)
	}
	named := list[:min(len(list), mostReaders)]
	e := event.VolumeLent{Site: a.at.site.Name, More: len(list) - len(named)}
	for _, r := range named {
		e.For = append(e.For, r.Run)
	}
	a.rec.event(ctx, e)
	return true, unlock, nil
}

// pathsOf returns what runs read of a volume.
func pathsOf(list []submission.Reader) map[string]bool {
	paths := map[string]bool{}
	for _, r := range list {
		for _, p := range r.Paths {
			paths[p] = true
		}
	}
	return paths
}

// pass fetches what other runs read of the volume. why is the reason, where the site should
// have kept it.
func (v lentVolume) pass(ctx context.Context, paths map[string]bool, why error) error {
	a := v.a
	to, err := a.at.collector().PassVolume(ctx, a.at.lease.Hosts()[0].Dir, paths)
	if err != nil {
		return err
	}
	e := event.VolumePassed{Site: a.at.site.Name, Path: to}
	if why != nil {
		cause := event.CauseOf(why)
		e.Cause = &cause
	}
	a.rec.event(ctx, e)
	return nil
}

// lend releases the hosts, and leaves the volume where it is. If the site cannot, what other
// runs read is fetched.
func (v lentVolume) lend(ctx context.Context, out outcome) error {
	a := v.a
	why := v.hostsReleased(ctx)
	if why == nil {
		a.rec.ended()
		return a.rec.put(context.WithoutCancel(ctx))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	list, err := submission.ReadersOf(ctx, a.c.Store, a.run.ID, out.state)
	if err == nil && len(list) > 0 {
		core.BestEffort(v.pass(ctx, pathsOf(list), why)) // these runs report what they lack
	}
	return a.releasing.finish(ctx, out)
}

func (v lentVolume) hostsReleased(ctx context.Context) error {
	site := v.a.at.lease.VolumeReuse()
	if site == nil {
		return &core.Error{Kind: core.Unsupported, Op: "keep the volume on", Object: v.a.at.site.Name}
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	return v.a.rec.timed(ctx, core.PhaseRelease, func() error { return site.LendVolume(ctx) })
}

// freeTimeout bounds how long a run that is over releases volumes which it has read. What takes
// longer is released by a later controller.
const freeTimeout = 20 * time.Second

// lentVolumes are those that a run has read, and its own.
type lentVolumes struct{ d *drive }

// release releases, once a run is over, the volumes that no run needs any more: those which it
// has read, and its own.
func (v lentVolumes) release(ctx context.Context, run state.Run) {
	d := v.d
	freed := map[string]bool{}
	ctx, cancel := context.WithTimeout(ctx, freeTimeout)
	defer cancel()
	for _, in := range d.sub.Job.Inputs {
		src, is, err := d.sub.Source(in)
		if !is || err != nil || freed[src.Run] {
			continue
		}
		freed[src.Run] = true
		core.BestEffort(retention.DependentsOf(d.c.Store, src.Run).Remove(run.ID)) // its record shows that it is over
		v.free(ctx, src.Run)
	}
	attempts, err := d.c.Store.Attempts(ctx, run.ID)
	if n := len(attempts); err == nil && n > 0 && attempts[n-1].LentToRuns() {
		core.BestEffort(d.cleanUpNow(ctx, attempts[n-1])) // a later controller does it
	}
}

// free has another run, if it is over, release what no run needs of it. A controller of that
// run which is there does so itself.
func (v lentVolumes) free(ctx context.Context, id string) {
	d := v.d
	if run, err := d.c.Store.Run(ctx, id); err != nil || !run.State.Final() {
		return
	}
	lock, err := d.c.Store.Locks().Acquire(id)
	if err != nil {
		return
	}
	defer lock.Unlock()
	_, err = d.c.Drive(ctx, id, nil)
	core.BestEffort(err) // a later controller does it
}

// removePassed removes what was fetched of the volume of a run that is over, once no run needs it.
// found is whether there is such a thing; dry only looks.
func removePassed(ctx context.Context, store *state.Store, run state.Run, dry bool) (found bool, err error) {
	dir := retention.PassedVolume(store.RunDir(run.ID))
	if is, err := fsutil.Exists(dir); !is || err != nil {
		return false, err
	}
	unlock, err := retention.DependentsOf(store, run.ID).Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	reader, err := submission.AReaderOf(ctx, store, run.ID, run.State)
	if err != nil || reader != "" || dry {
		return err == nil && reader == "", err
	}
	return true, fsutil.RemoveAll(dir)
}

// lentTo returns where a path of the volume is on the head's host of a lease that has lent it.
func lentTo(head core.Host) string { return protocol.VolumeDir(head.Dir) }
