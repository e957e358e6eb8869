package head

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// machines are the virtual machines of all nodes, which are saved together.
type machines struct {
	config plan.Config
	plan   *plan.Plan
	hosts  *hosts
	own    *container.Machine // of node 0
}

// hold has all nodes do something with their machines, at once.
func (ms *machines) hold(ctx context.Context, r peercall.HoldRequest) error {
	return errors.Join(ms.holdEach(ctx, r)...)
}

// holdEach is hold with the errors by rank.
func (ms *machines) holdEach(ctx context.Context, r peercall.HoldRequest) []error {
	errs := make([]error, ms.config.Size)
	ms.hosts.each(func(rank int, p *rpc.Peer) {
		if rank == 0 {
			if err := ms.own.Hold(ctx, r); err != nil {
				errs[0] = peercall.FailedOn(ms.config.Host.Name, r.Do+" the virtual machine on", err)
			}
			return
		}
		_, err := rpc.Call(ctx, p, peercall.CallHold, r)
		errs[rank] = ms.hosts.explain(rank, p, err)
	})
	return errs
}

// resume lets halted machines continue. One that stays halted is as good as lost.
func (ms *machines) resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
	defer cancel()
	errs := ms.holdEach(ctx, peercall.HoldRequest{Do: peercall.HoldResume})
	for rank, err := range errs {
		if err != nil {
			ms.hosts.fail(rank, &core.Error{Kind: core.Lost, Err: fmt.Errorf("a virtual machine could not continue after it was saved: %w", err)})
			break
		}
	}
	return errors.Join(errs...)
}

// resumeTimeout bounds how long halted machines may take to continue.
const resumeTimeout = 5 * time.Minute

// save saves all machines together: each is halted before any is saved, and none continues
// before all are, so that what they have sent each other agrees. What was on its way between them is lost, and sent again by TCP. With
// on they continue; otherwise they stay halted.
func (ms *machines) save(ctx context.Context, number int, on bool) error {
	dir := ms.config.Host.Dir
	fresh := container.FreshSnapshot(dir, number)
	if err := fsutil.RemoveAll(fresh); err != nil {
		return err
	}
	err := ms.hold(ctx, peercall.HoldRequest{Do: peercall.HoldPause})
	if err == nil {
		err = ms.hold(ctx, peercall.HoldRequest{Do: peercall.HoldSave, Number: number})
	}
	if on || err != nil {
		err = errors.Join(err, ms.resume(ctx))
	}
	if err == nil {
		err = ms.collectParts(ctx, number)
	}
	if err == nil {
		err = ms.seal(fresh, plan.SnapshotDir(dir, number))
	}
	if err != nil {
		fsutil.TryRemoveAll(fresh) // the next attempt removes all
	}
	return err
}

// collectParts brings the machines' files to the head's host, where they are not
// already.
func (ms *machines) collectParts(ctx context.Context, number int) error {
	errs := make([]error, ms.config.Size)
	ms.hosts.each(func(rank int, _ *rpc.Peer) {
		if rank > 0 && ms.hosts.groups[rank] != 0 {
			errs[rank] = ms.own.TakePart(ctx, rank, peercall.PartRequest{Rank: rank, Number: number}, plan.SavedPart(container.FreshSnapshot(ms.config.Host.Dir, number), rank))
		}
	})
	return errors.Join(errs...)
}

// seal makes a snapshot whole.
func (ms *machines) seal(fresh, target string) error {
	raw, err := json.Marshal(plan.Saved{Run: ms.config.Owner.Run, Nodes: ms.config.Size, Guest: ms.plan.VM.Guest, Image: ms.plan.Image, NIC: ms.plan.VM.NIC})
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
