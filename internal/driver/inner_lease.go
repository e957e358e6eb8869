package driver

import (
	"context"
	"net"
	"time"
)

// innerTime bounds the connection that asks for capabilities.
const innerTime = 20 * time.Second

// InnerLease has the calls of a lease that another lease answers, as its machines are reached by another driver: guests and
// rented machines by that for ssh. A lease embeds it.
type InnerLease struct {
	// Reach returns the other lease, and connects where nothing is connected.
	Reach func(ctx context.Context) (Lease, error)
}

// reached returns the other lease for its capabilities, or nil where nothing answers.
func (l InnerLease) reached() Lease {
	ctx, cancel := context.WithTimeout(context.Background(), innerTime)
	defer cancel()
	inner, err := l.Reach(ctx)
	if err != nil {
		return nil
	}
	return inner
}

// Launch implements Lease.
func (l InnerLease) Launch(ctx context.Context, c NodeCommand) error {
	inner, err := l.Reach(ctx)
	if err != nil {
		return err
	}
	return inner.Launch(ctx, c)
}

// Dial implements Lease.
func (l InnerLease) Dial(ctx context.Context, host int, socket string) (net.Conn, error) {
	inner, err := l.Reach(ctx)
	if err != nil {
		return nil, err
	}
	return inner.Dial(ctx, host, socket)
}

// Stage implements Lease.
func (l InnerLease) Stage(ctx context.Context, t Transfer) error {
	inner, err := l.Reach(ctx)
	if err != nil {
		return err
	}
	return inner.Stage(ctx, t)
}

// NodeAlive implements Lease.
func (l InnerLease) NodeAlive(ctx context.Context, host int) (bool, error) {
	inner, err := l.Reach(ctx)
	if err != nil {
		return false, err
	}
	return inner.NodeAlive(ctx, host)
}

// HasImage implements Lease.
func (l InnerLease) HasImage(ctx context.Context, host int, id string) (bool, error) {
	inner, err := l.Reach(ctx)
	if err != nil {
		return false, err
	}
	return inner.HasImage(ctx, host, id)
}

// TryRuntime implements Lease.
func (l InnerLease) TryRuntime(ctx context.Context, name string) (runtime, host string, err error) {
	inner, err := l.Reach(ctx)
	if err != nil {
		return "", "", err
	}
	return inner.TryRuntime(ctx, name)
}

// Matches implements Lease.
func (l InnerLease) Matches(ctx context.Context, tree string, m Manifest) (bool, error) {
	inner, err := l.Reach(ctx)
	if err != nil {
		return false, err
	}
	return inner.Matches(ctx, tree, m)
}

// DirectTransfer implements Lease.
func (l InnerLease) DirectTransfer() DirectTransfer {
	if inner := l.reached(); inner != nil {
		return inner.DirectTransfer()
	}
	return nil
}

// Downloads implements Lease.
func (l InnerLease) Downloads() Downloader {
	if inner := l.reached(); inner != nil {
		return inner.Downloads()
	}
	return nil
}
