package ssh

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
)

// leaseQueue is the queue of the login node's provider, in which a lease waits.
type leaseQueue struct{ l *lease }

// Ready implements driver.LeaseQueue.
func (q leaseQueue) Ready(ctx context.Context) (driver.Waiting, error) {
	l := q.l
	g, err := ask(ctx, l, 0, hostcall.CallReady, l.call(0, 0))
	if err != nil {
		return driver.Waiting{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.h.Nodes
	if asked == 0 { // of a handle of an earlier bee
		asked = len(g.Hosts)
	}
	if g.Lost == "" {
		if err := g.Matches(l.owner, asked, l.hosts, l.deadline); err != nil {
			return driver.Waiting{}, err
		}
	} else if err := core.CheckHosts(g.Hosts, asked, nil); err != nil {
		return driver.Waiting{}, err
	}
	l.hosts, l.deadline = g.Hosts, g.Deadline
	if g.Lost != "" {
		return g.Waiting, &core.Error{Kind: core.Lost, Err: errors.New(g.Lost)}
	}
	return g.Waiting, nil
}

// leaseAutostart has the login node's provider start the nodes of a lease.
type leaseAutostart struct{ l *lease }

// StageSpec implements driver.Autostart, where the login node's provider does.
func (a leaseAutostart) StageSpec(ctx context.Context, launchSpec []byte) error {
	c := a.l.call(0, 0)
	c.Config = launchSpec
	_, err := ask(ctx, a.l, 0, hostcall.CallStageSpec, c)
	return err
}

// EnableSpec implements driver.Autostart.
func (a leaseAutostart) EnableSpec(ctx context.Context) error {
	_, err := ask(ctx, a.l, 0, hostcall.CallEnableSpec, a.l.call(0, 0))
	return err
}

// Attend implements driver.Autostart.
func (a leaseAutostart) Attend(ctx context.Context) error {
	_, err := ask(ctx, a.l, 0, hostcall.CallAttend, a.l.call(0, 0))
	return err
}
