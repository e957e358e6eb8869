package control

import (
	"context"
	"errors"
	"net"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/state"
)

// Live gives the lease of a run's present attempt, for looking in from
// outside its controller. NotFound when the run holds no hosts now.
func (c *Controller) Live(ctx context.Context, run state.Run) (driver.Lease, state.Attempt, error) {
	none := &core.Error{Kind: core.NotFound, Op: "reach run", Object: run.ID, Err: errors.New("it holds no hosts now"),
		Remedy: "`bee show " + run.ID + "` tells its state."}
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return nil, state.Attempt{}, err
	}
	if len(attempts) == 0 || run.State.Final() {
		return nil, state.Attempt{}, none
	}
	last := attempts[len(attempts)-1]
	if last.Lease == nil || last.Released {
		return nil, last, none
	}
	sub, err := SubmissionOf(run)
	if err != nil {
		return nil, last, err
	}
	site, err := sub.site(last.Site)
	if err != nil {
		return nil, last, err
	}
	provider, err := c.Provider(site)
	if err != nil {
		return nil, last, err
	}
	lease, err := provider.Recover(ctx, *last.Lease)
	return lease, last, err
}

// DialNode connects to a node of a run's present attempt.
func (c *Controller) DialNode(ctx context.Context, run state.Run, rank int) (net.Conn, error) {
	lease, _, err := c.Live(ctx, run)
	if err != nil {
		return nil, err
	}
	sub, err := SubmissionOf(run)
	if err != nil {
		return nil, err
	}
	hosts := nodeHosts(sub.Job.Nodes, sub.Job.NodesPerHost(), lease.Hosts())
	if rank < 0 || rank >= len(hosts) {
		return nil, &core.Error{Kind: core.Invalid, Op: "reach node of run", Object: run.ID,
			Err: errors.New("it has no such node"), Remedy: "`bee show " + run.ID + "` lists its nodes."}
	}
	return lease.Dial(ctx, hosts[rank].Index, protocol.SocketPath(hosts[rank].Dir, rank))
}
