package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// spentOn is what a run's time went to. All of it has a name, so that their sum is the
// time from the run's submission to its end.
type spentOn string

const (
	onNoSite     spentOn = "waiting" // no site has it
	onQueue      spentOn = "queue"
	onImage      spentOn = "image" // built, pulled, unpacked, spread
	onTransfer   spentOn = "transfer"
	onStart      spentOn = "start"
	onCompute    spentOn = "compute"
	onCheckpoint spentOn = "checkpoint"
	onUnattended spentOn = "unattended" // the attempt had ended, and no controller ran
	onRelease    spentOn = "release"
	onLoss       spentOn = "lost"    // of attempts whose head was lost with its report
	onOther      spentOn = "other"   // between the phases of an attempt
	onCurrent    spentOn = "current" // of the attempt that is not over, as far as its head has reported no phases
)

// spentWords are what `bee show` says, in its order.
func spentWords() []struct {
	on   spentOn
	text string
} {
	return []struct {
		on   spentOn
		text string
	}{
		{onCompute, "computing"},
		{onCheckpoint, "writing checkpoints"},
		{onImage, "getting the image"},
		{onTransfer, "transferring files"},
		{onStart, "starting"},
		{onQueue, "waiting for hosts"},
		{onNoSite, "before and between attempts"},
		{onLoss, "in lost attempts"},
		{onUnattended, "ended, without a controller"},
		{onRelease, "releasing hosts"},
		{onOther, "other"},
		{onCurrent, "in the current attempt"},
	}
}

// phaseOf tells what a phase counts as.
func phaseOf(p plan.Phase) spentOn {
	switch p {
	case plan.PhaseAcquire, plan.PhaseQueue:
		return onQueue
	case plan.PhaseImage:
		return onImage
	case plan.PhaseStage, plan.PhaseCollect:
		return onTransfer
	case plan.PhaseLaunch, plan.PhaseJoin, plan.PhaseStart, plan.PhaseSetup:
		return onStart
	case plan.PhaseRun, plan.PhasePost:
		return onCompute
	case plan.PhaseCheckpoint:
		return onCheckpoint
	case plan.PhaseUnattended:
		return onUnattended
	case plan.PhaseRelease:
		return onRelease
	}
	return onOther
}

// spent adds up what a run's time went to until its end, or now.
func spent(r state.Run, attempts []state.Attempt, now time.Time) map[spentOn]time.Duration {
	sums := map[spentOn]time.Duration{}
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
		if i+1 < len(attempts) && until.After(attempts[i+1].Started) { // it is released while the next one goes on
			until = attempts[i+1].Started
		}
		for p, took := range at.Phases {
			sums[phaseOf(p)] += took
		}
		sums[onNoSite] += at.Started.Sub(since)
		switch rest := at.Nameless(until); {
		case rest < 0: // the image is looked for before the attempt begins
			sums[onNoSite] += rest
		case at.Ended.IsZero() && r.Ended.IsZero():
			sums[onCurrent] += rest
		case at.Launched() && at.Nodes == nil, at.Result == state.Unreported:
			sums[onLoss] += rest
		default:
			sums[onOther] += rest
		}
		since = until
	}
	sums[onNoSite] += end.Sub(since)
	for on, took := range sums {
		if took <= 0 { // a clock was put back
			delete(sums, on)
		}
	}
	return sums
}

// spentText tells it in words, without what is too short to matter.
func spentText(seconds map[spentOn]float64) string {
	total := 0.0
	for _, s := range seconds {
		total += s
	}
	var parts []string
	for _, w := range spentWords() {
		took := time.Duration(seconds[w.on] * float64(time.Second))
		if took < time.Millisecond {
			continue
		}
		text := durationText(took) + " " + w.text
		if w.on == onCompute {
			text += fmt.Sprintf(" (%.0f %%)", 100*seconds[w.on]/total)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
