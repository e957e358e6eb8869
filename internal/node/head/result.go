package head

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mpi"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// endGrace is between TERM and KILL for what still runs in the containers when
// the task has ended.
const endGrace = 2 * time.Second

// conclude ends all containers and gathers what the nodes have to report.
func (h *Head) conclude(err error) *plan.Result {
	dir := h.config.Host.Dir
	r := &plan.Result{Exit: h.exit, InSetup: h.inSetup, InPost: h.inPost, Runtimes: h.runtimes, SharedVolume: h.volumes.shared || h.plan.UsesDataImage()}
	if h.exit == nil && err != nil {
		r.Kind, r.Message, r.Remedy, r.Host = core.KindOf(err).String(), err.Error(), core.Remedy(err), h.end.host()
		r.TakenBack, r.SlotEnded = errors.Is(err, errTakenBack), errors.Is(err, errSlotEnds)
	}
	globs := h.volumeGlobs()
	saved := h.snapshots.await()
	h.takeHeld(r, globs)
	ctx, cancel := context.WithTimeout(context.Background(), h.plan.Grace+20*time.Second)
	defer cancel()
	replies := h.endAll(ctx)
	saved()
	if berr := h.burst.unmount(globs, h.burstEnd(r, err)); berr != nil {
		if h.saver.saved { // the run continues from the checkpoint before, or from this one once it is drained
			r.Exit, h.saver.saved = nil, false
			r.Kind, r.Message, r.Remedy = core.Lost.String(), berr.Error(), core.Remedy(berr)
		}
		h.journal.Remark(core.PhaseRun, strings.TrimSpace("warning: "+berr.Error()+". "+core.Remedy(berr)))
		if r.Exit != nil && r.Exit.Code == 0 {
			r.Exit, r.Kind, r.Message, r.Remedy = nil, core.KindOf(berr).String(), berr.Error(), core.Remedy(berr)
		}
	}
	uerr := h.image.unload(h.saver.snapshot > 0, h.saver.wantsVolume(), globs)
	if uerr != nil {
		r.Exit, r.Continue, r.TakenBack = nil, false, false
		r.Kind, r.Message, r.Remedy = core.KindOf(uerr).String(), uerr.Error(), core.Remedy(uerr)
		h.saver.saved = false
	}
	for rank, reply := range replies {
		if reply == nil {
			continue
		}
		r.Nodes = append(r.Nodes, reply.Report)
		if len(globs) > 0 && h.volumes.own(rank) {
			if err := h.volumes.gather(ctx, rank, globs, plan.VolumeDir(dir)); err != nil {
				h.journal.Say("", fmt.Sprintf("warning: outputs of %s could not be brought to the head: %v", h.hosts.nameOf(rank), err))
			}
		}
	}
	if warning := fullDisks(r.Nodes); warning != "" {
		h.journal.Say(core.PhaseRun, warning)
	}
	if uerr == nil { // else the controller takes them out of the image
		ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
		defer cancel()
		r.Outputs, r.Left = h.outputs(ctx, dir)
		if r.Continue {
			from := plan.VolumeDir(dir)
			if r.Snapshot > 0 {
				from = plan.SnapshotDir(dir, r.Snapshot)
			}
			r.Bytes = countBytes(ctx, from)
		}
	}
	r.Ended, r.Phases = time.Now(), h.journal.Durations()
	return r
}

// burstEnd is what becomes of a burst buffer at the end of an attempt with a result and its error. The run
// continues where its node was asked to end, and not by the run's user.
func (h *Head) burstEnd(r *plan.Result, err error) BurstEnd {
	failed := r.Exit != nil && r.Exit.Code != 0
	return BurstEnd{
		Checkpoint: h.saver.saved,
		Over:       failed && !h.plan.BurstAgain() || r.Kind == core.Stopped.String() && !errors.Is(err, errNodeEnds),
		Succeeded:  r.Exit != nil && !failed,
	}
}

// fullDisks is the warning of hosts whose virtual machines could not write any more, of
// which the job sees errors of its disk only; "": there is none.
func fullDisks(nodes []core.NodeReport) string {
	var hosts []string
	for _, n := range nodes {
		if n.Full {
			hosts = append(hosts, n.Host)
		}
	}
	if len(hosts) == 0 {
		return ""
	}
	return "warning: no room is left where virtual machines have their disks on " + strings.Join(hosts, ", ") +
		", so what they write fails (\"Input/output error\"): free space there, or name another `scratch:` for the site"
}

// endAll ends all containers, and gives what those had to report who answered.
// Where node 0's guest has the volume it goes last: until then the others write
// to it what they still hold.
func (h *Head) endAll(ctx context.Context) []*peercall.EndReply {
	replies := make([]*peercall.EndReply, h.config.Size)
	own := func() { replies[0] = &peercall.EndReply{Report: h.node.EndContainer(endGrace)} }
	last := h.plan.UsesDataImage()
	h.hosts.each(func(rank int, p *rpc.Peer) {
		if rank == 0 {
			if !last {
				own()
			}
			return
		}
		if reply, err := rpc.Call(ctx, p, peercall.CallEnd, peercall.EndRequest{Grace: endGrace}); err == nil {
			replies[rank] = &reply
		}
	})
	if last {
		own()
	}
	return replies
}

// countTimeout is how long the bytes of outputs and of a checkpoint are counted in all, which
// is only to report how long they may take on their way.
const countTimeout = 5 * time.Second

// countBytes counts them below a path; 0 where the time for it is over: a part of them
// would say nothing.
func countBytes(ctx context.Context, path string) int64 {
	if bytes := treesync.Size(ctx, path); ctx.Err() == nil {
		return bytes
	}
	return 0
}

// leave writes the result, reports to those who watch, and lets the nodes go.
func (h *Head) leave(r *plan.Result) {
	fsutil.TryRemove(reservePath(h.config.Host.Dir)) // it is not there where the disk was full before
	if err := WriteResult(plan.ResultPath(h.config.Host.Dir), r); err != nil {
		h.log.Error("write result", "err", err)
	}
	h.journal.Add(plan.Event{Rank: -1, Result: r})
	h.hosts.close()
}

// inspect asks package mpi about the job's command and image, whose files may be whatever
// someone has made: it is not waited for when the attempt shall end.
func (h *Head) inspect(ctx context.Context) ([]string, error) {
	if h.plan.UsesDataImage() && h.plan.Setup != nil {
		return nil, nil // what setup made cannot be seen from here
	}
	if b := h.current.Get(); b != nil && b.HostPrograms {
		return nil, nil
	}
	tree, release, err := h.node.Tree(h.end.over, h.plan.Image.ID)
	if err != nil {
		return nil, nil // a runtime without a tree: nothing to look into
	}
	in := mpi.CheckInput{
		Root: tree, Argv: h.plan.Run, Env: h.current.Get().Env, Hosts: h.config.Size,
		Volume: h.plan.Volume, VolumeDir: h.burst.dir(), Workdir: h.current.Get().Workdir,
		Elsewhere: slices.Collect(maps.Keys(h.plan.Binds)),
	}
	for _, m := range h.plan.Mounts {
		in.Elsewhere = append(in.Elsewhere, m.To)
	}
	var warnings []string
	found := make(chan error, 1)
	go func() {
		defer release()
		w, err := mpi.Check(in)
		warnings = w
		found <- err
	}()
	select {
	case err := <-found:
		return warnings, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Failed is the result of an attempt that an error has ended.
func Failed(c plan.Config, err error) *plan.Result {
	now := time.Now()
	return &plan.Result{
		Kind: core.KindOf(err).String(), Message: err.Error(), Remedy: core.Remedy(err), Host: c.Host.Name,
		Started: now, Ended: now, Phases: map[core.Phase]time.Duration{},
	}
}

// WriteResult leaves a result for the controller.
func WriteResult(path string, r *plan.Result) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(path, raw, 0o600)
}
