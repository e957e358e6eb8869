package store

import (
	"context"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/treesync"
)

// FetchFunc is a driver.Source for stores that are a directory here.
type FetchFunc func(to, before string) error

// Fetch implements driver.Source.
func (f FetchFunc) Fetch(_ context.Context, to, before string) error { return f(to, before) }

// Direct implements driver.Source.
func (f FetchFunc) Direct() *driver.Connection { return nil }

// Send implements driver.Source.
func (f FetchFunc) Send(context.Context) (io.ReadWriteCloser, error) {
	return nil, errors.New("it can only be fetched")
}

// Tree is a directory of this machine, as a source and as a sink.
type Tree string

// Fetch implements driver.Source.
func (t Tree) Fetch(ctx context.Context, to, _ string) error {
	return treesync.Copy(ctx, string(t), to, nil)
}

// Send implements driver.Source.
func (t Tree) Send(ctx context.Context) (io.ReadWriteCloser, error) {
	return treesync.Sending(ctx, string(t), nil), nil
}

// Direct implements driver.Source and driver.Sink.
func (t Tree) Direct() *driver.Connection { return nil }

// Stage implements driver.Sink.
func (t Tree) Stage(ctx context.Context, from string) error {
	return treesync.Copy(ctx, from, string(t), nil)
}

// Receive implements driver.Sink.
func (t Tree) Receive(ctx context.Context) (driver.Receiver, error) {
	return treesync.Receiving(ctx, string(t)), nil
}
