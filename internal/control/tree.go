package control

import (
	"context"
	"io"

	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/treesync"
)

// tree is a directory on the head's host, as what a checkpoint is made of and
// as where one goes.
type tree struct {
	a      *attempt
	remote string
	way    *driver.Connection // straight to the store or from it; nil: through here
	size   int64              // in bytes; 0: not known
}

// Direct implements driver.Source and driver.Sink.
func (t tree) Direct() *driver.Connection { return t.way }

// transfer is that of a stream, which comes here or goes straight.
func (t tree) transfer() driver.Transfer {
	if t.way == nil {
		return driver.Transfer{Remote: t.remote}
	}
	return driver.Transfer{Remote: t.remote, Via: t.way.Name}
}

// Fetch implements driver.Source.
func (t tree) Fetch(ctx context.Context, to, before string) error {
	return withinSpace(ctx, driver.Transfer{
		Remote: t.remote, Local: to, Again: true, Before: before, Progress: t.told(protocol.PhaseCollect, "fetching the checkpoint"),
	}, t.a.lease.Fetch)
}

// Send implements driver.Source.
func (t tree) Send(ctx context.Context) (io.ReadWriteCloser, error) {
	if far := t.a.lease.DirectTransfer(); far != nil {
		return far.Outgoing(ctx, t.transfer())
	}
	return treesync.Sending(ctx, t.remote, t.keeping()), nil
}

// Stage implements driver.Sink.
func (t tree) Stage(ctx context.Context, from string) error {
	return t.a.lease.Stage(ctx, driver.Transfer{Local: from, Remote: t.remote, Again: true, Progress: t.bringing()})
}

// Receive implements driver.Sink.
func (t tree) Receive(ctx context.Context) (driver.Receiver, error) {
	if far := t.a.lease.DirectTransfer(); far != nil {
		return far.Incoming(ctx, t.transfer())
	}
	return treesync.Receiving(ctx, t.remote), nil
}

func (t tree) keeping() func(int64) { return t.told(protocol.PhaseCollect, "keeping the checkpoint") }

func (t tree) bringing() func(int64) { return t.told(protocol.PhaseStage, "bringing the checkpoint") }

func (t tree) told(p protocol.Phase, what string) func(int64) {
	return t.a.c.toward(p, what, t.size)
}
