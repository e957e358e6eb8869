package head

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// snapshots are the checkpoints that are taken of a job while it runs, for the controller to
// collect.
type snapshots struct {
	config   plan.Config
	plan     *plan.Plan
	journal  *journal.Journal
	current  *container.Current
	volumes  *volumes
	image    *imageVolume
	machines *machines
	serving  *sync.WaitGroup // the node's, of calls that are to see the end

	saving sync.Mutex // one snapshot at a time
	taken  int        // how many have been begun
	kept   *snapshot.Retained
}

// takeRegularly keeps one every so often, for the controller to collect: so that
// a lost host costs little. Why there is none is reported once, until it is another reason.
func (sn *snapshots) takeRegularly(ctx context.Context) {
	c := sn.plan.Checkpoint
	if c == nil || c.Every == 0 {
		return
	}
	reported := ""
	for {
		select {
		case <-time.After(c.Every):
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, c.Grace+c.Every)
		_, err := sn.keep(bounded, c.Grace+c.Every)
		cancel()
		text := ""
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNothingYet):
			text = "no checkpoint to keep: " + err.Error()
		case err != nil:
			text = "warning: no checkpoint was kept: " + err.Error()
		}
		if text != "" && text != reported {
			sn.journal.Remark(core.PhaseRun, text)
		}
		reported = text
	}
}

// continues reports whether a checkpoint can be taken of the job while it runs: the machines
// around it are saved, or what is copied is written by a command, or now and then by the
// job itself, as `every:` says.
func continues(p *plan.Plan) bool {
	c := p.Checkpoint
	return p.SavesVM() || len(c.Command) > 0 || c.Every > 0
}

// keepAsked keeps a copy as the run's user wants it, while the job runs.
func (sn *snapshots) keepAsked(ctx, running context.Context) (int, error) {
	sn.serving.Add(1)
	defer sn.serving.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(running, func() { cancel(errEnded) })
	defer stop()
	grace := sn.plan.Checkpoint.Grace
	if sn.plan.SavesVM() { // they are halted meanwhile
		bounded, done := context.WithTimeoutCause(ctx, grace, fmt.Errorf("it took longer than `checkpoint.grace`, %v", grace))
		defer done()
		ctx = bounded
	}
	n, err := sn.keep(ctx, grace)
	if err == nil {
		return n, nil
	}
	e := &core.Error{Kind: core.KindOf(err), Op: "take a checkpoint", Err: err, Remedy: "The job continues. `bee logs --node 0 " + sn.config.Owner.Run + "` may show more."}
	if cause := context.Cause(ctx); cause != nil {
		e.Err = cause
	}
	if errors.Is(err, errNothingYet) || errors.Is(err, errRestless) {
		e.Kind, e.Remedy = core.Transient, "The job continues. Try again later; `bee move "+sn.config.Owner.Run+"` asks it to write a checkpoint and to end, and the run continues from there."
	}
	if running.Err() != nil { // it may have been why
		e.Kind, e.Err, e.Remedy = core.Transient, errEnded, "`bee show "+sn.config.Owner.Run+"` shows how it ended."
	}
	return 0, e
}

// keep keeps one copy, and reports its number. Timeout is for how long a command
// may write it, and for how long then a moment at which nobody does is waited for.
func (sn *snapshots) keep(ctx context.Context, timeout time.Duration) (int, error) {
	sn.saving.Lock()
	defer sn.saving.Unlock()
	begun, n := time.Now(), sn.taken+1
	var err error
	if sn.plan.SavesVM() {
		err = sn.machines.save(ctx, n, true)
	} else {
		err = sn.copyVolume(ctx, n, timeout)
	}
	if err != nil {
		return 0, err
	}
	sn.taken = n
	message := fmt.Sprintf("kept checkpoint %d in %s", n, time.Since(begun).Round(time.Millisecond))
	count, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	bytes := countBytes(count, plan.SnapshotDir(sn.config.Host.Dir, n))
	sn.journal.Add(plan.Event{Phase: core.PhaseRun, Rank: -1, Snapshot: n, Bytes: bytes, Message: message})
	core.BestEffort(sn.kept.Prune(n)) // the next attempt removes all
	return n, nil
}

// saveAtEnd saves the machines, which do not continue here, and returns the number.
func (sn *snapshots) saveAtEnd(ctx context.Context) (int, error) {
	sn.saving.Lock()
	defer sn.saving.Unlock()
	n := sn.taken + 1
	if err := sn.machines.save(ctx, n, false); err != nil {
		return 0, err
	}
	sn.taken = n
	return n, nil
}

// await waits until machines that are just being saved continue, and keeps them from
// being saved again until done is called: what a guest that is halted has not written yet
// to a disk, or to another's volume, would be lost if it were ended.
func (sn *snapshots) await() (done func()) {
	if !sn.plan.SavesVM() {
		return func() {}
	}
	sn.saving.Lock()
	return sn.saving.Unlock
}

var (
	errNothingYet = errors.New("nothing is there yet of what a checkpoint consists of (`checkpoint.paths`)")
	errRestless   = errors.New("the files of a checkpoint do not stop changing: name in `checkpoint.paths` only what the job needs to continue, and have it write that now and then, not always")
	errEnded      = errors.New("the attempt has come to its end meanwhile")
)

// copyVolume copies the volume as it is, with the files of a checkpoint, of all
// hosts, as they were at one moment at which nobody wrote to them. They are copied
// first: what a job appends to besides may be longer than its checkpoint says, never
// shorter.
func (sn *snapshots) copyVolume(ctx context.Context, n int, timeout time.Duration) error {
	if len(sn.plan.Checkpoint.Command) > 0 {
		writing, cancel := context.WithTimeout(ctx, timeout)
		err := saveCommand(writing, sn.config, sn.plan.Checkpoint, sn.current.Get())
		cancel()
		if err != nil {
			return err
		}
	}
	calm, cancel := context.WithTimeout(ctx, timeout+3*snapshot.Steady)
	defer cancel()
	target := plan.SnapshotDir(sn.config.Host.Dir, n)
	fresh, parts := target+".new", target+".parts"
	defer fsutil.RemoveAll(parts)
	if err := fsutil.RemoveAll(fresh); err != nil {
		return err
	}
	try := func() (bool, error) { return sn.copyParts(ctx, parts) }
	if sn.plan.Burst != nil {
		try = func() (bool, error) { return sn.keepBurst(ctx, fresh) }
	}
	if sn.plan.UsesDataImage() {
		s, err := sn.image.server()
		if err != nil {
			return err
		}
		try = func() (bool, error) { return sn.image.copyTo(ctx, s, fresh) }
	}
	for {
		whole, err := try()
		if err != nil {
			return err
		}
		if whole {
			break
		}
		select {
		case <-time.After(snapshot.Steady):
		case <-calm.Done():
			return errRestless
		}
	}
	if !sn.plan.UsesDataImage() && sn.plan.Burst == nil {
		if err := sn.addRest(ctx, parts, fresh); err != nil {
			return err
		}
	}
	return fsutil.Rename(fresh, target)
}

// keepBurst takes a checkpoint of a burst buffer, and reports whether nobody wrote to its files shortly
// before.
func (sn *snapshots) keepBurst(ctx context.Context, to string) (whole bool, err error) {
	looks, err := sn.volumes.look(ctx, checkpointGlobs(sn.plan))
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(looks, func(l snapshot.Look) bool { return l.Files > 0 }) {
		return false, errNothingYet
	}
	err = sn.volumes.burst.keep(ctx, to)
	if core.IsKind(err, core.Busy) {
		return false, nil
	}
	return err == nil, err
}

// copyParts copies the files of a checkpoint, and reports whether nobody wrote to any of
// them meanwhile or shortly before.
func (sn *snapshots) copyParts(ctx context.Context, to string) (whole bool, err error) {
	globs := checkpointGlobs(sn.plan)
	before, err := sn.volumes.look(ctx, globs)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(before, func(l snapshot.Look) bool { return l.Files > 0 }) {
		return false, errNothingYet
	}
	if slices.ContainsFunc(before, func(l snapshot.Look) bool { return l.Busy }) {
		return false, nil
	}
	if err := sn.volumes.trees().Copy(ctx, plan.VolumeDir(sn.config.Host.Dir), globs, to); err != nil {
		return false, err
	}
	if err := sn.volumes.gatherAll(ctx, globs, to); err != nil {
		return false, err
	}
	after, err := sn.volumes.look(ctx, globs)
	return slices.Equal(before, after), err
}

// addRest makes a copy of the whole volume of the files of a checkpoint and what else is
// there. What belongs to a checkpoint and has come since is not taken along.
func (sn *snapshots) addRest(ctx context.Context, parts, fresh string) error {
	globs, outputs := checkpointGlobs(sn.plan), globsOf(sn.plan, sn.plan.Outputs)
	if slices.Contains(globs, snapshot.Whole) {
		return fsutil.Rename(parts, fresh)
	}
	if err := treesync.Copy(ctx, plan.VolumeDir(sn.config.Host.Dir), fresh, nil); err != nil {
		return err
	}
	if err := sn.volumes.gatherAll(ctx, outputs, fresh); err != nil {
		return err
	}
	return sn.volumes.trees().Replace(globs, parts, fresh)
}

// pin pins a snapshot while the stream of the caller is open.
func (sn *snapshots) pin(ctx context.Context, _ rpc.Caller, r nodecall.HoldRequest, a rpc.Answer[rpc.None]) error {
	done, err := sn.kept.Pin(r.Snapshot)
	if err != nil {
		return err
	}
	defer done()
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	ctx, cancel := a.Broken(ctx)
	defer cancel()
	<-ctx.Done()
	return nil
}

// send saves the machines, and sends the files to anyone who asks.
func (sn *snapshots) send(ctx context.Context, _ rpc.Caller, _ rpc.None, s rpc.Answer[rpc.None]) error {
	if !sn.plan.SavesVM() {
		return plan.NothingToSave()
	}
	if sn.journal.Phase() != core.PhaseRun {
		return &core.Error{Kind: core.Transient, Op: "save virtual machines", Err: errors.New("the job's command does not run (yet, or any more)"), Remedy: "Try again once it runs."}
	}
	sn.serving.Add(1)
	defer sn.serving.Done()
	n, err := sn.keep(ctx, 0)
	if err != nil {
		return err
	}
	done, err := sn.kept.Pin(n)
	if err != nil {
		return err
	}
	defer done()
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	return treesync.Send(ctx, s, plan.SnapshotDir(sn.config.Host.Dir, n), nil)
}
