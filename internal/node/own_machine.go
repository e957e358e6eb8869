package node

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// ownMachine is this node's virtual machine, which is saved and restored as the head
// asks, and the volume in it.
type ownMachine struct {
	config  plan.Config
	known   *known
	pool    *pool
	current *current
}

// hold does what the head wants done with this node's machine.
func (o *ownMachine) hold(ctx context.Context, r holdRequest) error {
	m, err := o.current.movable()
	if err != nil {
		return err
	}
	p := o.known.job()
	switch r.Do {
	case holdPause:
		return m.Pause(ctx)
	case holdResume:
		return m.Resume(ctx)
	case holdSave:
		part := plan.SavedPart(freshSnapshot(o.config.Host.Dir, r.Number), o.config.Rank)
		if err := fsutil.RemoveAll(part); err != nil {
			return err
		}
		return m.Save(ctx, part)
	case holdTake:
		return m.Get(ctx, p.Volume, r.Globs, o.volume())
	case holdFill:
		return m.Put(ctx, p.Volume, plan.VolumeDir(o.config.Host.Dir))
	}
	return invalid("order for a virtual machine", r.Do)
}

// heldVolume is where this node keeps what comes out of its machine's volume.
func (o *ownMachine) heldVolume() string {
	return filepath.Join(plan.NodeDir(o.config.Host.Dir, o.config.Rank), "volume")
}

// volume is the run's volume as this node has it.
func (o *ownMachine) volume() string {
	if job := o.known.job(); job.HoldsVolume() && o.config.Rank > 0 {
		return o.heldVolume()
	}
	return plan.VolumeDir(o.config.Host.Dir)
}

// takePart takes a node's saved machine from another node's disk.
func (o *ownMachine) takePart(ctx context.Context, from int, r partRequest, into string) error {
	p, err := o.pool.peer(ctx, from)
	if err != nil {
		return err
	}
	s, _, err := rpc.Open(ctx, p, callPart, r)
	if err != nil {
		return err
	}
	defer s.Close()
	return treesync.Receive(ctx, s, into)
}

// sendPart is the other side: the head gives each node its own, and each gives
// the head what it has saved.
func (o *ownMachine) sendPart(ctx context.Context, c rpc.Caller, r partRequest, s rpc.Answer[rpc.None]) error {
	if c.Rank != 0 && c.Rank != r.Rank {
		return &core.Error{Kind: core.Invalid, Op: "give saved machine", Object: rankName(r.Rank), Err: errors.New("it is another node's")}
	}
	dir := plan.RestoreDir(o.config.Host.Dir)
	if r.Number > 0 {
		dir = freshSnapshot(o.config.Host.Dir, r.Number)
	}
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	part := plan.SavedPart(dir, r.Rank)
	err := treesync.Send(ctx, s, part, nil)
	if err == nil && r.Number > 0 { // the head has it
		err = fsutil.RemoveAll(part)
	}
	return err
}

// freshSnapshot is where a snapshot lies until it is whole.
func freshSnapshot(dir string, n int) string { return plan.SnapshotDir(dir, n) + ".new" }
