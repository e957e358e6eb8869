package node

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// How long a node tries to find the head, and how it pauses between tries.
const (
	headTimeout = 60 * time.Second
	firstPause  = 50 * time.Millisecond
	longPause   = time.Second
)

// follow is the life of a node that is not the head: it joins, and does what
// the head says, until the head is done or lost. With an early error it only
// reports to the head of that.
func (n *node) follow(ctx context.Context, ports listeners, early error) error {
	nonce, err := n.LeaveNonce()
	if err != nil {
		return err
	}
	addrs, err := n.headAddresses(ctx)
	if err != nil {
		return err
	}
	c, reached, err := n.pool.findHead(ctx, addrs)
	if err != nil {
		return err
	}
	head, err := rpc.NewPeer(c.Conn, true, "the head ("+reached+")", wire.Prompt, nodecall.Protocol)
	if err != nil {
		return err
	}
	defer head.Close()
	n.pool.setHeadConn(head)
	go n.accept.serve(n.life, head, nodeOf(0))
	if early != nil {
		e := peercall.FailedOn(n.config.Host.Name, "start the node on", early)
		core.BestEffort(rpc.Call(ctx, head, peercall.CallFailed, peercall.Failure{Rank: n.config.Rank, Failed: rpc.Fail(e)})) // the error is reported below as well
		return early
	}
	local := c.LocalAddr().(*net.TCPAddr).IP.String()
	join := n.Report(ctx)
	join.Reached, join.Addrs, join.Nonce = reached, ports.at(local), nonce
	join.NoRuntime, join.NoRings = core.Printable(join.NoRuntime, peercall.MaxText), core.Printable(join.NoRings, peercall.MaxText)
	if len(join.Addrs) > 0 {
		join.Network = peercall.NetworkOf(peercall.HostOf(join.Addrs[0]))
	}
	if _, err := rpc.Call(ctx, head, peercall.CallJoin, join); err != nil {
		return err
	}
	select {
	case <-head.Done():
		return nil // done or lost: either way nothing of us may stay
	case <-ctx.Done():
		n.leaveHead(head)
		return nil
	}
}

// leaveHead reports to the head why this node goes.
func (n *node) leaveHead(head *rpc.Peer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.life), time.Second)
	defer cancel()
	why := &core.Error{Kind: core.Lost, Err: fmt.Errorf("the node on %s was asked to end", n.config.Host.Name)}
	core.BestEffort(rpc.Call(ctx, head, peercall.CallFailed, peercall.Failure{Rank: n.config.Rank, Failed: rpc.Fail(why)})) // our end reports it as well
}
