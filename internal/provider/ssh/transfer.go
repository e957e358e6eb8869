package ssh

import (
	"context"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/sshlink/storecall"
)

// directTransfer streams trees from and to the hosts of a lease.
type directTransfer struct{ l *lease }

// Machine implements driver.Connector: that of the head, or the login node.
func (d directTransfer) Machine() string { return d.l.h.Hosts[0] }

// Rendezvous implements driver.Connector.
func (d directTransfer) Rendezvous(ctx context.Context, m driver.RendezvousSpec) (driver.End, error) {
	k, err := d.l.link(ctx, 0)
	if err != nil {
		return nil, err
	}
	return d.l.p.ssh.Rendezvous(ctx, k, m)
}

// Incoming implements driver.DirectTransfer.
func (d directTransfer) Incoming(ctx context.Context, t driver.Transfer) (driver.Receiver, error) {
	s, err := d.l.open(ctx, ctx, t.Host, hostcall.CallStage, treeAt(t))
	if err != nil {
		return nil, err
	}
	return &incoming{s, "copy to " + d.l.hosts[t.Host].Name, t.Remote}, nil
}

// Outgoing implements driver.DirectTransfer.
func (d directTransfer) Outgoing(ctx context.Context, t driver.Transfer) (io.ReadWriteCloser, error) {
	return d.l.open(ctx, ctx, t.Host, hostcall.CallFetch, treeAt(t))
}

// Upload implements driver.DirectTransfer.
func (d directTransfer) Upload(ctx context.Context, tree string, g driver.Generation, site string, sign driver.SignObject) ([]byte, error) {
	k, err := d.l.link(ctx, 0)
	if err != nil {
		return nil, err
	}
	return storecall.Upload(ctx, k, tree, g, site, sign)
}

// incoming is the stream of a call that receives a tree.
type incoming struct {
	*rpc.Stream
	op, object string
}

// Outcome implements driver.Receiver.
func (in *incoming) Outcome() error {
	failed, err := rpc.Receive[rpc.Failure](in.Stream, rpc.DefaultSize)
	if err != nil {
		return sshlink.Transient(&core.Error{Kind: core.Lost, Op: in.op, Object: in.object, Err: err})
	}
	if err := failed.Err(); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: in.op, Object: in.object, Err: err}
	}
	return nil
}

// Pass implements driver.DirectTransfer.
func (d directTransfer) Pass(ctx context.Context, t driver.Transfer, to driver.Receiver, cut func()) error {
	from, err := d.Outgoing(ctx, t)
	if err != nil {
		return err
	}
	defer from.Close()
	return sshlink.Arrival(to, from, &driver.Connection{Name: t.Via, Progress: t.Progress, Close: cut})
}
