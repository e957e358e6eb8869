package candidate

import (
	"context"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// Forecasts are those of sites: when each would start a run.
type Forecasts struct {
	Provider func(spec.Site) (driver.Provider, error)
	Binary   string
	Job      *spec.Job
	Sites    []spec.Site
	Owner    core.Owner
	// Only reports whether a site is asked; nil: all are.
	Only func(spec.Site) bool
}

// All asks all of them at once. The forecast of a site that is not asked is zero.
func (f Forecasts) All(ctx context.Context) []Forecast {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	list := make([]Forecast, len(f.Sites))
	var wg sync.WaitGroup
	for i, site := range f.Sites {
		if f.Only != nil && !f.Only(site) {
			continue
		}
		wg.Go(func() {
			if err := core.Caught(func() error { list[i] = f.of(ctx, site); return nil }); err != nil {
				list[i] = Forecast{Err: err}
			}
		})
	}
	wg.Wait()
	return list
}

// of asks one.
func (f Forecasts) of(ctx context.Context, site spec.Site) Forecast {
	p, err := f.Provider(site)
	if err != nil {
		return Forecast{Err: err}
	}
	s := Site{Spec: site, Provider: p, Job: f.Job, Binary: f.Binary}
	return s.Forecast(ctx, f.Owner)
}
