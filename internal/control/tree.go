package control

import (
	"context"
	"io"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/node/protocol"
)

// tree is a directory on the head's host, as what a checkpoint is made of and
// as where one goes.
type tree struct {
	a      *attempt
	remote string
}

// Fetch implements checkpoint.Source.
func (t tree) Fetch(ctx context.Context, to, before string) error {
	transfer := driver.Transfer{Remote: t.remote, Local: to, Again: true, Before: before, Progress: t.told(protocol.PhaseFetch, "fetching the checkpoint")}
	return t.a.lease.Fetch(ctx, transfer)
}

// Send implements checkpoint.Source.
func (t tree) Send(ctx context.Context) (io.ReadWriteCloser, error) {
	if far, ok := t.a.lease.(driver.Streams); ok {
		return far.Outgoing(ctx, driver.Transfer{Remote: t.remote})
	}
	return filestream.Sending(ctx, t.remote, t.told(protocol.PhaseFetch, "keeping the checkpoint")), nil
}

// Stage implements checkpoint.Sink.
func (t tree) Stage(ctx context.Context, from string) error {
	return t.a.lease.Stage(ctx, driver.Transfer{Local: from, Remote: t.remote, Progress: t.told(protocol.PhaseStage, "bringing the checkpoint")})
}

// Receive implements checkpoint.Sink.
func (t tree) Receive(ctx context.Context) (checkpoint.Receiver, error) {
	if far, ok := t.a.lease.(driver.Streams); ok {
		return far.Incoming(ctx, driver.Transfer{Remote: t.remote})
	}
	return filestream.Receiving(ctx, t.remote), nil
}

func (t tree) told(p protocol.Phase, what string) func(int64) {
	return func(done int64) { t.a.progress(p)(what, done, 0) }
}
