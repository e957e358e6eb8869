package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// afford returns a site, with a slot that ends before the run has cost more there than it may, and its provider. Those
// attempts count that began before one; before 0: all.
func afford(ctx context.Context, r *controlled, site spec.Site, before int) (spec.Site, driver.Provider, error) {
	provider, err := r.c.Provider(site)
	if err != nil || site.MaxCost == 0 {
		return site, provider, err
	}
	attempts, err := r.c.Store.Attempts(ctx, r.run.ID)
	if err != nil {
		return site, nil, recorded(err)
	}
	spent, now, price := 0.0, time.Now(), state.Price{Hour: site.Price.Amount, Currency: site.Price.Currency, Billing: provider.Info().Billing}
	for _, at := range attempts {
		if at.Site == site.Name && (before == 0 || at.N < before) {
			cost := at.Cost(price, now)
			if in := at.Currency(price); cost > 0 && in != price.Currency {
				return site, nil, &core.Error{
					Kind: core.Unsupported, Op: "use site", Object: site.Name, Err: fmt.Errorf("attempt %d has cost %q there, and `max_cost` is in %q", at.N, in, price.Currency),
					Remedy: "Write the site's `price` in the currency that it had, or name another site.",
				}
			}
			spent += cost
		}
	}
	if site, err = placement.Afford(site, &r.sub.Job, spent, price.Billing); err != nil {
		return site, nil, err
	}
	provider, err = r.c.Provider(site)
	return site, provider, err
}

// withPrice returns a site with the price that its provider is asked for, where that limits the cost and is not known yet.
func withPrice(ctx context.Context, r *controlled, site spec.Site) (spec.Site, error) {
	if site.MaxCost == 0 || !site.AsksPrice() || site.Price.Amount > 0 {
		return site, nil
	}
	provider, err := r.c.Provider(site)
	if err != nil {
		return site, err
	}
	facts, err := provider.Probe(ctx)
	if err == nil {
		err = placement.CheckFacts(site.Name, facts, r.sub.Job.Hosts())
	}
	if p := facts.Price; err == nil && p != nil {
		site = site.WithPrice(spec.Price{Amount: p.Amount, Most: p.Most, Currency: p.Currency})
	}
	return site, err
}

// usePrice sets the price of the attempt to that of the hosts of its lease, where the provider is asked for prices. The
// site's first offer may have had another price.
func (at *siteLease) usePrice(lease driver.Lease) {
	if p := lease.Price(); p != nil && at.site.AsksPrice() {
		at.site = at.site.WithPrice(spec.Price{Amount: p.Amount, Currency: p.Currency})
		at.rec.Price = at.price()
	}
}

// price is what a host of the lease costs; nil: nothing.
func (at *siteLease) price() *state.Price {
	if at.site.Price.Amount == 0 {
		return nil
	}
	return &state.Price{Hour: at.site.Price.Amount, Currency: at.site.Price.Currency, Hosts: at.rec.of.sub.Job.Hosts(), Billing: at.provider.Info().Billing}
}
