package container

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Machine is this node's virtual machine, which is saved and restored as the head
// asks, and the volume in it.
type Machine struct {
	config  plan.Config
	current *Current
	job     func() plan.Plan
	peer    func(ctx context.Context, rank int) (*rpc.Peer, error)
}

// NewMachine makes that of a node: job returns the plan as the head has settled it, and
// peer the connection to another node.
func NewMachine(c plan.Config, on *Current, job func() plan.Plan, peer func(ctx context.Context, rank int) (*rpc.Peer, error)) *Machine {
	return &Machine{config: c, current: on, job: job, peer: peer}
}

// Hold does what the head wants done with this node's machine.
func (o *Machine) Hold(ctx context.Context, r peercall.HoldRequest) error {
	m, err := o.current.Movable()
	if err != nil {
		return err
	}
	p := o.job()
	switch r.Do {
	case peercall.HoldPause:
		return m.Pause(ctx)
	case peercall.HoldResume:
		return m.Resume(ctx)
	case peercall.HoldSave:
		part := plan.SavedPart(FreshSnapshot(o.config.Host.Dir, r.Number), o.config.Rank)
		if err := fsutil.RemoveAll(part); err != nil {
			return err
		}
		return m.Save(ctx, part)
	case peercall.HoldTake:
		return m.Get(ctx, p.Volume, r.Globs, o.Volume())
	case peercall.HoldFill:
		return m.Put(ctx, p.Volume, plan.VolumeDir(o.config.Host.Dir))
	}
	return peercall.Invalid("order for a virtual machine", r.Do)
}

// HeldVolume is where this node keeps what comes out of its machine's volume.
func (o *Machine) HeldVolume() string {
	return filepath.Join(plan.NodeDir(o.config.Host.Dir, o.config.Rank), "volume")
}

// Volume is the run's volume as this node has it.
func (o *Machine) Volume() string {
	if job := o.job(); job.HoldsVolume() && o.config.Rank > 0 {
		return o.HeldVolume()
	}
	return plan.VolumeDir(o.config.Host.Dir)
}

// TakePart takes a node's saved machine from another node's disk.
func (o *Machine) TakePart(ctx context.Context, from int, r peercall.PartRequest, into string) error {
	p, err := o.peer(ctx, from)
	if err != nil {
		return err
	}
	s, _, err := rpc.Open(ctx, p, peercall.CallPart, r)
	if err != nil {
		return err
	}
	defer s.Close()
	return treesync.Receive(ctx, s, into)
}

// SendPart is the other side: the head gives each node its own, and each gives
// the head what it has saved.
func (o *Machine) SendPart(ctx context.Context, c rpc.Caller, r peercall.PartRequest, s rpc.Answer[rpc.None]) error {
	if c.Rank != 0 && c.Rank != r.Rank {
		return &core.Error{Kind: core.Invalid, Op: "give saved machine", Object: peercall.RankName(r.Rank), Err: errors.New("it is another node's"), Remedy: core.RemedyVersions}
	}
	dir := plan.RestoreDir(o.config.Host.Dir)
	if r.Number > 0 {
		dir = FreshSnapshot(o.config.Host.Dir, r.Number)
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

// FreshSnapshot is where a snapshot lies until it is whole.
func FreshSnapshot(dir string, n int) string { return plan.SnapshotDir(dir, n) + ".new" }
