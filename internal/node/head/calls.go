package head

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// keepReporting answers a call by reporting, which ends with the connection to the caller.
func (h *Head) keepReporting(ctx context.Context, a rpc.Answer[rpc.None], announce func(context.Context) error) error {
	h.serving.Add(1)
	defer h.serving.Done()
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	ctx, cancel := a.Broken(ctx)
	defer cancel()
	return announce(ctx)
}

// Register adds the calls that only the head knows.
func (h *Head) Register(s *rpc.Server) {
	rpc.HandleStream(s, nodecall.CallWatch, func(ctx context.Context, _ rpc.Caller, r nodecall.WatchRequest, a rpc.Answer[rpc.None]) error {
		return h.keepReporting(ctx, a, func(ctx context.Context) error {
			return h.journal.Follow(ctx, r.After, func(e plan.Event) error { return rpc.Send(a, e, nodecall.MaxEvent) })
		})
	})
	rpc.HandleStream(s, nodecall.CallOutput, func(ctx context.Context, _ rpc.Caller, r nodecall.OutputRequest, a rpc.Answer[rpc.None]) error {
		return h.keepReporting(ctx, a, func(ctx context.Context) error {
			return h.output.Follow(ctx, plan.OutputPath(h.config.Host.Dir), r.Offset, r.Follow, func(f tasklog.Frame) error { return tasklog.Send(a, f) })
		})
	})
	rpc.Handle(s, nodecall.CallStop, func(_ context.Context, _ rpc.Caller, r nodecall.StopRequest) (rpc.None, error) {
		h.end.stop(&core.Error{Kind: core.Stopped, Err: errors.New("stopped by its user")}, r.Grace)
		return rpc.None{}, nil
	})
	rpc.Handle(s, nodecall.CallExtend, func(_ context.Context, _ rpc.Caller, r nodecall.ExtendRequest) (rpc.None, error) {
		h.slot.extend(r.Ends)
		return rpc.None{}, nil
	})
	rpc.Handle(s, nodecall.CallSave, func(ctx context.Context, _ rpc.Caller, r nodecall.SaveRequest) (nodecall.SaveReply, error) {
		kept, err := h.saver.askCheckpoint(ctx, r.Move)
		return nodecall.SaveReply{Kept: kept}, err
	})
	rpc.HandleStream(s, nodecall.CallInput, h.passInput)
	rpc.HandleStream(s, nodecall.CallHold, h.snapshots.pin)
	rpc.HandleStream(s, nodecall.CallSnapshot, h.snapshots.send)
	rpc.Handle(s, nodecall.CallAddresses, func(context.Context, rpc.Caller, rpc.None) (nodecall.Addresses, error) {
		return nodecall.Addresses{Addrs: h.addrs}, nil
	})
	h.hear(s)
}

// hear adds what the other nodes report to the head.
func (h *Head) hear(s *rpc.Server) {
	rpc.HandleStream(s, peercall.CallJoin, func(_ context.Context, c rpc.Caller, r peercall.JoinRequest, a rpc.Answer[rpc.None]) error {
		if r.Rank != c.Rank || r.Rank < 1 {
			return &core.Error{Kind: core.Invalid, Op: "join", Err: fmt.Errorf("%s says that it is rank %d", c.Peer.Name(), r.Rank), Remedy: core.RemedyVersions}
		}
		if err := a.Reply(rpc.None{}); err != nil {
			return err
		}
		select {
		case h.hosts.joins <- joined{c.Peer, r}:
		case <-h.end.over.Done():
		}
		return nil
	})
	rpc.Handle(s, peercall.CallAwaitImage, func(_ context.Context, _ rpc.Caller, t spread.Thing) (rpc.None, error) {
		select {
		case <-h.ready[t.What]: // of what never comes the way is nil, and the attempt's end is waited for
			return rpc.None{}, nil
		case <-h.end.over.Done():
			return rpc.None{}, context.Cause(h.end.over)
		}
	})
	rpc.HandleStream(s, peercall.CallCarry, h.peers.Carry)
	rpc.HandleStream(s, peercall.CallVolume, h.burst.carry)
	rpc.Handle(s, peercall.CallNotice, func(_ context.Context, c rpc.Caller, n peercall.Notice) (rpc.None, error) {
		h.Notice(c.Rank, n)
		return rpc.None{}, nil
	})
	rpc.Handle(s, peercall.CallNote, func(_ context.Context, _ rpc.Caller, r peercall.Note) (rpc.None, error) {
		h.journal.Say(h.journal.Phase(), core.Printable(r.Text, peercall.MaxText))
		return rpc.None{}, nil
	})
	rpc.Handle(s, peercall.CallFailed, func(_ context.Context, c rpc.Caller, f peercall.Failure) (rpc.None, error) {
		if f.Rank != c.Rank {
			return rpc.None{}, peercall.Refused(peercall.CallFailed.Name, fmt.Errorf("it is about rank %d, and comes from rank %d", f.Rank, c.Rank))
		}
		why, is := errors.AsType[*core.Error](f.Failed.Err())
		if !is {
			return rpc.None{}, peercall.Refused(peercall.CallFailed.Name, errors.New("it names no error"))
		}
		h.hosts.fail(f.Rank, why)
		return rpc.None{}, nil
	})
}
