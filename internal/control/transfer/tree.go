package transfer

import (
	"context"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Tree is a directory on the head's host of a site: the source of a checkpoint, or its
// destination.
type Tree struct {
	Site   *Site
	Remote string
	Size   int64 // in bytes; 0: not known

	connection *driver.Connection // direct to the other end; nil: through this machine
}

// Direct implements driver.Source and driver.Sink.
func (t Tree) Direct() *driver.Connection { return t.connection }

// Relayed is the tree by the route through this machine.
func (t Tree) Relayed() Tree {
	t.connection = nil
	return t
}

// transfer is that of a stream, which passes through this machine or goes directly.
func (t Tree) transfer() driver.Transfer {
	if t.connection == nil {
		return driver.Transfer{Remote: t.Remote}
	}
	return driver.Transfer{Remote: t.Remote, Via: t.connection.Name}
}

// Fetch implements driver.Source.
func (t Tree) Fetch(ctx context.Context, to, before string) error {
	return WithinSpace(ctx, driver.Transfer{
		Remote: t.Remote, Local: to, Again: true, Before: before, Progress: t.Site.Progress(core.PhaseCollect, "fetching the checkpoint", t.Size),
	}, t.Site.Lease.Fetch)
}

// Send implements driver.Source.
func (t Tree) Send(ctx context.Context) (io.ReadWriteCloser, error) {
	if far := t.Site.Lease.DirectTransfer(); far != nil {
		return far.Outgoing(ctx, t.transfer())
	}
	return treesync.Sending(ctx, t.Remote, t.Keeping()), nil
}

// Stage implements driver.Sink.
func (t Tree) Stage(ctx context.Context, from string) error {
	return t.Site.Lease.Stage(ctx, driver.Transfer{Local: from, Remote: t.Remote, Again: true, Progress: t.Restoring()})
}

// Receive implements driver.Sink.
func (t Tree) Receive(ctx context.Context) (driver.Receiver, error) {
	if far := t.Site.Lease.DirectTransfer(); far != nil {
		return far.Incoming(ctx, t.transfer())
	}
	return treesync.Receiving(ctx, t.Remote), nil
}

// Keeping returns what reports progress of the tree to a store, in bytes.
func (t Tree) Keeping() func(done int64) {
	return t.Site.Progress(core.PhaseCollect, "keeping the checkpoint", t.Size)
}

// Restoring returns what reports progress of the tree to the site, in bytes.
func (t Tree) Restoring() func(done int64) {
	return t.Site.Progress(core.PhaseStage, "bringing the checkpoint", t.Size)
}
