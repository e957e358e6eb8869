package runner

import (
	"context"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/core"
)

// begin carries an attempt from its lease to its launched nodes. Where a site
// has a queue, files are brought there while we wait in it; where it can start
// the nodes by itself, it is left to do so.
func (a *attempt) begin(ctx context.Context) error {
	early := len(a.at.lease.Hosts()) > 0
	if early {
		if err := a.staging.stage(ctx); err != nil {
			return err
		}
		if err := a.staging.stageAutostart(ctx); err != nil {
			return err
		}
	}
	if err := a.queue.await(ctx); err != nil {
		return err
	}
	if a.rec.autostarted() {
		return a.queue.launchedThere(ctx)
	}
	if !early {
		a.rec.on(machinery.HostsReady)
		if err := a.staging.stage(ctx); err != nil {
			return err
		}
	}
	return a.start(ctx)
}

// start launches the nodes.
func (a *attempt) start(ctx context.Context) error {
	private, err := a.secrets(ctx)
	if err != nil {
		return err
	}
	o, err := a.staging.launchSpec(ctx, private.values)
	if err != nil {
		return err
	}
	if a.at.site.Slot > 0 {
		o.Plan.Slot = max(time.Until(a.rec.Granted.Add(a.at.site.Slot)), 1)
	}
	configs, err := o.Configs(a.at.lease)
	if err != nil {
		return err
	}
	configs[0].BucketKeys = private.keys
	err = a.rec.putUnlessStopped(ctx, func() {
		a.rec.on(machinery.Launch)
		a.rec.Span = a.at.timeLimit()
	})
	if err != nil {
		return err
	}
	err = a.rec.timed(ctx, core.PhaseLaunch, func() error { return launch.Nodes(ctx, a.at.lease, configs, a.watch.connect) })
	if q := a.at.lease.Queue(); q != nil && err != nil { // they may have been released just before
		if _, rerr := candidate.Ready(ctx, q); candidate.Missed(rerr) {
			a.rec.on(machinery.Expired)
			err = rerr
		}
	}
	if err != nil || a.rec.Span == 0 {
		return err
	}
	a.rec.Begun = uptime(a.c.clock) // the slot of the head has begun before
	return a.rec.put(ctx)
}
