package control

import (
	"context"
	"sync"

	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// forecasts are those of the sites of a submission: when each would start it.
type forecasts struct {
	c   *Controller
	sub Submission
	run string
}

// all asks all sites at once.
func (f forecasts) all(ctx context.Context) []candidate.Forecast {
	ctx, cancel := context.WithTimeout(ctx, candidate.Timeout)
	defer cancel()
	list := make([]candidate.Forecast, len(f.sub.Sites))
	var wg sync.WaitGroup
	for i, site := range f.sub.Sites {
		wg.Go(func() {
			if err := core.Caught(func() error { list[i] = f.of(ctx, site); return nil }); err != nil {
				list[i] = candidate.Forecast{Err: err}
			}
		})
	}
	wg.Wait()
	return list
}

// of asks one.
func (f forecasts) of(ctx context.Context, site spec.Site) candidate.Forecast {
	p, err := f.c.Provider(site)
	if err != nil {
		return candidate.Forecast{Err: err}
	}
	s := candidate.Site{Spec: site, Provider: p, Job: &f.sub.Job, Binary: f.c.Binary}
	return s.Forecast(ctx, core.Owner{User: f.c.Store.User(), Run: f.run, Attempt: 1})
}
