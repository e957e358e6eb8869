package report

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/state/event"
)

func notifyText(e event.Event) string {
	switch f := e.Fields.(type) {
	case event.Ended:
		if f.ExitCode != nil {
			return fmt.Sprintf("the run ended: %s, with exit code %d", f.State, *f.ExitCode)
		}
		return "the run ended: " + f.State
	case event.Waited:
		return fmt.Sprintf("the run has waited for %s, since %s", f.Limit, date(f.Since))
	case event.NotificationFailed:
		return fmt.Sprintf("warning: %s could not be notified of event %d (%s), and is not tried again: %s", f.Receiver, f.Number, f.Event, f.Cause.Message)
	}
	return ""
}
