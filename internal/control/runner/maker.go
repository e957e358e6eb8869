package runner

import (
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

func (d *drive) jobImage() core.Image { return *d.image }

func (d *drive) newAttempt(site spec.Site) state.Attempt {
	d.attempts++
	rec := state.Attempt{Run: d.run.ID, N: d.attempts, State: state.Acquiring, Autostart: state.NoAutostart, Record: state.Record{Why: d.why, Binary: d.c.Digest, Protocol: plan.Version}, Site: site.Name, Provider: site.Provider, Started: time.Now()}
	rec.Phases = map[core.Phase]time.Duration{core.PhaseImage: d.imageTook}
	d.imageTook = 0
	return rec
}

func (d *drive) connected(l driver.Lease) { d.leases = append(d.leases, l) }

func (d *drive) lend(a *attempt) { d.lends = a }

func (d *drive) lent() *attempt { return d.lends }
