package node

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/rpc"
)

// handleExec runs a command in this node's container, or passes the call on
// to the node that it means.
func (n *node) handleExec(ctx context.Context, c rpc.Caller, r nodecall.ExecRequest, a rpc.Answer[rpc.None]) error {
	if r.Guest && c.Role == rpc.LaunchAgent {
		return peercall.Refused(nodecall.CallExec.Name, errors.New("a launch agent starts commands in containers only"))
	}
	_, members, _ := n.known.all()
	b := n.current.Get()
	rank, err := peercall.ExecTarget(r, members, n.config.Rank)
	if err != nil {
		return err
	}
	if rank != n.config.Rank {
		return n.relayExec(ctx, a, r, rank)
	}
	if b == nil {
		return &core.Error{Kind: core.NotFound, Op: "start in the container of", Object: n.config.Host.Name, Err: errors.New("it does not run (yet, or any more)"), Remedy: container.NotUp}
	}
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	return b.Serve(ctx, a, r)
}

// relayExec joins the caller's stream with one to the right node.
func (n *node) relayExec(ctx context.Context, a rpc.Answer[rpc.None], r nodecall.ExecRequest, rank int) error {
	p, err := n.pool.Peer(ctx, rank)
	if err != nil {
		return err
	}
	return execute.Relay(ctx, a, p, r, rank)
}
