package report

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/state/event"
)

func siteText(e event.Event) string {
	switch f := e.Fields.(type) {
	case event.SiteSkipped:
		return fmt.Sprintf("skipped site %s: %s", f.Site, f.Cause.Message)
	case event.NoSite:
		reasons := make([]string, len(f.Sites))
		for i, s := range f.Sites {
			reasons[i] = s.Site + ": " + s.Cause.Message
		}
		if f.Until.IsZero() { // it is asked all the time
			return "waiting for other runs (" + strings.Join(reasons, "; ") + ")"
		}
		return fmt.Sprintf("no site can take the run now (%s); asking again at %s", strings.Join(reasons, "; "), clock(f.Until))
	case event.Queued:
		if f.Expected.IsZero() {
			return f.Reason
		}
		return fmt.Sprintf("%s; expected to start at %s", f.Reason, f.Expected.Local().Format("2006-01-02 15:04"))
	case event.Preemption:
		return fmt.Sprintf("on site %s another job may come first (preemption): the job is killed %s after its notice, and a checkpoint may take longer (`grace: %s`); `checkpoint: {every: …}` keeps copies meanwhile", f.Site, f.Notice, f.Grace)
	case event.OnDemand:
		return fmt.Sprintf("site %s: %d attempts on spot machines left no progress, so this one uses machines on demand", f.Site, f.Lost)
	case event.VMUsed:
		return "using virtual machines, as containers cannot run here: " + f.Cause.Message
	case event.VMImpossible:
		return "the job runs in containers, as virtual machines are not possible here: " + f.Cause.Message
	case event.Attendance:
		return fmt.Sprintf("site %s cannot start the run by itself, as secrets are never written to a disk: bee has to run when the hosts are there, or they are released soon and requested again", f.Site)
	case event.Autostart:
		return fmt.Sprintf("site %s has everything that the attempt needs, and starts it by itself: this machine may be switched off", f.Site)
	case event.Cancelling:
		why := ""
		if f.Cause != nil {
			why = " (" + f.Cause.Message + ")"
		}
		return fmt.Sprintf("site %s may start the run by itself: the run continues elsewhere only once that is cancelled%s", f.Site, why)
	case event.RanUnattended:
		return fmt.Sprintf("site %s: the attempt began at %s and ended at %s, with no controller there", f.Site, date(f.Started), date(f.Ended))
	case event.Remark:
		return fmt.Sprintf("site %s, attempt %d: %s", f.Site, e.Attempt, f.Message)
	case event.HostsSuspended:
		return fmt.Sprintf("site %s: %s", f.Site, f.Reason)
	case event.HostsResumed:
		if f.Ends.IsZero() {
			return fmt.Sprintf("site %s: its hosts are resumed", f.Site)
		}
		return fmt.Sprintf("site %s: its hosts are resumed, and end that much later, at %s", f.Site, date(f.Ends))
	case event.SiteInvalid:
		return fmt.Sprintf("warning: the answer of site %s is not valid: %s", f.Site, f.Cause.Message)
	}
	return ""
}
