package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// newServer gives the calls that this node answers.
func (n *node) newServer() *rpc.Server {
	s := rpc.NewServer(n.Log)
	rpc.HandleStream(s, nodecall.CallExec, n.handleExec)
	rpc.Handle(s, nodecall.CallHealth, func(context.Context, rpc.Caller, rpc.None) (nodecall.Health, error) { return n.health(), nil })
	rpc.Handle(s, nodecall.CallConsole, func(context.Context, rpc.Caller, rpc.None) (nodecall.Console, error) {
		text, ok := n.current.bootConsole()
		var err error
		if !ok {
			text, err = n.current.ofGuest("console", driver.Guest.Console)
		}
		return nodecall.Console{Text: text}, err
	})
	rpc.Handle(s, nodecall.CallLogin, func(context.Context, rpc.Caller, rpc.None) (nodecall.Login, error) {
		name, err := n.current.ofGuest("account", func(g driver.Guest) (string, error) { return g.Login(), nil })
		return nodecall.Login{Name: name}, err
	})
	rpc.Handle(s, nodecall.CallFabric, func(context.Context, rpc.Caller, rpc.None) (nodecall.Fabric, error) {
		stats, err := n.links.stats()
		return nodecall.Fabric{Stats: stats}, err
	})
	rpc.Handle(s, callHello, func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) { return rpc.None{}, nil })
	rpc.HandleStream(s, spread.Call, n.spreads.Send)
	rpc.HandleStream(s, callPart, n.machine.sendPart)
	n.obey(s)
	if n.head != nil {
		n.head.register(s)
	}
	return s
}

// obey adds what the head has this node do.
func (n *node) obey(s *rpc.Server) {
	rpc.Handle(s, callBegin, func(ctx context.Context, _ rpc.Caller, r beginRequest) (beginReply, error) {
		if err := n.begin(ctx, r); err != nil {
			return beginReply{}, failedOn(n.config.Host.Name, "prepare", err)
		}
		return beginReply{n.group}, nil
	})
	rpc.Handle(s, callStart, n.handleStart)
	rpc.Handle(s, callSync, func(ctx context.Context, _ rpc.Caller, _ rpc.None) (rpc.None, error) {
		if err := n.spreads.HaveTree(ctx, spread.Volume, plan.VolumeDir(n.config.Host.Dir), n.group); err != nil {
			return rpc.None{}, failedOn(n.config.Host.Name, "copy the volume to", err)
		}
		n.settle()
		return rpc.None{}, nil
	})
	rpc.Handle(s, callForget, func(_ context.Context, _ rpc.Caller, t spread.Thing) (rpc.None, error) {
		n.spreads.Forget(t.What)
		return rpc.None{}, nil
	})
	rpc.Handle(s, callEnd, func(_ context.Context, _ rpc.Caller, r endRequest) (endReply, error) {
		return endReply{n.endContainer(r.Grace)}, nil
	})
	rpc.Handle(s, callSignal, func(ctx context.Context, _ rpc.Caller, r signalRequest) (signalReply, error) {
		some, err := n.current.signalRanks(ctx, r.Number)
		if err != nil {
			return signalReply{}, failedOn(n.config.Host.Name, "signal the ranks on", err)
		}
		return signalReply{some}, nil
	})
	rpc.Handle(s, callLook, func(_ context.Context, _ rpc.Caller, g globs) (snapshot.Look, error) {
		l, err := snapshot.Trees{Seen: n.known.job().Volume}.Look(n.machine.volume(), g.Globs)
		if err != nil {
			return snapshot.Look{}, failedOn(n.config.Host.Name, "look at the files of a checkpoint on", err)
		}
		return l, nil
	})
	rpc.HandleStream(s, callGather, n.sendOutputs)
	rpc.Handle(s, callHold, func(ctx context.Context, _ rpc.Caller, r holdRequest) (rpc.None, error) {
		if err := n.machine.hold(ctx, r); err != nil {
			return rpc.None{}, failedOn(n.config.Host.Name, r.Do+" the virtual machine on", err)
		}
		return rpc.None{}, nil
	})
}

func (n *node) handleStart(ctx context.Context, _ rpc.Caller, r startRequest) (startReply, error) {
	n.spreads.Forget(spread.Image, spread.Guest, spread.Inputs)
	n.known.setVolume(r.Volume)
	b, err := n.runContainer(ctx, r.Runtime)
	if err != nil {
		return startReply{}, failedOn(n.config.Host.Name, "start the container on", err)
	}
	return startReply{b.runtime, core.Printable(b.why, maxText), b.notes}, nil
}

func (n *node) health() nodecall.Health {
	h := nodecall.Health{Rank: n.config.Rank, Running: n.current.get() != nil}
	if n.head != nil {
		h.Phase = n.head.journal.Phase()
	}
	return h
}

// refused is about a call whose content does not fit its caller.
func refused(call string, why error) error {
	return &core.Error{Kind: core.Invalid, Op: "answer call", Object: call, Err: why}
}

// keepReporting answers a call by reporting, which ends with the connection to the caller.
func (h *head) keepReporting(ctx context.Context, a rpc.Answer[rpc.None], announce func(context.Context) error) error {
	h.n.serving.Add(1)
	defer h.n.serving.Done()
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	ctx, cancel := a.Broken(ctx)
	defer cancel()
	return announce(ctx)
}

// register adds the calls that only the head knows.
func (h *head) register(s *rpc.Server) {
	rpc.HandleStream(s, nodecall.CallWatch, func(ctx context.Context, _ rpc.Caller, r nodecall.WatchRequest, a rpc.Answer[rpc.None]) error {
		return h.keepReporting(ctx, a, func(ctx context.Context) error {
			return h.journal.Follow(ctx, r.After, func(e plan.Event) error { return rpc.Send(a, e, nodecall.MaxEvent) })
		})
	})
	rpc.HandleStream(s, nodecall.CallOutput, func(ctx context.Context, _ rpc.Caller, r nodecall.OutputRequest, a rpc.Answer[rpc.None]) error {
		return h.keepReporting(ctx, a, func(ctx context.Context) error {
			return h.output.Follow(ctx, plan.OutputPath(h.n.config.Host.Dir), r.Offset, r.Follow, func(f tasklog.Frame) error { return tasklog.Send(a, f) })
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
func (h *head) hear(s *rpc.Server) {
	rpc.HandleStream(s, callJoin, func(_ context.Context, c rpc.Caller, r joinRequest, a rpc.Answer[rpc.None]) error {
		if r.Rank != c.Rank || r.Rank < 1 {
			return &core.Error{Kind: core.Invalid, Op: "join", Err: fmt.Errorf("%s says that it is rank %d", c.Peer.Name(), r.Rank)}
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
	rpc.Handle(s, callAwaitImage, func(_ context.Context, _ rpc.Caller, t spread.Thing) (rpc.None, error) {
		select {
		case <-h.ready[t.What]: // of what never comes the way is nil, and the attempt's end is waited for
			return rpc.None{}, nil
		case <-h.end.over.Done():
			return rpc.None{}, context.Cause(h.end.over)
		}
	})
	rpc.HandleStream(s, callCarry, h.n.pool.carry)
	rpc.Handle(s, callNote, func(_ context.Context, _ rpc.Caller, r note) (rpc.None, error) {
		h.note(core.Printable(r.Text, maxText))
		return rpc.None{}, nil
	})
	rpc.Handle(s, callFailed, func(_ context.Context, c rpc.Caller, f failure) (rpc.None, error) {
		if f.Rank != c.Rank {
			return rpc.None{}, refused(callFailed.Name, fmt.Errorf("it is about rank %d, and comes from rank %d", f.Rank, c.Rank))
		}
		why, is := errors.AsType[*core.Error](f.Failed.Err())
		if !is {
			return rpc.None{}, refused(callFailed.Name, errors.New("it names no error"))
		}
		h.hosts.fail(f.Rank, why)
		return rpc.None{}, nil
	})
}

// report reports to the user something, by way of the head's journal.
func (n *node) report(text string) {
	if n.head != nil {
		n.head.note(text)
		return
	}
	if c := n.pool.headConn(); c != nil {
		ctx, cancel := context.WithTimeout(n.life, handshakeTimeout)
		defer cancel()
		rpc.Call(ctx, c, callNote, note{core.Printable(text, maxText)}) //nolint:errcheck // a lost head ends us anyway
	}
}

// note keeps what a node reports to the user.
func (h *head) note(text string) {
	h.journal.Say(h.journal.Phase(), text)
}

// failedOn names a host in an error.
func failedOn(host, op string, err error) error {
	if e, ok := errors.AsType[*core.Error](err); ok && e.Op == "reach host" {
		return err // it names both hosts
	}
	return &core.Error{Kind: core.KindOf(err), Op: op, Object: host, Err: err, Remedy: core.Remedy(err)}
}
