package cloud

import (
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// inventory implements driver.Inventory.
type inventory struct{ p *provider }

// Rented implements driver.Inventory: machines that have not ended, groups, and all else.
func (i inventory) Rented(ctx context.Context, q core.Owner) ([]driver.Rented, error) {
	p := i.p
	machines, merr := p.api.Owned(ctx, q)
	machines = slices.DeleteFunc(machines, func(m Machine) bool { return m.State == Ended })
	groups, gerr := p.api.Groups(ctx, q)
	others, oerr := p.api.Others(ctx, q)
	offers := make([]Offer, len(machines))
	for n, m := range machines {
		offers[n] = Offer{Type: m.Type, Zone: m.Zone, Spot: m.Spot}
	}
	if len(offers) > 0 {
		core.BestEffort(p.priced(ctx, offers)) // prices that are not known are left out
	}
	var all []driver.Rented
	for n, m := range machines {
		all = append(all, p.s.rented(m, offers[n].Price, others))
	}
	for _, o := range others {
		if o.Owner == (core.Owner{}) || o.Owner.Matches(q) {
			all = append(all, o)
		}
	}
	for _, g := range groups {
		all = append(all, driver.Rented{Kind: driver.RentedGroup, ID: g.ID, Name: g.Name, Owner: g.Owner, Since: g.Made, Free: true})
	}
	return all, errors.Join(merr, gerr, oerr, context.Cause(ctx))
}

// rented returns a machine as one of an inventory. A machine that is granted by a reservation ends with it at the latest, and
// the reservation costs.
func (s Settings) rented(m Machine, price *driver.Price, others []driver.Rented) driver.Rented {
	r := driver.Rented{
		Kind: driver.RentedMachine, ID: m.ID, Owner: m.Owner, Type: m.Type, Zone: m.Zone, State: m.State.String(), Since: m.Made,
		Free: m.State == Stopped && s.StopsFree, Price: price,
	}
	if m.Spot {
		r.Type = "spot " + r.Type
	}
	if m.State != Stopped { // a stopped machine runs nothing that could end it
		r.Ends, r.PowersOff = m.Expires, s.PowersOff && !m.Expires.IsZero()
	}
	at := slices.IndexFunc(others, func(o driver.Rented) bool { return o.Kind == driver.RentedReservation && o.Owner == m.Owner })
	if at >= 0 {
		r.Ends, r.PowersOff, r.Free = others[at].Ends, false, true
	}
	return r
}

// others returns what an owner has besides machines and groups, as far as these credentials may list it: a machine ends
// without that right, and the inventory reports it.
func (i inventory) others(ctx context.Context, q core.Owner) ([]driver.Rented, error) {
	all, err := i.p.api.Others(ctx, q)
	return slices.DeleteFunc(all, func(o driver.Rented) bool { return !o.Owner.Matches(q) }), supported(err)
}

// supported returns what is left of an error without the parts of it that are Unsupported: beside a missing right, there may
// be a question without an answer.
func supported(err error) error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		var left []error
		for _, e := range joined.Unwrap() {
			left = append(left, supported(e))
		}
		return errors.Join(left...)
	}
	if core.IsKind(err, core.Unsupported) {
		return nil
	}
	return err
}

// mostPriced is of how many offers the prices are asked for at once: the price list has a call for each type.
const mostPriced = 100

// Types implements driver.Inventory.
func (i inventory) Types(ctx context.Context, patterns []string) ([]driver.MachineType, error) {
	offers, err := i.p.api.Types(ctx, patterns)
	if err != nil {
		return nil, err
	}
	core.BestEffort(i.p.priced(ctx, offers[:min(len(offers), mostPriced)])) // prices that are not known are left out
	var all []driver.MachineType
	for _, o := range offers {
		at := slices.IndexFunc(all, func(t driver.MachineType) bool { return t.Name == o.Type })
		if at < 0 {
			at = len(all)
			all = append(all, driver.MachineType{Name: o.Type, Arch: o.Arch, Cores: o.Cores, Memory: o.Memory, GPUs: o.GPUs})
		}
		t := &all[at]
		if o.Zone != "" && !slices.Contains(t.Zones, o.Zone) {
			t.Zones = append(t.Zones, o.Zone)
		}
		price := &t.Price
		if o.Spot {
			price = &t.Spot
		}
		if o.Price != nil && (*price == nil || o.Price.Amount < (*price).Amount) {
			*price = o.Price
		}
	}
	return all, context.Cause(ctx)
}

// endOthers ends what an owner has left besides machines and groups.
func (i inventory) endOthers(ctx context.Context, owner core.Owner) error {
	others, err := i.others(ctx, owner)
	errs := []error{err}
	for _, o := range others {
		errs = append(errs, i.p.api.EndOther(ctx, o))
	}
	return errors.Join(errs...)
}
