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
	case event.ArrayEnded:
		return fmt.Sprintf("the array ended: %s, with %d of %d cases succeeded", f.State, f.Succeeded, f.Cases)
	case event.ArraySuspended:
		return fmt.Sprintf("a case of array %s (%s) is suspended or set aside: it waits for its user", f.Array, f.Name)
	case event.Waited:
		return fmt.Sprintf("the run has waited for %s, since %s", f.Limit, date(f.Since))
	case event.NotificationFailed:
		return fmt.Sprintf("warning: %s could not be notified of event %d (%s), and is not tried again: %s", f.Receiver, f.Number, f.Event, f.Cause.Message)
	}
	return ""
}
