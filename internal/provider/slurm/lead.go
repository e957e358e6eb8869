package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"golang.org/x/sys/unix"
)

// lead is the first agent's further part. It finds the other agents and writes
// down what was granted; then it has the nodes started as soon as a launch spec for it
// are in force, with a controller there or not. A job that will not do its work
// is released at once.
func (a *agent) lead(ctx context.Context) {
	l, err := a.lease()
	if err == nil {
		err = a.leadOver(ctx, l)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	if a.launched() {
		// The head reports what is amiss in its result, which is worth waiting for.
		a.log.Error("not all nodes could be started", "err", err)
		select {
		case <-a.done:
		case <-ctx.Done():
		}
	} else {
		a.judge(err.Error())
	}
	a.dismiss(ctx)
	a.finish()
}

// dismiss ends the other agents, as far as they are known.
func (a *agent) dismiss(ctx context.Context) {
	if l, err := a.lease(); err == nil {
		l.terms = l.termsOf(announced(a.dir, l.details.Nodes, a.ofThisStart))
		l.endAgents(ctx)
	}
}

// ofThisStart distinguishes an agent of this start of the job from one of an earlier.
func (a *agent) ofThisStart(other announcement) bool {
	return other.Job == a.self.Job && other.Restart == a.self.Restart
}

func (a *agent) leadOver(ctx context.Context, l *lease) error {
	hosts, err := a.gather(ctx, l.details.Nodes)
	if err != nil {
		return err
	}
	l.terms = l.termsOf(hosts)
	var started bool
	if err := a.await(ctx, func() (bool, error) { // as long as the scratch does not answer
		var err error
		started, err = fsutil.Exists(filepath.Join(a.dir, startedName))
		return err == nil, nil
	}); err != nil {
		return err
	}
	if started {
		// Its first start may have worked on the volume, and may do so yet on a
		// node that Slurm cannot reach.
		return errors.New("Slurm has started this job a second time, which bee never does on the same files") //nolint:staticcheck // a name
	}
	l.terms.Since, l.terms.Deadline = a.span(ctx)
	if err := writeJSON(filepath.Join(a.dir, grantedName), l.terms); err != nil {
		return err
	}
	launchSpec, err := a.launchSpec(ctx)
	if err != nil || launchSpec == nil || !a.bind() {
		return err
	}
	if err := a.mark(); err != nil {
		return err
	}
	a.log.Info("starting the nodes")
	return a.start(ctx, l, launchSpec)
}

// judge writes down, for people who come later, why this job has done nothing.
func (a *agent) judge(why string) {
	a.log.Error(why)
	if err := fsutil.WriteFile(filepath.Join(a.dir, verdictName), []byte(why), 0o600); err != nil {
		a.log.Error("this could not be written down", "err", err)
	}
}

// lease is that of this agent, as far as its own directory and Slurm report.
func (a *agent) lease() (*lease, error) {
	owner, ok := leasedir.OwnerNamed(filepath.Base(a.dir))
	nodes, err := strconv.Atoi(os.Getenv("SLURM_STEP_NUM_TASKS"))
	if !ok || err != nil {
		return nil, fmt.Errorf("%s is no lease, or this is no step of Slurm's", a.dir)
	}
	base := filepath.Dir(filepath.Dir(a.dir))
	return &lease{
		p: &provider{base: base, s: Settings{Name: "Slurm job " + a.self.Job}}, owner: owner, base: base, dir: a.dir,
		details: details{Job: a.self.Job, Nodes: nodes, Dir: leasedir.RunDir(base, owner.Run)},
	}, nil
}

// termsOf are what hosts that have announced themselves offer.
func (l *lease) termsOf(hosts []announcement) *terms {
	t := &terms{Hosts: l.provisional()[:len(hosts)]}
	for i, h := range hosts {
		t.Hosts[i].Name, t.Hosts[i].Slots, t.Hosts[i].Arch = h.Name, h.Slots, h.Arch
		t.Agents, t.Step = append(t.Agents, h.Addrs), h.Step
	}
	return t
}

// gather waits for all agents of this start of the job.
func (a *agent) gather(ctx context.Context, n int) (list []announcement, err error) {
	bounded, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = a.await(bounded, func() (bool, error) {
		list = announced(a.dir, n, a.ofThisStart)
		return len(list) == n, nil
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("only %d of %d nodes have started bee within %s: do they see %s?", len(list), n, startTimeout, a.dir)
	}
	return list, err
}

// spanTimeout is for how long Slurm is asked for the job's times. Without its
// word the slot of the launch spec counts, and the notice that Slurm gives.
const spanTimeout = time.Minute

// span gives when the job began and when it has to end.
func (a *agent) span(ctx context.Context) (start, end time.Time) {
	bounded, cancel := context.WithTimeout(ctx, spanTimeout)
	defer cancel()
	var last error
	err := a.await(bounded, func() (bool, error) {
		j, err := jobNumbered(bounded, a.self.Job)
		if last = err; err == nil && j != nil {
			start, end = j.start, j.end
		}
		return err == nil, nil
	})
	if err != nil {
		a.log.Error("Slurm does not tell this job's times", "err", last) // a name
	}
	if start.IsZero() {
		start = time.Now()
	}
	return start, end
}

// launchSpec waits until there is an enabled launch spec, or a controller starts the
// nodes by itself: then nil.
func (a *agent) launchSpec(ctx context.Context) (raw []byte, err error) {
	err = a.await(ctx, func() (bool, error) {
		if a.launched() {
			return true, nil
		}
		var rerr error
		raw, rerr = fsutil.ReadFile(a.dir, specName, mostRecord)
		if fsutil.Spoiled(rerr) {
			return false, rerr
		}
		return rerr == nil, nil // where the scratch does not answer, it is asked again
	})
	return raw, err
}

// mark notes for good that nodes are started in this lease. Busy: they were.
func (a *agent) mark() error {
	f, err := os.OpenFile(filepath.Join(a.dir, startedName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &core.Error{Kind: core.Busy, Op: "start nodes of", Object: a.dir, Err: errors.New("they were started before"), Remedy: core.RemedyShow}
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// await asks again and again until something is so. What all nodes of a large
// job look at, they look at less and less often.
func (a *agent) await(ctx context.Context, so func() (bool, error)) error {
	begun := time.Now()
	for {
		if is, err := so(); is || err != nil {
			return err
		}
		select {
		case <-time.After(min(max(20*time.Millisecond, time.Since(begun)/8), 2*time.Second)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// timeout is for how much longer this agent, which has waited since a time, waits
// before it looks again whether it continues doing so; 0: no longer. The first one
// decides, and reports to the others.
func (a *agent) timeout(begun time.Time) time.Duration {
	look := min(a.idle/4, time.Minute)
	since, is, err := a.attended()
	if err != nil {
		return look // nothing is concluded while the scratch does not answer
	}
	if is && a.rank == 0 {
		if begun.After(since) {
			since = begun
		}
		return max(0, a.attend-time.Since(since))
	}
	all := a.idle
	if a.rank > 0 {
		all += a.idle / 2
	}
	if left := all - time.Since(begun); left > 0 {
		return min(left, look)
	}
	if hope, err := a.hopeful(); err != nil || hope {
		return look
	}
	return 0
}

// attended reports whether all but the start of the nodes is done, for which there has
// to be a controller, and since when.
func (a *agent) attended() (since time.Time, is bool, err error) {
	info, err := os.Lstat(filepath.Join(a.dir, attendedName))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, err
	}
	return info.ModTime(), true, nil
}

// missed writes down that the nodes were there, and nobody came to use them.
func (a *agent) missed() {
	why := fmt.Sprintf("not all that it needs had been brought to it, and nobody brought more of it for %s", a.idle)
	if _, is, err := a.attended(); err == nil && is {
		why = fmt.Sprintf("no bee came within %s to start what only it can, as there are secrets", a.attend)
	}
	if err := fsutil.WriteFile(filepath.Join(a.dir, missedName), nil, 0o600); err != nil {
		a.log.Error("this could not be written down", "err", err)
	}
	a.judge("the job had started, but " + why + ": the nodes were given back")
}

// hopeful reports whether files were brought for this job not long ago: someone
// has a slow line. The first agent looks, and reports to the others by a file. With an error
// the scratch did not answer.
func (a *agent) hopeful() (bool, error) {
	limit, sign := time.Now().Add(-a.idle), filepath.Join(a.dir, hopeName)
	if a.rank > 0 {
		return changedSince(sign, limit)
	}
	l, err := a.lease()
	if err != nil || a.launched() {
		return false, nil // no step of Slurm's: there is nothing to hope for
	}
	found := errors.New("found")
	err = filepath.WalkDir(l.details.Dir, func(path string, _ fs.DirEntry, err error) error {
		changed := false
		if err == nil {
			changed, err = changedSince(path, limit)
		}
		switch {
		case changed:
			return found
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // a tree that was brought may be shut
			return nil
		}
		return err
	})
	if !errors.Is(err, found) {
		return false, err
	}
	if err := fsutil.WriteFile(sign, nil, 0o600); err != nil {
		a.log.Error("the other agents cannot be asked to wait", "err", err)
	}
	return true, nil
}

// changedSince looks at the time that no copying program can set. What is not there has
// not changed.
func changedSince(path string, limit time.Time) (bool, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return time.Unix(st.Ctim.Unix()).After(limit), nil
}
