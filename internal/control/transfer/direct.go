package transfer

import (
	"context"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// directStore is a store with which a site's host exchanges trees directly, where that is
// possible, else through this machine.
type directStore struct {
	driver.Checkpoints
	s           *Site
	site, place driver.Connector
}

// Keep implements driver.Checkpoints.
func (d directStore) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (m driver.Manifest, made bool, err error) {
	t := from.(Tree)
	err = d.s.Transfer(ctx, Route{d.site, d.place, d.s.Name, ""}, t, t.Keeping(), func(t Tree) error {
		var err error
		m, made, err = d.Checkpoints.Keep(ctx, g, site, t)
		return err
	})
	return m, made, err
}

// Restore implements driver.Checkpoints.
func (d directStore) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	t := to.(Tree)
	return d.s.Transfer(ctx, Route{d.place, d.site, "", d.s.Name}, t, t.Restoring(), func(t Tree) error {
		return d.Checkpoints.Restore(ctx, k, t)
	})
}

// Route has the two ends of a transfer.
type Route struct {
	From, To driver.Connector
	// FromName and ToName are the names of sites; "": the store.
	FromName, ToName string
}

// Transfer calls do with a tree that has a direct connection along the route, where there
// can be one. Where the connection breaks, do is called again with the relayed tree.
func (s *Site) Transfer(ctx context.Context, r Route, t Tree, progress func(int64), do func(Tree) error) error {
	c, err := s.Routes.open(ctx, r)
	if core.IsKind(err, core.Unsupported) {
		s.RecordRoute(ctx, r.relayed(err))
	}
	if err != nil { // of an agent that does not answer now, the relayed transfer reports more
		return do(t)
	}
	defer c.close()
	s.RecordRoute(ctx, event.Route{From: r.FromName, To: r.ToName, Direct: true, Address: c.Addr})
	t.connection = &driver.Connection{Name: c.Name, Progress: progress, Close: c.close}
	err = do(t)
	broke := core.IsKind(err, core.Lost) && ctx.Err() == nil
	s.Routes.used(r, broke)
	if !broke {
		return err
	}
	c.close()
	s.RecordRoute(ctx, r.relayed(&core.Error{Op: "the connection between them broke", Err: err}))
	return do(t.Relayed())
}

// relayed is the event of a route through this machine, and of its reason.
func (r Route) relayed(why error) event.Route {
	cause := event.CauseOf(why)
	return event.Route{From: r.FromName, To: r.ToName, Cause: &cause}
}
