package placement

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Margin is how a slot ends.
type Margin struct {
	// Total is how long before the slot's end the job is asked for its checkpoint, and
	// Grace the part of it that the job has to write that.
	Total, Grace time.Duration
	// Why names what Total is made of, for people; "": the job writes no checkpoint.
	Why string
}

// lessons is how many of the last checkpoints are learned from.
const lessons = 3

// FirstMargin returns the margin of a job of which no checkpoint is known yet. No margin
// is shorter.
func FirstMargin(job *spec.Job) Margin {
	if job.Checkpoint == nil {
		return Margin{2 * spec.LeastMargin, spec.LeastMargin, ""}
	}
	grace := CheckpointGrace(job)
	return Margin{grace + spec.LeastMargin, grace, fmt.Sprintf("`grace` of %s, and %s for the rest", grace, spec.LeastMargin)}
}

// text describes the end of a slot.
func (m Margin) text() string {
	if m.Why == "" {
		return fmt.Sprintf("the job is ended %s before", m.Total)
	}
	return fmt.Sprintf("the job is asked to save itself %s before it ends (%s)", m.Total, m.Why)
}

// LearnMargin returns the margin of an attempt on a site: what the last checkpoints took
// there, and half as much again, for they grow. Where none was made there, those of other
// sites count. At least half of the slot is the job's. With filesStay, the checkpoint can
// be collected after the hosts are gone.
func LearnMargin(job *spec.Job, site spec.Site, earlier []state.Attempt, filesStay bool) Margin {
	m := FirstMargin(job)
	measured := slices.DeleteFunc(slices.Clone(earlier), func(a state.Attempt) bool { return a.Saving+a.Bringing == 0 })
	if here := slices.DeleteFunc(slices.Clone(measured), func(a state.Attempt) bool { return a.Site != site.Name }); len(here) > 0 {
		measured = here
	}
	if len(measured) == 0 || job.Checkpoint == nil {
		return m
	}
	whole := func(a state.Attempt) time.Duration {
		if filesStay {
			return a.Saving
		}
		return a.Saving + a.Bringing
	}
	longest := slices.MaxFunc(measured[max(0, len(measured)-lessons):], func(a, b state.Attempt) int { return cmp.Compare(whole(a), whole(b)) })
	took := whole(longest)
	if learnt := took + took/2; learnt > m.Total {
		m.Grace = max(m.Grace, longest.Saving+longest.Saving/2)
		m.Total = learnt
		m.Why = fmt.Sprintf("the checkpoint of attempt %d took %s, and half as much again", longest.N, took.Round(100*time.Millisecond))
	}
	if most := max(site.Slot/2, FirstMargin(job).Total); site.Slot > 0 && m.Total > most {
		m.Total, m.Grace = most, min(m.Grace, most-spec.LeastMargin)
		m.Why += "; no more than half of the slot"
	}
	return m
}

// CheckpointGrace returns how long a job with checkpoints has to write one.
func CheckpointGrace(job *spec.Job) time.Duration {
	switch {
	case job.Checkpoint.Grace > 0:
		return job.Checkpoint.Grace
	case job.SavesVM():
		return spec.DefaultVMCheckpointGrace
	}
	return spec.DefaultCheckpointGrace
}

// ShortNotice returns a site's notice where a checkpoint of the job may take longer, and
// where no snapshots are kept before that; else 0.
func ShortNotice(job *spec.Job, notice time.Duration) time.Duration {
	if job.Checkpoint == nil || job.Checkpoint.Every > 0 || notice >= CheckpointGrace(job) {
		return 0
	}
	return notice
}
