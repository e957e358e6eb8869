package node

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Copies of the volume of a job that continues.

// takeSnapshots keeps one every so often, for the controller to collect: so that
// a lost host costs little. Why there is none is reported once, until it is another reason.
func (h *head) takeSnapshots(ctx context.Context) {
	c := h.plan.Checkpoint
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
		_, err := h.keepSnapshot(bounded, c.Grace+c.Every)
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
			h.journal.remark(core.PhaseRun, text)
		}
		reported = text
	}
}

// goesOn reports whether a checkpoint can be taken of the job while it runs: the machines
// around it are saved, or what is copied is written by a command, or now and then by the
// job itself, as `every:` says.
func (h *head) goesOn() bool {
	c := h.plan.Checkpoint
	return h.plan.SavesVM() || len(c.Command) > 0 || c.Every > 0
}

// keepAsked keeps a copy as the run's user wants it, while the job runs.
func (h *head) keepAsked(ctx, running context.Context) (int, error) {
	h.n.serving.Add(1)
	defer h.n.serving.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(running, func() { cancel(errEnded) })
	defer stop()
	grace := h.plan.Checkpoint.Grace
	if h.plan.SavesVM() { // they are halted meanwhile
		bounded, done := context.WithTimeoutCause(ctx, grace, fmt.Errorf("it took longer than `checkpoint.grace`, %v", grace))
		defer done()
		ctx = bounded
	}
	n, err := h.keepSnapshot(ctx, grace)
	if err == nil {
		return n, nil
	}
	e := &core.Error{Kind: core.KindOf(err), Op: "take a checkpoint", Err: err, Remedy: "The job continues. `bee logs --node 0 " + h.n.config.Owner.Run + "` may show more."}
	if cause := context.Cause(ctx); cause != nil {
		e.Err = cause
	}
	if errors.Is(err, errNothingYet) || errors.Is(err, errRestless) {
		e.Kind, e.Remedy = core.Transient, "The job continues. Try again later; `bee move "+h.n.config.Owner.Run+"` asks it to write a checkpoint and to end, and the run continues from there."
	}
	if running.Err() != nil { // it may have been why
		e.Kind, e.Err, e.Remedy = core.Transient, errEnded, "`bee show "+h.n.config.Owner.Run+"` tells how it has ended."
	}
	return 0, e
}

// keepSnapshot keeps one copy, and reports its number. Timeout is for how long a command
// may write it, and for how long then a moment at which nobody does is waited for.
func (h *head) keepSnapshot(ctx context.Context, timeout time.Duration) (int, error) {
	h.saving.Lock()
	defer h.saving.Unlock()
	begun, n := time.Now(), h.taken+1
	var err error
	if h.plan.SavesVM() {
		err = h.snapshotMachines(ctx, n, true)
	} else {
		err = h.snapshotVolume(ctx, n, timeout)
	}
	if err != nil {
		return 0, err
	}
	h.taken = n
	message := fmt.Sprintf("kept checkpoint %d in %s", n, time.Since(begun).Round(time.Millisecond))
	count, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	bytes := countBytes(count, plan.SnapshotDir(h.n.config.Host.Dir, n))
	h.journal.add(plan.Event{Phase: core.PhaseRun, Rank: -1, Snapshot: n, Bytes: bytes, Message: message})
	h.kept.Prune(n) //nolint:errcheck // the next attempt removes all
	return n, nil
}

var (
	errNothingYet = errors.New("nothing is there yet of what a checkpoint consists of (`checkpoint.paths`)")                                                                                      //nolint:gochecknoglobals // a constant
	errRestless   = errors.New("the files of a checkpoint do not stop changing: name in `checkpoint.paths` only what the job needs to continue, and have it write that now and then, not always") //nolint:gochecknoglobals // a constant
	errEnded      = errors.New("the attempt has come to its end meanwhile")                                                                                                                       //nolint:gochecknoglobals // a constant
)

// snapshotVolume copies the volume as it is, with the files of a checkpoint, of all
// hosts, as they were at one moment at which nobody wrote to them. They are copied
// first: what a job appends to besides may be longer than its checkpoint says, never
// shorter.
func (h *head) snapshotVolume(ctx context.Context, n int, timeout time.Duration) error {
	if len(h.plan.Checkpoint.Command) > 0 {
		writing, cancel := context.WithTimeout(ctx, timeout)
		err := h.saveCommand(writing)
		cancel()
		if err != nil {
			return err
		}
	}
	calm, cancel := context.WithTimeout(ctx, timeout+3*snapshot.Steady)
	defer cancel()
	target := plan.SnapshotDir(h.n.config.Host.Dir, n)
	fresh, parts := target+".new", target+".parts"
	defer fsutil.RemoveAll(parts)
	if err := fsutil.RemoveAll(fresh); err != nil {
		return err
	}
	try := func() (bool, error) { return h.copyParts(ctx, parts) }
	if h.hasVolumeImage() {
		s, err := h.server()
		if err != nil {
			return err
		}
		try = func() (bool, error) { return h.tryImage(ctx, s, fresh) }
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
	if !h.hasVolumeImage() {
		if err := h.addRest(ctx, parts, fresh); err != nil {
			return err
		}
	}
	return fsutil.Rename(fresh, target)
}

// checkpointGlobs are what a checkpoint consists of, relative to the volume.
func (h *head) checkpointGlobs() []string {
	var globs []string
	for _, p := range h.plan.Checkpoint.Paths {
		p = path.Clean(p)
		if p == path.Clean(h.plan.Volume) {
			return []string{snapshot.Whole}
		}
		if rel, is := h.plan.InVolume(p); is {
			globs = append(globs, rel)
		}
	}
	if len(h.plan.Checkpoint.Paths) == 0 {
		return []string{snapshot.Whole}
	}
	return globs
}

// copyParts copies the files of a checkpoint, and reports whether nobody wrote to any of
// them meanwhile or shortly before.
func (h *head) copyParts(ctx context.Context, to string) (whole bool, err error) {
	globs := h.checkpointGlobs()
	before, err := h.look(ctx, globs)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(before, func(l snapshot.Look) bool { return l.Files > 0 }) {
		return false, errNothingYet
	}
	if slices.ContainsFunc(before, func(l snapshot.Look) bool { return l.Busy }) {
		return false, nil
	}
	if err := h.n.trees().Copy(ctx, plan.VolumeDir(h.n.config.Host.Dir), globs, to); err != nil {
		return false, err
	}
	if err := h.gatherAll(ctx, globs, to); err != nil {
		return false, err
	}
	after, err := h.look(ctx, globs)
	return slices.Equal(before, after), err
}

// addRest makes a copy of the whole volume of the files of a checkpoint and what else is
// there. What belongs to a checkpoint and has come since is not taken along.
func (h *head) addRest(ctx context.Context, parts, fresh string) error {
	globs, outputs := h.checkpointGlobs(), h.globsOf(h.plan.Outputs)
	if slices.Contains(globs, snapshot.Whole) {
		return fsutil.Rename(parts, fresh)
	}
	if err := treesync.Copy(ctx, plan.VolumeDir(h.n.config.Host.Dir), fresh, nil); err != nil {
		return err
	}
	if err := h.gatherAll(ctx, outputs, fresh); err != nil {
		return err
	}
	return h.n.trees().Replace(globs, parts, fresh)
}

// look looks at the files of a checkpoint in the volumes of all hosts, by rank.
func (h *head) look(ctx context.Context, list []string) ([]snapshot.Look, error) {
	looks, errs := make([]snapshot.Look, h.n.config.Size), make([]error, h.n.config.Size)
	h.hosts.each(func(rank int, p *rpc.Peer) {
		if rank == 0 {
			looks[0], errs[0] = h.n.trees().Look(plan.VolumeDir(h.n.config.Host.Dir), list)
		} else if h.ownVolume(rank) {
			looks[rank], errs[rank] = rpc.Call(ctx, p, callLook, globs{list})
		}
	})
	return looks, errors.Join(errs...)
}

// gatherAll brings what patterns match on other hosts to where what this one has of
// it is.
func (h *head) gatherAll(ctx context.Context, globs []string, into string) error {
	if len(globs) == 0 {
		return nil
	}
	for rank := 1; rank < h.n.config.Size; rank++ {
		if !h.ownVolume(rank) {
			continue
		}
		if err := h.gather(ctx, rank, globs, into); err != nil {
			return h.n.failed("copy the files of a checkpoint of", fmt.Errorf("%s: %w", h.hosts.nameOf(rank), err))
		}
	}
	return nil
}

// pinSnapshot pins a snapshot while the stream of the caller is open.
func (h *head) pinSnapshot(ctx context.Context, _ rpc.Caller, r nodecall.HoldRequest, a rpc.Answer[rpc.None]) error {
	done, err := h.kept.Pin(r.Snapshot)
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

// trees opens the run's volume and its copies.
func (n *node) trees() snapshot.Trees {
	return snapshot.Trees{Seen: n.known.job().Volume}
}
