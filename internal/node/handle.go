package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/wire"
)

// handle answers one call, from whomever it comes: the peers were told apart
// by their certificates, local clients by the socket's owner.
func (n *node) handle(ctx context.Context, peer *wire.Peer, method string, s *wire.Stream) error {
	switch method {
	case client.CallExec:
		return n.handleExec(ctx, s)
	case client.CallHealth:
		n.mu.Lock()
		phase := n.phase
		n.mu.Unlock()
		return s.Reply(client.Health{Rank: n.config.Rank, Phase: phase})
	case callHello:
		return s.Reply(n.config.Rank)
	case callImage:
		return n.sendImage(ctx, s)
	case callTree:
		return n.sendTree(ctx, s)
	case callBegin:
		var r beginRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		reply, err := n.begin(ctx, r)
		if err != nil {
			return err
		}
		return s.Reply(reply)
	case callSync:
		if err := n.takeTree(ctx, treeRequest{What: treeVolume}, protocol.VolumeDir(n.config.Host.Dir)); err != nil {
			return err
		}
		close(n.treeReady)
		return s.Reply(nil)
	case callEnd:
		var r endRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		return s.Reply(n.end(r))
	}
	if n.head != nil {
		return n.head.handle(ctx, peer, method, s)
	}
	return unknown(method)
}

func unknown(method string) error {
	return &core.Error{Kind: core.Unsupported, Op: "answer call", Object: method, Err: errors.New("this node does not know it")}
}

// handle answers the calls that only the head knows.
func (h *head) handle(ctx context.Context, peer *wire.Peer, method string, s *wire.Stream) error {
	switch method {
	case client.CallWatch:
		var r client.WatchRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		h.n.serving.Add(1)
		defer h.n.serving.Done()
		if err := s.Reply(nil); err != nil {
			return err
		}
		return h.journal.follow(ctx, r.After, func(e protocol.Event) error { return wire.WriteMessage(s, e) })
	case client.CallOutput:
		var r client.OutputRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		h.n.serving.Add(1)
		defer h.n.serving.Done()
		if err := s.Reply(nil); err != nil {
			return err
		}
		return h.output.Follow(ctx, protocol.OutputPath(h.n.config.Host.Dir), r.Offset, r.Follow, func(f tasklog.Frame) error { return tasklog.Send(s, f) })
	case client.CallStop:
		var r client.StopRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		h.stop(&core.Error{Kind: core.Stopped, Err: errors.New("stopped by its user")}, r.Grace)
		return s.Reply(nil)
	case client.CallAddresses:
		return s.Reply(h.addrs)
	case callJoin:
		var r joinRequest
		if err := s.Params(&r); err != nil {
			return err
		}
		if peer.Name() != protocol.NodeName(r.Rank) {
			return &core.Error{Kind: core.Invalid, Op: "join", Err: fmt.Errorf("%s says that it is rank %d", peer.Name(), r.Rank)}
		}
		if err := s.Reply(nil); err != nil {
			return err
		}
		h.joins <- joined{peer, r}
		return nil
	case callFailed:
		var f failure
		if err := s.Params(&f); err != nil {
			return err
		}
		h.fail(f.Rank, &core.Error{Kind: core.KindNamed(f.Kind), Err: errors.New(f.Message)})
		return s.Reply(nil)
	}
	return unknown(method)
}
