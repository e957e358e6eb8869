package candidate

import (
	"cmp"
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Forecast is when a site would start a run, as far as it can say.
type Forecast struct {
	At    time.Time
	Why   string // not at once
	Facts driver.Facts
	Info  driver.Info
	Err   error
}

// Timeout bounds how long one site may take to answer.
const Timeout = 30 * time.Second

// Forecast asks the site when it would start the run of an owner.
func (s *Site) Forecast(ctx context.Context, o core.Owner) Forecast {
	f := Forecast{Info: s.Provider.Info()}
	if f.Err = placement.CheckSize(s.Spec, s.Job); f.Err != nil { // it need not be asked
		return f
	}
	if f.Facts, f.Err = s.Provider.Probe(ctx); f.Err == nil {
		f.Err = cmp.Or(placement.CheckSlot(s.Spec, s.Job), placement.CheckVolume(s.Spec, s.Job), placement.CheckMounts(s.Spec.Name, s.Job, f.Facts), placement.CheckFacts(s.Spec.Name, f.Facts, s.Job.Hosts()), placement.CheckLeft(s.Spec, f.Info.Summary, f.Facts, placement.FirstMargin(s.Job)))
	}
	if f.Err == nil {
		_, f.Err = s.Mounts(ctx)
	}
	if f.Err != nil {
		return f
	}
	f.At = time.Now()
	if q := s.Provider.Queue(); q != nil {
		var w driver.Waiting
		w, f.Err = q.Forecast(ctx, s.Request(o))
		f.At, f.Why = w.Expected, w.Reason
	}
	return f
}
