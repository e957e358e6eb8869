package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/nodecall"
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
	nonce, err := n.leaveNonce()
	if err != nil {
		return err
	}
	if err := n.findHeadBeside(ctx); err != nil {
		return err
	}
	c, reached, err := n.findHead(ctx)
	if err != nil {
		return err
	}
	head, err := rpc.NewPeer(c.Conn, true, "the head ("+reached+")", wire.Prompt, nodecall.Protocol)
	if err != nil {
		return err
	}
	defer head.Close()
	n.mu.Lock()
	n.control = head
	n.mu.Unlock()
	go n.serve(n.life, head, nodeOf(0))
	if early != nil {
		e := n.failed("start the node on", early)
		rpc.Call(ctx, head, callFailed, failure{n.config.Rank, rpc.Fail(e)}) //nolint:errcheck // the error is reported below as well
		return early
	}
	local := c.LocalAddr().(*net.TCPAddr).IP.String()
	join := joinRequest{
		Rank: n.config.Rank, Reached: reached, Cores: cores(n.config),
		Processors: runtime.NumCPU(), Machine: machine(), Addrs: ports.at(local), Nonce: nonce, Memory: n.memory, NoRuntime: core.Printable(n.noRuntime(ctx), maxText), NoRings: core.Printable(n.noRings(ctx), maxText),
	}
	if len(join.Addrs) > 0 {
		join.Network = networkOf(hostOf(join.Addrs[0]))
	}
	if _, err := rpc.Call(ctx, head, callJoin, join); err != nil {
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
	rpc.Call(ctx, head, callFailed, failure{n.config.Rank, rpc.Fail(why)}) //nolint:errcheck // our end reports it as well
}

// findHead tries all of the head's addresses at once, again and again. TLS
// distinguishes the head from a stranger at the same address.
func (n *node) findHead(ctx context.Context) (c *wire.Secure, reached string, err error) {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	backoff := fsutil.Backoff{First: firstPause, Longest: longPause}
	for {
		if c, reached, err = n.dialHead(ctx); err == nil {
			return c, reached, nil
		}
		if backoff.Wait(ctx) != nil {
			return nil, "", &core.Error{Kind: core.Lost, Op: "join the head at", Object: strings.Join(n.config.Head, ", "), Err: err}
		}
	}
}

func (n *node) dialHead(ctx context.Context) (*wire.Secure, string, error) {
	type found struct {
		conn *wire.Secure
		addr string
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan found, len(n.config.Head))
	for _, addr := range n.config.Head {
		go func() {
			c, err := n.dialNode(ctx, addr, 0, forControl)
			results <- found{c, addr, err}
		}()
	}
	errs := []error{}
	for i := range n.config.Head {
		f := <-results
		if f.err != nil {
			errs = append(errs, f.err)
			continue
		}
		cancel()
		go func() { // those that were slower
			for range len(n.config.Head) - i - 1 {
				if late := <-results; late.err == nil {
					late.conn.Close()
				}
			}
		}()
		return f.conn, f.addr, nil
	}
	cancel()
	if len(errs) == 0 {
		errs = append(errs, errors.New("the configuration names no address"))
	}
	return nil, "", errors.Join(errs...)
}
