package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// margin is how a slot ends.
type margin struct {
	// total is how long before the slot's end the job is asked to save itself,
	// and grace how long of it is the job's own.
	total, grace time.Duration
	why          string
}

// lessons is how many of the last checkpoints are learned from.
const lessons = 3

// firstMargin is that of a job of which no checkpoint is known yet: never less.
func firstMargin(job *spec.Job) margin {
	if job.Checkpoint == nil {
		return margin{2 * defaultGrace, defaultGrace, ""}
	}
	grace := checkpointGrace(job)
	return margin{grace + defaultGrace, grace, fmt.Sprintf("`grace` of %s, and %s for the rest", grace, defaultGrace)}
}

// hasTime tells what a site whose slot leaves a job no time to compute has
// against it.
func hasTime(site spec.Site, job *spec.Job) error {
	m := firstMargin(job)
	if site.Slot == 0 || site.Slot > m.total {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site.Name, Remedy: fmt.Sprintf("Raise the site's `slot` well above %s.", m.total),
		Err: fmt.Errorf("its slot of %s leaves no time to compute: %s", site.Slot, m.text()),
	}
}

// lasts tells the same of hosts that were granted before, and whose time is nearly over:
// what, names them.
func lasts(site spec.Site, what string, facts driver.Facts, m margin) error {
	if facts.Left == 0 || facts.Left > m.total {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site.Name, Remedy: fmt.Sprintf("Ask for an allocation well above %s, or name another site.", m.total),
		Err: fmt.Errorf("%s ends in %s, which leaves no time to compute: %s", what, facts.Left.Round(time.Second), m.text()),
	}
}

// text tells how a slot ends.
func (m margin) text() string {
	if m.why == "" {
		return fmt.Sprintf("the job is ended %s before", m.total)
	}
	return fmt.Sprintf("the job is asked to save itself %s before it ends (%s)", m.total, m.why)
}

// learnMargin is that of an attempt on a site: what the last checkpoints took
// there, or elsewhere where none was made there, and half as much again, for
// they grow. It leaves at least half of the slot to the job.
func learnMargin(job *spec.Job, site spec.Site, earlier []state.Attempt, filesStay bool) margin {
	m := firstMargin(job)
	measured := slices.DeleteFunc(slices.Clone(earlier), func(a state.Attempt) bool { return a.Saving+a.Bringing == 0 })
	if here := slices.DeleteFunc(slices.Clone(measured), func(a state.Attempt) bool { return a.Site != site.Name }); len(here) > 0 {
		measured = here
	}
	if len(measured) == 0 || job.Checkpoint == nil {
		return m
	}
	whole := func(a state.Attempt) time.Duration {
		if filesStay { // then it comes home when the hosts are gone already
			return a.Saving
		}
		return a.Saving + a.Bringing
	}
	longest := slices.MaxFunc(measured[max(0, len(measured)-lessons):], func(a, b state.Attempt) int { return cmp.Compare(whole(a), whole(b)) })
	took := whole(longest)
	if learnt := took + took/2; learnt > m.total {
		m.grace = max(m.grace, longest.Saving+longest.Saving/2)
		m.total = learnt
		m.why = fmt.Sprintf("the checkpoint of attempt %d took %s, and half as much again", longest.N, took.Round(100*time.Millisecond))
	}
	if most := max(site.Slot/2, firstMargin(job).total); site.Slot > 0 && m.total > most {
		m.total, m.grace = most, min(m.grace, most-defaultGrace)
		m.why += "; no more than half of the slot"
	}
	return m
}

// measure notes how long a checkpoint took whose head has ended: from asking for
// it, by the head's clock.
func (a *attempt) measure(r *protocol.Result) {
	if !r.Continue {
		return
	}
	a.rec.Saving = r.Phases[protocol.PhaseCheckpoint]
	if took := r.Ended.Sub(a.asked); !a.asked.IsZero() && took > a.rec.Saving {
		a.rec.Saving = took
	}
}
