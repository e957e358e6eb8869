package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/wire"
)

// handle answers one call. The peers were told apart by their certificates,
// local clients by the socket's owner.
func (n *node) handle(ctx context.Context, peer *wire.Peer, from caller, method string, s *wire.Stream) error {
	switch method {
	case client.CallExec:
		return n.handleExec(ctx, s)
	case client.CallHealth:
		return s.Reply(n.health())
	case client.CallConsole:
		if text, ok := n.bootConsole(); ok {
			return s.Reply(text)
		}
		return n.ofGuest(s, "console", driver.Guest.Console)
	case client.CallLogin:
		return n.ofGuest(s, "account", func(g driver.Guest) (string, error) { return g.Login(), nil })
	case client.CallFabric:
		return n.fabricStats(s)
	case callHello:
		return s.Reply(n.config.Rank)
	case callSpread:
		return n.sendSpread(ctx, s)
	case callPart:
		return n.sendPart(ctx, s, from)
	case callBegin, callStart, callSync, callForget, callEnd, callSignal, callLook, callGather, callHold:
		if from.rank != 0 {
			return &core.Error{Kind: core.Invalid, Op: "answer call", Object: method, Err: errors.New("only the head may ask for it")}
		}
		return n.obey(ctx, method, s)
	}
	if n.head != nil {
		return n.head.handle(ctx, peer, from, method, s)
	}
	return unknown(method)
}

// obey does what the head says.
func (n *node) obey(ctx context.Context, method string, s *wire.Stream) error {
	switch method {
	case callBegin:
		var r beginRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		if err := n.begin(ctx, r); err != nil {
			return n.failed("prepare", err)
		}
		return s.Reply(beginReply{n.group})
	case callStart:
		var r startRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		n.forget(spreadImage, spreadGuest, spreadInputs)
		n.mu.Lock()
		if n.plan.VM != nil {
			n.plan.VM.Volume = r.Volume
		}
		n.mu.Unlock()
		b, err := n.runBox(ctx, r.Runtime)
		if err != nil {
			return n.failed("start the container on", err)
		}
		return s.Reply(startReply{b.runtime, b.why})
	case callSync:
		if err := n.haveTree(ctx, spreadVolume, protocol.VolumeDir(n.config.Host.Dir)); err != nil {
			return n.failed("copy the volume to", err)
		}
		n.settle()
		return s.Reply(nil)
	case callForget:
		var what string
		if err := s.Params(&what); err != nil {
			return err
		}
		if n.spreads[what] != nil {
			n.forget(what)
		}
		return s.Reply(nil)
	case callEnd:
		var r endRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		return s.Reply(endReply{n.endBox(r.Grace)})
	case callSignal:
		var number int
		if err := s.Params(&number); err != nil {
			return err
		}
		some, err := n.signalRanks(ctx, number)
		if err != nil {
			return n.failed("signal the ranks on", err)
		}
		return s.Reply(some)
	case callLook:
		var globs []string
		if err := s.Params(&globs); err != nil {
			return err
		}
		l, err := lookAt(n.volume(), globs)
		if err != nil {
			return n.failed("look at the files of a checkpoint on", err)
		}
		return s.Reply(l)
	case callGather:
		return n.sendOutputs(ctx, s)
	case callHold:
		var r holdRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		if err := n.holdMachine(ctx, r); err != nil {
			return n.failed(r.Do+" the virtual machine on", err)
		}
		return s.Reply(nil)
	}
	return unknown(method)
}

// failed names this host in an error.
func (n *node) failed(op string, err error) error {
	if e, ok := errors.AsType[*core.Error](err); ok && e.Op == "reach host" {
		return err // it names both hosts
	}
	return &core.Error{Kind: core.KindOf(err), Op: op, Object: n.config.Host.Name, Err: err, Remedy: core.Remedy(err)}
}

func (n *node) health() client.Health {
	n.mu.Lock()
	defer n.mu.Unlock()
	return client.Health{Rank: n.config.Rank, Phase: n.phase, Running: n.box != nil}
}

func unknown(method string) error {
	return &core.Error{Kind: core.Unsupported, Op: "answer call", Object: method, Err: errors.New("this node does not know it")}
}

// keepTelling answers a call by telling, which ends with the line to whoever asked.
func (h *head) keepTelling(ctx context.Context, s *wire.Stream, params any, tell func(context.Context) error) error {
	if err := s.Params(params); err != nil {
		return err
	}
	h.n.serving.Add(1)
	defer h.n.serving.Done()
	if err := s.Reply(nil); err != nil {
		return err
	}
	ctx, cancel := s.Broken(ctx)
	defer cancel()
	return tell(ctx)
}

// handle answers the calls that only the head knows.
func (h *head) handle(ctx context.Context, peer *wire.Peer, from caller, method string, s *wire.Stream) error {
	switch method {
	case client.CallWatch:
		var r client.WatchRequest
		return h.keepTelling(ctx, s, &r, func(ctx context.Context) error {
			return h.journal.follow(ctx, r.After, func(e protocol.Event) error { return wire.WriteMessage(s, e) })
		})
	case client.CallOutput:
		var r client.OutputRequest
		return h.keepTelling(ctx, s, &r, func(ctx context.Context) error {
			return h.output.Follow(ctx, protocol.OutputPath(h.n.config.Host.Dir), r.Offset, r.Follow, func(f tasklog.Frame) error { return tasklog.Send(s, f) })
		})
	case client.CallStop:
		var r client.StopRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		h.stop(&core.Error{Kind: core.Stopped, Err: errors.New("stopped by its user")}, r.Grace)
		return s.Reply(nil)
	case client.CallExtend:
		var r client.ExtendRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		h.slot.extend(r.Ends)
		return s.Reply(nil)
	case client.CallSave:
		var r client.SaveRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		kept, err := h.wish(ctx, r.Move)
		if err != nil {
			return err
		}
		return s.Reply(client.SaveReply{Kept: kept})
	case client.CallHold:
		return h.holdSnapshot(ctx, s)
	case client.CallSnapshot:
		return h.giveSnapshot(ctx, s)
	case client.CallAddresses:
		return s.Reply(h.addrs)
	case callJoin:
		var r joinRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		if r.Rank != from.rank || r.Rank < 1 {
			return &core.Error{Kind: core.Invalid, Op: "join", Err: fmt.Errorf("%s says that it is rank %d", peer.Name(), r.Rank)}
		}
		if err := s.Reply(nil); err != nil {
			return err
		}
		select {
		case h.joins <- joined{peer, r}:
		case <-h.over.Done():
		}
		return nil
	case callAwaitImage:
		var what string
		if err := s.Params(&what); err != nil {
			return err
		}
		select {
		case <-h.ready[what]: // of what never comes the way is nil, and the attempt's end is waited for
			return s.Reply(nil)
		case <-h.over.Done():
			return context.Cause(h.over)
		}
	case callCarry:
		return h.n.carry(ctx, s)
	case callNote:
		var text string
		if err := s.Params(&text); err != nil {
			return err
		}
		if from.local {
			return unknown(method)
		}
		h.note(text)
		return s.Reply(nil)
	case callFailed:
		var f failure
		if err := s.Params(&f); err != nil {
			return err
		}
		if f.Rank != from.rank {
			return unknown(method)
		}
		h.fail(f.Rank, &core.Error{Kind: core.KindNamed(f.Kind), Err: errors.New(f.Message), Remedy: f.Remedy})
		return s.Reply(nil)
	}
	return unknown(method)
}
