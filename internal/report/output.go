package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/state/event"
)

func outputText(e event.Event) string {
	switch f := e.Fields.(type) {
	case event.OutputsRefused:
		return fmt.Sprintf("warning: site %s named %d outputs that the job did not ask for, %q first; they were ignored", f.Site, f.Count, f.First)
	case event.OutputsMissing:
		return missingText(f)
	case event.OutputRenamed:
		text := fmt.Sprintf("warning: an output is in %s, as no run of this name wrote what is in its place, or it was changed since; `replace: true` replaces it", f.Path)
		switch {
		case f.Partial:
			text = fmt.Sprintf("warning: an output is in %s, as the attempt was lost: it may be incomplete, and never replaces what is in its place", f.Path)
		case f.Unlike:
			text = fmt.Sprintf("warning: an output is in %s, as a file never replaces a directory, nor a directory a file", f.Path)
		}
		if f.More > 0 {
			text += fmt.Sprintf(" (and %d more are beside others)", f.More)
		}
		return text
	case event.HiddenRenamed:
		return fmt.Sprintf("warning: hidden files of others are not replaced: %d of the outputs are beside them, the first is %q", f.Count, f.First)
	case event.OutputsSkipped:
		return "warning: the outputs were not collected, as the user asked"
	case event.DanglingLinks:
		return fmt.Sprintf("warning: not collected: %d links among the outputs %s that lead to nothing there, %q first", f.Count, f.From, f.First)
	case event.CollectFailed:
		return "warning: " + f.Cause.Message
	case event.HostLeftOut:
		return fmt.Sprintf("warning: outputs on host %s were not collected, as it does not answer: %s", f.Host, f.Cause.Message)
	}
	return ""
}

func missingText(f event.OutputsMissing) string {
	var texts []string
	if len(f.Missing) > 0 {
		texts = append(texts, "nothing was there of the outputs "+strings.Join(f.Missing, ", "))
	}
	if len(f.Left) > 0 {
		texts = append(texts, "not collected: "+leftText(f))
	}
	if f.Volume != "" {
		texts = append(texts, "the volume of the run is kept in "+f.Volume+" until `bee rm`")
	}
	return "warning: " + strings.Join(texts, "; ")
}

func leftText(f event.OutputsMissing) string {
	why := map[string]string{
		"outside": "its link leads out of the volume", "loop": "its links lead in a circle", "nothing": "its link leads to nothing",
		"unreadable": "it cannot be read", "special": "it is a FIFO, a socket or a device",
	}
	var texts []string
	for _, l := range f.Left {
		texts = append(texts, fmt.Sprintf("%q (%s)", l.Path, cmp.Or(why[l.Why], "its host could not read it")))
	}
	if f.More > 0 {
		texts = append(texts, fmt.Sprintf("%d more", f.More))
	}
	return strings.Join(texts, ", ")
}
