package report

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/state/event"
)

// volumeText is the text of events of volumes that runs have inputs of.
func volumeText(f event.Fields) string {
	switch f := f.(type) {
	case event.RunInput:
		from := f.Path + " of run " + f.Of + " (" + f.Name + ")"
		switch f.Transfer {
		case event.TransferCopied:
			return fmt.Sprintf("input %s was copied on site %s", from, f.To)
		case event.TransferDirect:
			return fmt.Sprintf("input %s came by a direct transfer %s", from, between(f.Site, f.To))
		case event.TransferRelayed:
			return fmt.Sprintf("input %s came by a relayed transfer %s", from, between(f.Site, f.To))
		}
		return fmt.Sprintf("input %s came from the submitting machine to %s", from, f.To)
	case event.VolumeLent:
		text := fmt.Sprintf("site %s keeps the volume for run %s", f.Site, strings.Join(f.For, ", "))
		if f.More > 0 {
			text += fmt.Sprintf(" and %d others", f.More)
		}
		return text
	case event.VolumePassed:
		text := fmt.Sprintf("what other runs need of the volume on site %s is in %s", f.Site, f.Path)
		if f.Cause != nil {
			text += ", as the site could not keep it: " + f.Cause.Message
		}
		return text
	case event.VolumeReleased:
		return "no run needs the volume any more: site " + f.Site + " is released"
	}
	return ""
}
