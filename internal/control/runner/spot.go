package runner

import (
	"context"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/spec"
)

// withoutSpot returns a site without its spot machines, and how many attempts on such were lost, where that happened too
// often in a row; else the site, and 0.
func withoutSpot(ctx context.Context, r *controlled, site spec.Site) (spec.Site, int, error) {
	if !site.SpotWithOnDemand() {
		return site, 0, nil
	}
	attempts, err := r.c.Store.Attempts(ctx, r.run.ID)
	if err != nil {
		return site, 0, recorded(err)
	}
	lost := placement.SpotLosses(attempts, site.Provider)
	if lost < placement.MostSpotLosses {
		return site, 0, nil
	}
	return site.OnDemand(), lost, nil
}
