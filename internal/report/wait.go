package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
)

// waitText is siteText of the events of sites that are unreachable.
func waitText(e event.Event) string {
	switch f := e.Fields.(type) {
	case event.Unreachable:
		return fmt.Sprintf("site %s is unreachable (%s); the run waits for it, as %s. %s", f.Site, f.Cause.Message, waitReason(f), WithoutSite(e.Run))
	case event.Unneeded:
		ended, without := "the job has ended there, and its checkpoint is "+storeText(f.Store), "the output of the attempt, and its other outputs"
		if !f.Ended {
			ended, without = "its time limit is over, so that the job cannot compute there any more, and a checkpoint is "+storeText(f.Store), "the work of the attempt since"
		}
		return fmt.Sprintf("site %s is unreachable (%s); %s: if the site does not answer until %s (for %s), the run continues without %s", f.Site, f.Cause.Message, ended, clock(f.Until), f.Limit, without)
	case event.SiteLost:
		why := "is unreachable, and its user declared it lost"
		if f.Limit > 0 {
			why = fmt.Sprintf("was unreachable for %s, and is given up as lost", f.Limit)
		}
		return fmt.Sprintf("site %s %s: %s", f.Site, why, Loss(e.Attempt, f.Loss))
	case event.Fenced:
		return fmt.Sprintf("the hosts of site %s have not answered for %s: the site has stopped them, so that nothing computes there any more", f.Site, f.Limit)
	case event.ReleaseFailed:
		safe := map[event.Safe]string{
			event.SafeIdle: "nothing of the run computes there, and the run does not wait for it", event.SafeLost: "the site is declared lost",
			event.SafeTried: "it was tried for long enough",
		}[f.Safe]
		return fmt.Sprintf("warning: site %s could not be released now (%s); %s; it is tried again later", f.Site, f.Cause.Message, safe)
	case event.ReleaseDeferred:
		return fmt.Sprintf("site %s could not be released (%s); it is tried for up to %s before the run continues, as the attempt may still compute there", f.Site, f.Cause.Message, f.Limit)
	case event.ReleasedLate:
		return fmt.Sprintf("site %s answers again; the remains of attempt %d there are removed", f.Site, e.Attempt)
	case event.RemovalFailed:
		return fmt.Sprintf("warning: the remains of attempt %d on site %s could not be removed (%s)", e.Attempt, f.Site, f.Cause.Message)
	}
	return ""
}

func waitReason(f event.Unreachable) string {
	switch f.Wait {
	case event.WaitAutostart:
		return "it may start the job there by itself"
	case event.WaitCheckpoint:
		return "the last checkpoint is not all on the submitting machine"
	case event.WaitOutputs:
		return "the job has ended, and its outputs are there"
	case event.WaitResult:
		return "its time limit is over, but no checkpoint is on the submitting machine, and its outputs may be there"
	}
	text := "the job may still run there"
	if f.Until.IsZero() {
		return text
	}
	text += " until its time limit, " + date(f.Until) + " at the latest"
	if f.Checkpoints {
		return text + "; the run continues then if a checkpoint is on the submitting machine"
	}
	return text + ", and its outputs may be there then"
}

// WithoutSite is the advice for a run whose site is unreachable.
func WithoutSite(run string) string {
	return fmt.Sprintf("If it is gone for good, `bee resume --site-lost %s` continues the run without it, and `bee stop --site-lost %s` ends the run", run, run)
}

// Loss is what a run loses with the site of an attempt.
func Loss(attempt int, l event.Loss) string {
	there := fmt.Sprintf("nothing of attempt %d computes there any more", attempt)
	if l.Computes {
		there = fmt.Sprintf("attempt %d may still compute on %s", attempt, cmp.Or(strings.Join(l.Hosts, ", "), "its hosts"))
		if !l.Until.IsZero() {
			there += ", until " + l.Until.Local().Format(time.DateTime) + " at the latest"
		}
	}
	lost := "all work of the run is lost, as no checkpoint is " + storeText(l.Store)
	switch {
	case l.CheckpointUnknown:
		lost = "its work there since the last checkpoint is lost"
	case !l.Checkpoint.IsZero():
		lost = "its work there since the checkpoint of " + date(l.Checkpoint) + " is lost"
	}
	return there + "; " + lost + ", with its output; the remains there are ended and removed once the site answers"
}
