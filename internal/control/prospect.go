package control

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
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
	// CostPerHour is that of all hosts of the job.
	CostPerHour float64 `json:"cost_per_hour,omitempty"`
	// CostPerSlot is the same of a whole slot. Rented machines also cost before it, and until they are released.
	CostPerSlot float64 `json:"cost_per_slot,omitempty"`
}

// Prospects asks every site what it would do with a job, in the order in which
// a run would try them. It changes nothing.
func (c *Controller) Prospects(ctx context.Context, sub Submission) []Prospect {
	sub.Sites = sub.within()
	starts := forecasts{c, sub, "plan"}.all(ctx)
	list := make([]Prospect, 0, len(sub.Sites))
	for _, i := range sub.order(starts) {
		site, f := sub.Sites[i], starts[i]
		p := Prospect{
			Site: site.Name, Provider: site.Provider, Summary: f.Info.Summary, Usable: f.Err == nil, Start: f.At, StartReason: f.Why, Slots: f.Facts.Slots, Attended: attended(&sub.Job, f.Info),
			WaitSeconds: site.Wait.Seconds(), CostPerHour: site.Price * float64(sub.Job.Hosts()),
		}
		if f.Err != nil {
			p.Reason, p.Remedy = f.Err.Error(), core.Remedy(f.Err)
		}
		if slot := placement.SlotTime(site, f.Facts); slot > 0 {
			m := placement.FirstMargin(&sub.Job)
			p.NoCheckpoint = sub.Job.Checkpoint == nil
			p.SlotSeconds, p.ComputeSeconds, p.MarginSeconds, p.MarginReason = slot.Seconds(), max(0, slot-m.Total).Seconds(), m.Total.Seconds(), m.Why
			p.CostPerSlot = p.CostPerHour * slot.Hours()
		}
		p.NoticeSeconds, p.PreemptedSeconds = placement.ShortNotice(&sub.Job, f.Facts.Notice).Seconds(), placement.ShortNotice(&sub.Job, f.Facts.Preempted).Seconds()
		list = append(list, p)
	}
	return list
}

// attended reports whether a site that could start runs by itself cannot do so with the
// runs of this job.
func attended(job *spec.Job, info driver.Info) bool { return info.Unattended && len(job.Secrets) > 0 }

// Attended returns the sites of which that is so.
func (c *Controller) Attended(sub *Submission) (sites []spec.Site) {
	for _, site := range sub.Sites {
		if p, err := c.Provider(site); err == nil && attended(&sub.Job, p.Info()) { // an error of a site is reported when it is tried
			sites = append(sites, site)
		}
	}
	return sites
}
