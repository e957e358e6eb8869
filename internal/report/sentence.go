// Package report writes what is shown of a run: the one source of its texts for the
// command line and JSON. It reads records and events, and knows no controller, driver
// or terminal. Nothing parses or compares the texts.
package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state/event"
)

// maxSentence bounds a sentence, in bytes. Fields may quote a site.
const maxSentence = 4 << 10

// Sentence returns an event of a run as one sentence in one line.
func Sentence(e event.Event) string {
	text := cmp.Or(siteText(e), waitText(e), transferText(e), outputText(e), notifyText(e), runText(e))
	if text == "" && e.Fields != nil { // of a newer version
		text = strings.ReplaceAll(string(e.Fields.Kind()), "_", " ")
		if raw, err := event.Encode(e.Fields); err == nil {
			text += " " + string(raw)
		}
	}
	return core.Printable(oneLine(text), maxSentence)
}

func runText(e event.Event) string {
	switch f := e.Fields.(type) {
	case event.Note:
		return f.Text
	case event.AttemptState:
		return fmt.Sprintf("attempt %d is %s (%s)", e.Attempt, f.State, strings.ReplaceAll(f.On, "_", " "))
	case event.Retry:
		return fmt.Sprintf("%s; trying again (%d of %d)", f.Cause.Message, f.Retry, f.Of)
	case event.Backoff:
		return fmt.Sprintf("the last %d attempts ended within %s each: the next one begins in %s", f.Attempts, f.Shorter, f.Pause)
	case event.Moved:
		return fmt.Sprintf("site %s: %s", f.Site, f.Cause.Message)
	case event.Suspended:
		return fmt.Sprintf("site %s: %s", f.Site, f.Cause.Message)
	case event.NewSites:
		return fmt.Sprintf("resumed, as %s has new sites for the run: %s", f.SitesFile, strings.Join(f.Sites, ", "))
	case event.MoveRequested:
		if len(f.Sites) == 0 {
			return "its user moves the run away from site " + f.From
		}
		return "its user moves the run to " + strings.Join(f.Sites, ", ")
	case event.SecretsUnreadable:
		return fmt.Sprintf("the secrets of the run cannot be read here (%s): it waits for a bee that can read them", f.Cause.Message)
	case event.ImageReplaced:
		return fmt.Sprintf("warning: the image that the run began with, %s, is not in the cache any more: it continues with %s", f.Was, f.Is)
	case event.ForeignAttempt:
		return foreignText(e, f)
	case event.SetAside:
		return "set aside: " + f.Cause.Message
	case event.Dependency:
		what := "run"
		if f.Array {
			what = "array"
		}
		return fmt.Sprintf("it begins %s of %s %s (%s)", dependencyText(f.On), what, f.Other, f.Name)
	case event.ArrayFull:
		return fmt.Sprintf("it waits for cases before it: of array %s (%s), at most %d run at once", f.Array, f.Name, f.AtOnce)
	case event.Requeued:
		return fmt.Sprintf("job %s of Slurm was started again: it continues this run, and submits no other one", f.Job)
	case event.CasesLost:
		return fmt.Sprintf("it runs again, as the only copy of its result was lost with site %s: case %s", f.Site, numbersText(f.Cases))
	case event.ForeignAttempts:
		return fmt.Sprintf("adopted: %d more attempts of the other installation may have hosts", f.Count)
	}
	return ""
}

// dependencyText is how another run has to end before one begins.
func dependencyText(on string) string {
	switch on {
	case "success", "failure":
		return "after the " + on
	}
	return "after the end"
}

func numbersText(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

func foreignText(e event.Event, f event.ForeignAttempt) string {
	does := "may have been requested"
	if f.Leased {
		does = "may still be leased"
	}
	if f.Computes {
		does += ", and compute,"
	}
	return fmt.Sprintf("adopted: %s of site %s %s by attempt %d of the other installation; this one does not release them. "+
		"The other one does when it runs again; if it is gone for good, end and remove there by hand whatever has %s in its name",
		cmp.Or(strings.Join(f.Hosts, ", "), "hosts"), f.Site, does, e.Attempt, e.Run)
}

// storeText is the place of checkpoints.
func storeText(store string) string {
	if store == "" {
		return "on the submitting machine"
	}
	return "in the store " + store
}

// clock is a time of today, date one of any day.
func clock(t time.Time) string { return t.Local().Format("15:04:05") }
func date(t time.Time) string  { return t.Local().Format(time.DateTime) }

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }
