package node

import (
	"context"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
)

// notUp is the remedy where a container is asked for something that is not there.
const notUp = "Where the run is still being started, try again in a moment: a virtual machine takes a minute or two without KVM."

// handleExec runs a command in this node's container, or passes the call on
// to the node that it means.
func (n *node) handleExec(ctx context.Context, c rpc.Caller, r nodecall.ExecRequest, a rpc.Answer[rpc.None]) error {
	if r.Guest && c.Role == rpc.LaunchAgent {
		return refused(nodecall.CallExec.Name, errors.New("a launch agent starts commands in containers only"))
	}
	_, members, _ := n.known.all()
	b := n.current.get()
	rank, err := execTarget(r, members, n.config.Rank)
	if err != nil {
		return err
	}
	if rank != n.config.Rank {
		return n.passExec(ctx, a, r, rank)
	}
	if b == nil {
		return &core.Error{Kind: core.NotFound, Op: "start in the container of", Object: n.config.Host.Name, Err: errors.New("it does not run (yet, or any more)"), Remedy: notUp}
	}
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	return b.exec(ctx, a, r)
}

// passExec joins the caller's stream with one to the right node.
func (n *node) passExec(ctx context.Context, a rpc.Answer[rpc.None], r nodecall.ExecRequest, rank int) error {
	p, err := n.pool.peer(ctx, rank)
	if err != nil {
		return err
	}
	return execute.Pass(ctx, a, p, r, rank)
}

// exec runs a command to its end.
func (b *container) exec(ctx context.Context, s io.ReadWriter, r nodecall.ExecRequest) error {
	place := execute.Place{Start: b.Exec, Env: b.env, Dir: b.workdir}
	if r.Guest {
		place = execute.Place{Start: func(ctx context.Context, c driver.Command) (driver.Process, error) {
			g, err := b.guest()
			if err != nil {
				return nil, err
			}
			return g.ExecInGuest(ctx, c)
		}}
	}
	return place.Run(ctx, s, r)
}
