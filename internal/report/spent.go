package report

import (
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// Use is a use of a run's time. Their sum is the time from the submission of a run to its
// end.
type Use string

// The uses, as `bee show --json` has them.
const (
	OnNoSite     Use = "waiting" // no site has it
	OnQueue      Use = "queue"
	OnImage      Use = "image" // built, pulled, unpacked, spread
	OnTransfer   Use = "transfer"
	OnStart      Use = "start"
	OnCompute    Use = "compute"
	OnCheckpoint Use = "checkpoint"
	OnUnattended Use = "unattended" // the attempt had ended, and no controller ran
	OnRelease    Use = "release"
	OnLoss       Use = "lost"    // of attempts whose head was lost with its report
	OnOther      Use = "other"   // between the phases of an attempt
	OnCurrent    Use = "current" // of the attempt that is not over, as far as its head has reported no phases
)

// UseText is a use with its words for people.
type UseText struct {
	On   Use
	Text string
}

// Uses are all uses in the order of `bee show`.
func Uses() []UseText {
	return []UseText{
		{OnCompute, "computing"},
		{OnCheckpoint, "writing checkpoints"},
		{OnImage, "getting the image"},
		{OnTransfer, "transferring files"},
		{OnStart, "starting"},
		{OnQueue, "waiting for hosts"},
		{OnNoSite, "before and between attempts"},
		{OnLoss, "in lost attempts"},
		{OnUnattended, "ended, without a controller"},
		{OnRelease, "releasing hosts"},
		{OnOther, "other"},
		{OnCurrent, "in the current attempt"},
	}
}

// phaseOf returns the use that a phase belongs to.
func phaseOf(p core.Phase) Use {
	switch p {
	case core.PhaseAcquire, core.PhaseQueue:
		return OnQueue
	case core.PhaseImage:
		return OnImage
	case core.PhaseStage, core.PhaseCollect, core.PhaseDrain:
		return OnTransfer
	case core.PhaseLaunch, core.PhaseJoin, core.PhaseStart, core.PhaseSetup:
		return OnStart
	case core.PhaseRun, core.PhasePost:
		return OnCompute
	case core.PhaseCheckpoint:
		return OnCheckpoint
	case core.PhaseUnattended:
		return OnUnattended
	case core.PhaseRelease:
		return OnRelease
	}
	return OnOther
}

// SpentOfCase adds up the uses of the time of a case that shares a lease, until its end or now:
// they are those of its pack, with what that does for other cases.
func SpentOfCase(c, pack state.Run, attempts []state.Attempt, now time.Time) map[Use]time.Duration {
	if pack.Created = c.Created; c.Ended.IsZero() {
		return Spent(pack, attempts, now)
	}
	over := pack.Ended.IsZero() || c.Ended.Before(pack.Ended)
	pack.Ended = c.Ended
	attempts = slices.DeleteFunc(slices.Clone(attempts), func(a state.Attempt) bool { return a.Started.After(c.Ended) })
	if last := len(attempts) - 1; last >= 0 && over && (attempts[last].Ended.IsZero() || attempts[last].Ended.After(c.Ended)) {
		attempts[last] = endedWithin(attempts[last], c.Ended)
	}
	return Spent(pack, attempts, now)
}

// endedWithin returns an attempt as a case saw it that has ended while the attempt computed.
func endedWithin(a state.Attempt, end time.Time) state.Attempt {
	before := map[core.Phase]time.Duration{}
	for _, phases := range []map[core.Phase]time.Duration{a.Phases, a.HeadPhases} { // the latter are known while it computes
		for p, took := range phases {
			if core.PhaseRun.After(p) {
				before[p] += took
			}
		}
	}
	a.Phases, a.Ended = before, end
	before[core.PhaseRun] = max(0, a.Nameless(end))
	return a
}

// Spent adds up the uses of a run's time until its end, or now. A case that shares a lease has
// none here: see SpentOfCase.
func Spent(r state.Run, attempts []state.Attempt, now time.Time) map[Use]time.Duration {
	sums := map[Use]time.Duration{}
	if r.Case.Pack != "" {
		return sums
	}
	end := now
	if !r.Ended.IsZero() {
		end = r.Ended
	}
	since := r.Created // until when all has a name
	for i, at := range attempts {
		until := at.Ended
		if until.IsZero() || until.After(end) {
			until = end
		}
		if i+1 < len(attempts) && until.After(attempts[i+1].Started) { // it is released while the next one runs
			until = attempts[i+1].Started
		}
		for p, took := range at.Phases {
			sums[phaseOf(p)] += took
		}
		sums[OnNoSite] += at.Started.Sub(since)
		switch rest := at.Nameless(until); {
		case rest < 0: // the image is looked for before the attempt begins
			sums[OnNoSite] += rest
		case at.Ended.IsZero() && r.Ended.IsZero():
			sums[OnCurrent] += rest
		case at.Launched() && at.Nodes == nil, at.Result == state.Unreported:
			sums[OnLoss] += rest
		default:
			sums[OnOther] += rest
		}
		since = until
	}
	sums[OnNoSite] += end.Sub(since)
	for on, took := range sums {
		if took <= 0 { // a clock was put back
			delete(sums, on)
		}
	}
	return sums
}
