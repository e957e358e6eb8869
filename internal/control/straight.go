package control

import (
	"context"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// straight gives the run's store as one that the site's host speaks with, where
// both have an agent that may be within reach of the other's.
func (a *attempt) straight(store driver.Checkpoints) driver.Checkpoints {
	site, place := a.lease.DirectTransfer(), a.where.Meeter()
	if site == nil || place == nil {
		return store
	}
	return straight{store, a, site, place}
}

// straight is a store that trees come to, and come from, straight, where that is
// possible, else through this machine.
type straight struct {
	driver.Checkpoints
	a           *attempt
	site, place driver.Meeter
}

// Keep implements driver.Checkpoints.
func (s straight) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (m driver.Manifest, made bool, err error) {
	t := from.(tree)
	err = s.a.carry(ctx, route{s.site, s.place, s.a.site.Name, ""}, t, t.keeping(), func(t tree) error {
		var err error
		m, made, err = s.Checkpoints.Keep(ctx, g, site, t)
		return err
	})
	return m, made, err
}

// Restore implements driver.Checkpoints.
func (s straight) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	t := to.(tree)
	return s.a.carry(ctx, route{s.place, s.site, "", s.a.site.Name}, t, t.bringing(), func(t tree) error {
		return s.Checkpoints.Restore(ctx, k, t)
	})
}

// route is where something travels.
type route struct {
	from, to driver.Meeter
	// fromName and toName are the names of sites; "": the store.
	fromName, toName string
}

// carry does something by which a tree travels. A way that breaks is not waited for:
// the rest goes through here.
func (a *attempt) carry(ctx context.Context, r route, t tree, told func(int64), do func(tree) error) error {
	way, err := a.c.Ways.open(ctx, r)
	if core.IsKind(err, core.Unsupported) {
		a.recordRoute(ctx, r.relayed(err))
	}
	if err != nil { // of an agent that does not answer now, it tells more
		return do(t)
	}
	defer way.close()
	a.recordRoute(ctx, event.Route{From: r.fromName, To: r.toName, Direct: true, Address: way.addr})
	t.way = &driver.Connection{Name: way.name, Progress: told, Close: way.close}
	err = do(t)
	broke := core.IsKind(err, core.Lost) && ctx.Err() == nil
	a.c.Ways.used(r, broke)
	if !broke {
		return err
	}
	way.close()
	a.recordRoute(ctx, r.relayed(&core.Error{Op: "the connection between them broke", Err: err}))
	t.way = nil
	return do(t)
}

// relayed is the event of a route through this machine, and of why.
func (r route) relayed(why error) event.Route {
	cause := event.CauseOf(why)
	return event.Route{From: r.fromName, To: r.toName, Cause: &cause}
}
