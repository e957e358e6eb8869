package control

import (
	"cmp"
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// Prospect is what a site would do with a job submitted now.
type Prospect struct {
	Site     string `json:"site"`
	Provider string `json:"provider"`
	Summary  string `json:"summary"`
	// Usable sites come in the order in which a run would try them.
	Usable bool   `json:"usable"`
	Reason string `json:"reason,omitempty"` // why not
	Remedy string `json:"remedy,omitempty"`
	// Start is when the site means to grant the hosts; absent when it does not
	// say.
	Start time.Time `json:"start,omitzero"`
	// StartReason is why it would not do so at once.
	StartReason string `json:"start_reason,omitempty"`
	// Attended is set where only the run's secrets keep the site from starting it without a
	// controller: one has to run when the hosts are granted.
	Attended bool `json:"attended,omitempty"`
	// WaitSeconds is how long a run stays in the site's queue; 0: as long as it takes.
	WaitSeconds float64 `json:"wait_seconds,omitempty"`
	// Slots is the number of cores of each host, 0 when unknown.
	Slots int `json:"slots,omitempty"`
	// SlotSeconds is how long an attempt may take, and ComputeSeconds what is
	// left of it for computing, before the job is asked for a checkpoint; 0: no
	// limit.
	SlotSeconds    float64 `json:"slot_seconds,omitempty"`
	ComputeSeconds float64 `json:"compute_seconds,omitempty"`
	// MarginSeconds is how long before the slot's end the job is asked for its
	// checkpoint, or to end, and MarginReason what that is made of.
	MarginSeconds float64 `json:"margin_seconds,omitempty"`
	MarginReason  string  `json:"margin_reason,omitempty"`
	// NoCheckpoint reports that the job writes no checkpoint: it must end within
	// ComputeSeconds, or the run fails.
	NoCheckpoint bool `json:"no_checkpoint,omitempty"`
	// NoticeSeconds is how long the job has after the site has announced that it takes
	// its hosts back early; only where that is less than a checkpoint may take, and no
	// copies are kept meanwhile.
	NoticeSeconds float64 `json:"notice_seconds,omitempty"`
	// PreemptedSeconds is the same where it does so as other jobs come first.
	PreemptedSeconds float64 `json:"preempted_seconds,omitempty"`
	// SpotLosses is how many attempts on spot machines are lost in a row without progress until the next one uses
	// machines on demand; 0: none does.
	SpotLosses int `json:"spot_losses,omitempty"`
	// Placement is how the site places the hosts of the job, cluster or spread; "": as it likes. Where that cannot be and
	// PlacementRequired is not set, it places them as it likes.
	Placement         string `json:"placement,omitempty"`
	PlacementRequired bool   `json:"placement_required,omitempty"`
	// CostPerHour is that of all hosts of the job.
	CostPerHour float64 `json:"cost_per_hour,omitempty"`
	// CostPerSlot is the same of a whole slot. Rented machines also cost before it, and until they are released.
	CostPerSlot float64 `json:"cost_per_slot,omitempty"`
	// Currency is that of both; "": that of the sites file.
	Currency string `json:"currency,omitempty"`
	// PriceSource is where the price comes from, and PriceAsked when the cloud was asked; zero: the price is the user's.
	PriceSource driver.PriceSource `json:"price_source,omitempty"`
	PriceAsked  time.Time          `json:"price_asked,omitzero"`
	// NoPrice is why a price is not known that the site has.
	NoPrice string `json:"no_price,omitempty"`
}

// Prospects asks every site what it would do with a job, in the order in which
// a run would try them. It changes nothing.
func (c *Controller) Prospects(ctx context.Context, sub submission.Submission) []Prospect {
	sub.Sites = sub.BoundedSites()
	starts := c.Forecasts(ctx, &sub, "plan")
	list, sites := make([]Prospect, 0, len(sub.Sites)), sub.Priced(starts)
	for _, i := range sub.Order(starts) {
		site, f := sites[i], starts[i]
		p := Prospect{
			Site: site.Name, Provider: site.Provider, Summary: f.Info.Summary, Start: f.At, StartReason: f.Why, Slots: f.Facts.Slots, Attended: attended(&sub.Job, f.Info),
			WaitSeconds: site.Wait.Seconds(), CostPerHour: site.Price.Amount * float64(sub.Job.Hosts()), Currency: site.Price.Currency,
		}
		p.price(site, f.Facts)
		site, err := placement.Afford(site, &sub.Job, 0, f.Info.Billing)
		if f.Err = cmp.Or(f.Err, err); f.Err != nil {
			p.Reason, p.Remedy = f.Err.Error(), core.Remedy(f.Err)
		}
		p.Usable = f.Err == nil
		if slot := placement.SlotTime(site, f.Facts); slot > 0 {
			m := placement.FirstMargin(&sub.Job)
			p.NoCheckpoint = sub.Job.Checkpoint == nil
			p.SlotSeconds, p.ComputeSeconds, p.MarginSeconds, p.MarginReason = slot.Seconds(), max(0, slot-m.Total).Seconds(), m.Total.Seconds(), m.Why
			p.CostPerSlot = p.CostPerHour * slot.Hours()
		}
		if sub.Job.Hosts() > 1 {
			p.Placement, p.PlacementRequired = f.Facts.Placement, f.Facts.PlacementRequired
		}
		p.NoticeSeconds, p.PreemptedSeconds = placement.ShortNotice(&sub.Job, f.Facts.Notice).Seconds(), placement.ShortNotice(&sub.Job, f.Facts.Preempted).Seconds()
		if sub.Job.Interruptible() && site.SpotWithOnDemand() {
			p.SpotLosses = placement.MostSpotLosses
		}
		list = append(list, p)
	}
	return list
}

// price sets where the price of a site comes from.
func (p *Prospect) price(site spec.Site, f driver.Facts) {
	switch {
	case !site.AsksPrice() && site.Price.Amount > 0:
		p.PriceSource = driver.PriceOfUser
	case site.AsksPrice() && f.Price != nil:
		p.PriceSource, p.PriceAsked = f.Price.Source, f.Price.Asked
	case site.AsksPrice():
		p.NoPrice = f.NoPrice
	}
}

// attended reports whether a site that could start runs by itself cannot do so with the
// runs of this job.
func attended(job *spec.Job, info driver.Info) bool { return info.Unattended && job.NeedsController() }

// Attended returns the sites of which that is so.
func (c *Controller) Attended(sub *submission.Submission) (sites []spec.Site) {
	for _, site := range sub.Sites {
		if p, err := c.Provider(site); err == nil && attended(&sub.Job, p.Info()) { // an error of a site is reported when it is tried
			sites = append(sites, site)
		}
	}
	return sites
}
