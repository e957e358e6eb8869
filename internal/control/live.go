package control

import (
	"context"
	"errors"
	"net"

	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/request"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// Live gives the lease of a run's present attempt, for looking in from
// outside its controller. NotFound when the run holds no hosts now.
func (c *Controller) Live(ctx context.Context, run state.Run) (driver.Lease, state.Attempt, error) {
	none := request.NoHosts(run)
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return nil, state.Attempt{}, err
	}
	if len(attempts) == 0 || run.State.Final() {
		return nil, state.Attempt{}, none
	}
	last := attempts[len(attempts)-1]
	if last.Lease == nil || last.Released() {
		return nil, last, none
	}
	sub, err := submission.Of(run)
	if err != nil {
		return nil, last, err
	}
	site, err := sub.Site(last.Site)
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

// dialled is a connection to a node, for which alone its lease was recovered.
type dialled struct {
	net.Conn
	lease driver.Lease
}

// NetConn is the connection itself.
func (d *dialled) NetConn() net.Conn { return d.Conn }

func (d *dialled) Close() error {
	err := d.Conn.Close()
	d.lease.Disconnect()
	return err
}

// DialNode connects to a node of a run's present attempt.
func (c *Controller) DialNode(ctx context.Context, run state.Run, rank int) (net.Conn, error) {
	conn, _, err := c.dialPresent(ctx, run, rank)
	return conn, err
}

// DialHead connects to the head of a run's present attempt, and returns its number.
func (c *Controller) DialHead(ctx context.Context, run state.Run) (conn net.Conn, attempt int, err error) {
	return c.dialPresent(ctx, run, 0)
}

func (c *Controller) dialPresent(ctx context.Context, run state.Run, rank int) (net.Conn, int, error) {
	lease, last, err := c.Live(ctx, run)
	if err != nil {
		return nil, last.N, err
	}
	conn, err := dialNode(ctx, run, lease, rank)
	switch {
	case err != nil:
	case len(last.Key) == 0: // it was started after its record was read
		conn.Close()
		err = notRunning(run, "there")
	default:
		conn, err = c.Secure(ctx, conn, last.Key, rank)
	}
	if err != nil {
		lease.Disconnect()
		return nil, last.N, err
	}
	return &dialled{conn, lease}, last.N, nil
}

func dialNode(ctx context.Context, run state.Run, lease driver.Lease, rank int) (net.Conn, error) {
	if given := lease.Hosts(); len(given) == 0 || given[0].Name == "" { // it waits in a queue
		return nil, request.NoHosts(run)
	}
	sub, err := submission.Of(run)
	if err != nil {
		return nil, err
	}
	hosts := launch.NodeHosts(sub.Job.Nodes, sub.Job.NodesPerHost(), lease.Hosts())
	if rank < 0 || rank >= len(hosts) {
		return nil, &core.Error{
			Kind: core.Invalid, Op: "reach node of run", Object: run.ID,
			Err: errors.New("it has no such node"), Remedy: "`bee show " + run.ID + "` lists its nodes.",
		}
	}
	conn, err := lease.Dial(ctx, hosts[rank].Index, protocol.SocketPath(hosts[rank].Dir, rank))
	if core.IsKind(err, core.NotFound) {
		return nil, notRunning(run, "on "+hosts[rank].Name)
	}
	return conn, err
}

// notRunning is the error of a node that does not answer where it is to be.
func notRunning(run state.Run, where string) error {
	return &core.Error{
		Kind: core.NotFound, Op: "reach node of run", Object: run.ID, Err: errors.New("it does not run (yet, or any more) " + where),
		Remedy: "`bee show " + run.ID + "` shows what the run does now. Where it is still being started, try again in a moment.",
	}
}
