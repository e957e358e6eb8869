package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// awaitSaving waits until machines that are just being saved continue, and keeps them from
// being saved again until done is called: what a guest that is halted has not written yet
// to a disk, or to another's volume, would be lost if it were ended.
func (h *head) awaitSaving() (done func()) {
	if !h.plan.SavesVM() {
		return func() {}
	}
	h.saving.Lock()
	return h.saving.Unlock
}

// takeHeld brings the outputs out of the machines, where they hold the volume. A
// job that ended well and whose outputs were lost did not end well. Machines that
// were saved at the attempt's end stay halted, with theirs in them.
func (h *head) takeHeld(r *plan.Result, globs []string) {
	if !h.plan.HoldsVolume() || h.snapshot > 0 || len(globs) == 0 {
		return
	}
	for rank, err := range h.holdEach(h.n.life, holdRequest{Do: holdTake, Globs: globs}) {
		if err == nil || core.IsKind(err, core.NotFound) { // it has ended or stays halted, which is reported elsewhere
			continue
		}
		h.journal.say("", "warning: "+err.Error())
		if rank == 0 && r.Exit != nil && r.Exit.Code == 0 {
			r.Exit, r.Kind, r.Message, r.Remedy = nil, core.KindOf(err).String(), err.Error(), "Is there room for the outputs on the host?"
		}
	}
}

// hold has all nodes do something with their machines, at once.
func (h *head) hold(ctx context.Context, r holdRequest) error {
	return errors.Join(h.holdEach(ctx, r)...)
}

// holdEach is hold with the errors by rank.
func (h *head) holdEach(ctx context.Context, r holdRequest) []error {
	errs := make([]error, h.n.config.Size)
	h.hosts.each(func(rank int, p *rpc.Peer) {
		if rank == 0 {
			if err := h.n.machine.hold(ctx, r); err != nil {
				errs[0] = h.n.failed(r.Do+" the virtual machine on", err)
			}
			return
		}
		_, err := rpc.Call(ctx, p, callHold, r)
		errs[rank] = h.hosts.explain(rank, p, err)
	})
	return errs
}

// resume lets halted machines continue. One that stays halted is as good as lost.
func (h *head) resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
	defer cancel()
	errs := h.holdEach(ctx, holdRequest{Do: holdResume})
	for rank, err := range errs {
		if err != nil {
			h.hosts.fail(rank, &core.Error{Kind: core.Lost, Err: fmt.Errorf("a virtual machine could not continue after it was saved: %w", err)})
			break
		}
	}
	return errors.Join(errs...)
}

// resumeTimeout bounds how long halted machines may take to continue.
const resumeTimeout = 5 * time.Minute

// snapshotMachines saves all machines together: each is halted before any is
// saved, and none continues before all are, so that what they have sent each other
// agrees. What was on its way between them is lost, and sent again by TCP. With
// on they continue; otherwise they stay halted.
func (h *head) snapshotMachines(ctx context.Context, number int, on bool) error {
	dir := h.n.config.Host.Dir
	fresh := freshSnapshot(dir, number)
	if err := fsutil.RemoveAll(fresh); err != nil {
		return err
	}
	err := h.hold(ctx, holdRequest{Do: holdPause})
	if err == nil {
		err = h.hold(ctx, holdRequest{Do: holdSave, Number: number})
	}
	if on || err != nil {
		err = errors.Join(err, h.resume(ctx))
	}
	if err == nil {
		err = h.collectParts(ctx, number)
	}
	if err == nil {
		err = h.sealSnapshot(fresh, plan.SnapshotDir(dir, number))
	}
	if err != nil {
		fsutil.RemoveAll(fresh) //nolint:errcheck // the next attempt removes all
	}
	return err
}

// collectParts brings the machines' files to the head's host, where they are not
// already.
func (h *head) collectParts(ctx context.Context, number int) error {
	errs := make([]error, h.n.config.Size)
	h.hosts.each(func(rank int, _ *rpc.Peer) {
		if rank > 0 && h.hosts.groups[rank] != 0 {
			errs[rank] = h.n.machine.takePart(ctx, rank, partRequest{Rank: rank, Number: number}, plan.SavedPart(freshSnapshot(h.n.config.Host.Dir, number), rank))
		}
	})
	return errors.Join(errs...)
}

// sealSnapshot makes a snapshot whole.
func (h *head) sealSnapshot(fresh, target string) error {
	raw, err := json.Marshal(plan.Saved{Run: h.n.config.Owner.Run, Nodes: h.n.config.Size, Guest: h.plan.VM.Guest, Image: h.plan.Image, NIC: h.plan.VM.NIC})
	if err != nil {
		return err
	}
	if err := fsutil.WriteFile(filepath.Join(fresh, plan.SavedFile), raw, 0o600); err != nil {
		return err
	}
	if err := fsutil.RemoveAll(target); err != nil {
		return err
	}
	return fsutil.Rename(fresh, target)
}

// saveMachines saves the machines when the attempt shall end: they do not continue
// here.
func (h *head) saveMachines(ctx context.Context, why string, grace time.Duration) {
	defer h.beginSave()()
	h.journal.say(core.PhaseCheckpoint, why+": saving the virtual machines")
	ctx, cancel := context.WithTimeoutCause(ctx, grace, fmt.Errorf("it took longer than `checkpoint.grace`, %v", grace))
	defer cancel()
	h.saving.Lock()
	defer h.saving.Unlock()
	n := h.taken + 1
	if err := h.snapshotMachines(ctx, n, false); err != nil {
		h.journal.remark(core.PhaseCheckpoint, "warning: the virtual machines could not be saved: "+err.Error())
		return
	}
	h.taken, h.snapshot, h.saved = n, n, true
}

// giveSnapshot saves the machines, and sends the files to anyone who asks.
func (h *head) giveSnapshot(ctx context.Context, _ rpc.Caller, _ rpc.None, s rpc.Answer[rpc.None]) error {
	if !h.plan.SavesVM() {
		return plan.NothingToSave()
	}
	if h.n.health().Phase != core.PhaseRun {
		return &core.Error{Kind: core.Transient, Op: "save virtual machines", Err: errors.New("the job's command does not run (yet, or any more)"), Remedy: "Try again once it runs."}
	}
	h.n.serving.Add(1)
	defer h.n.serving.Done()
	n, err := h.keepSnapshot(ctx, 0)
	if err != nil {
		return err
	}
	done, err := h.kept.Pin(n)
	if err != nil {
		return err
	}
	defer done()
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	return treesync.Send(ctx, s, plan.SnapshotDir(h.n.config.Host.Dir, n), nil)
}

// spreadHeld gives the machines, which hold a volume each, what node 0's has
// after setup.
func (h *head) spreadHeld(ctx context.Context) error {
	if h.plan.Setup != nil {
		m, err := h.n.current.movable()
		if err != nil {
			return err
		}
		if err := m.Get(ctx, h.plan.Volume, []string{"."}, plan.VolumeDir(h.n.config.Host.Dir)); err != nil {
			return err
		}
	}
	if !h.shared {
		if err := h.spreadOutside(ctx); err != nil {
			return err
		}
	}
	return h.hosts.all(func(_ int, p *rpc.Peer) error {
		_, err := rpc.Call(ctx, p, callHold, holdRequest{Do: holdFill})
		return err
	})
}

// begin starts the job's command, or takes it over where there is none to
// start.
func (h *head) begin(ctx context.Context, c driver.Command) (driver.Process, error) {
	if h.plan.InGuest {
		g, err := h.n.current.get().guest()
		if err != nil {
			return nil, err
		}
		return g.ExecInGuest(ctx, driver.Command{Args: c.Args, Dir: g.InGuest(h.plan.Volume), Stdout: c.Stdout, Stderr: c.Stderr})
	}
	m, err := h.n.current.movable()
	switch {
	case err != nil:
		return h.n.current.get().Exec(ctx, c)
	case c.Args == nil:
		return m.Task(ctx, c)
	case h.n.health().Phase == core.PhaseSetup:
		return h.n.current.get().Exec(ctx, c)
	}
	return m.StartTask(ctx, c)
}

// goOn lets machines that were brought up continue, all at once, and follows the
// job's command in them to its end.
func (h *head) goOn(ctx context.Context) error {
	h.journal.begin(core.PhaseStart)
	err := h.hold(ctx, holdRequest{Do: holdResume})
	h.journal.end(core.PhaseStart)
	if err != nil {
		return err
	}
	h.journal.say(core.PhaseStart, "the virtual machines continue where they were saved")
	return h.run(ctx, nil)
}
