package placement

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// CheckSlot returns an error where the slot of a site leaves a job no time to compute.
// Unsupported: another site may have a longer one.
func CheckSlot(site spec.Site, job *spec.Job) error {
	m := FirstMargin(job)
	if site.Slot == 0 || site.Slot > m.Total {
		return nil
	}
	e := &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site.Name, Remedy: fmt.Sprintf("Raise the site's `slot` well above %s.", m.Total),
		Err: fmt.Errorf("its slot of %s leaves no time to compute: %s", site.Slot, m.text()),
	}
	if site.Slot == job.Time {
		e.Remedy = fmt.Sprintf("Raise the job's `time` well above %s.", m.Total)
		e.Err = fmt.Errorf("the job's `time` of %s leaves none to compute: %s", job.Time, m.text())
	}
	return e
}

// CheckLeft returns an error where hosts that were granted before leave a job no time to
// compute. what names them. Unsupported: another site may have more time.
func CheckLeft(site spec.Site, what string, facts driver.Facts, m Margin) error {
	if facts.Left == 0 || facts.Left > m.Total {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site.Name, Remedy: fmt.Sprintf("Ask for an allocation well above %s, or name another site.", m.Total),
		Err: fmt.Errorf("%s ends in %s, which leaves no time to compute: %s", what, facts.Left.Round(time.Second), m.text()),
	}
}

// SlotText says how long an attempt may take on a site that has a slot.
func SlotText(site spec.Site, job *spec.Job) string {
	if site.Slot == job.Time {
		return fmt.Sprintf("the attempt has %s (`time`)", site.Slot)
	}
	return fmt.Sprintf("its slot is %s", site.Slot)
}

// releaseTime is how long the release of hosts may take that cost until then.
const releaseTime = spec.LeastMargin

// Afford returns a site with a slot that ends before the run has cost more there than `max_cost` allows. spent is what
// its earlier attempts there have cost. Unsupported: nothing is left for a slot, or the price is not known; another site
// may take the run.
func Afford(site spec.Site, job *spec.Job, spent float64, b core.Billing) (spec.Site, error) {
	hourly := site.Price.Highest() * float64(job.Hosts())
	switch {
	case site.MaxCost == 0, hourly == 0 && !site.AsksPrice():
		return site, nil
	case hourly == 0:
		return site, &core.Error{
			Kind: core.Unsupported, Op: "use site", Object: site.Name, Err: errors.New("it has a `max_cost`, and its price is not known"),
			Remedy: "Write `price:` at the site: what a host costs in an hour.",
		}
	}
	left := time.Duration(math.MaxInt64)
	if hours := (site.MaxCost - spent) / hourly; hours < left.Hours() {
		left = time.Duration(max(0, hours) * float64(time.Hour))
	}
	left -= b.Boot + releaseTime
	if m := FirstMargin(job); left <= m.Total {
		return site, &core.Error{
			Kind: core.Unsupported, Op: "use site", Object: site.Name, Remedy: "Raise the site's `max_cost`, or name another site.",
			Err: fmt.Errorf("of the `max_cost` of %g the run has cost %.4g here, and the rest leaves no time to compute: an hour of its hosts may cost %g", site.MaxCost, spent, hourly),
		}
	}
	return site.Within(left.Truncate(time.Second)), nil
}

// SlotTime returns how long an attempt on a site can take now; 0: as long as it takes.
func SlotTime(site spec.Site, facts driver.Facts) time.Duration {
	if facts.Left > 0 && (site.Slot == 0 || facts.Left < site.Slot) {
		return facts.Left
	}
	return site.Slot
}
