package head

import (
	"context"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// takeHeld brings the outputs out of the machines, where they hold the volume. A
// job that ended well and whose outputs were lost did not end well. Machines that
// were saved at the attempt's end stay halted, with theirs in them.
func (h *Head) takeHeld(r *plan.Result, globs []string) {
	if !h.plan.HoldsVolume() || h.saver.snapshot > 0 || len(globs) == 0 {
		return
	}
	for rank, err := range h.machines.holdEach(h.life, peercall.HoldRequest{Do: peercall.HoldTake, Globs: globs}) {
		if err == nil || core.IsKind(err, core.NotFound) { // it has ended or stays halted, which is reported elsewhere
			continue
		}
		h.journal.Say("", "warning: "+err.Error())
		if rank == 0 && r.Exit != nil && r.Exit.Code == 0 {
			r.Exit, r.Kind, r.Message, r.Remedy = nil, core.KindOf(err).String(), err.Error(), "Is there room for the outputs on the host?"
		}
	}
}

// spreadHeld gives the machines, which hold a volume each, what node 0's has
// after setup.
func (h *Head) spreadHeld(ctx context.Context) error {
	if h.plan.Setup != nil {
		m, err := h.current.Movable()
		if err != nil {
			return err
		}
		if err := m.Get(ctx, h.plan.Volume, []string{"."}, plan.VolumeDir(h.config.Host.Dir)); err != nil {
			return err
		}
	}
	if !h.volumes.shared {
		if err := h.volumes.spread(ctx); err != nil {
			return err
		}
	}
	return h.hosts.all(func(_ int, p *rpc.Peer) error {
		_, err := rpc.Call(ctx, p, peercall.CallHold, peercall.HoldRequest{Do: peercall.HoldFill})
		return err
	})
}

// goOn lets machines that were brought up continue, all at once, and follows the
// job's command in them to its end.
func (h *Head) goOn(ctx context.Context) error {
	h.journal.Begin(core.PhaseStart)
	err := h.machines.hold(ctx, peercall.HoldRequest{Do: peercall.HoldResume})
	h.journal.End(core.PhaseStart)
	if err != nil {
		return err
	}
	h.journal.Say(core.PhaseStart, "the virtual machines continue where they were saved")
	return h.run(ctx, nil)
}
