package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Progress is how far a run is: what its last attempt does, and for how long.
type Progress struct {
	Attempt int                `json:"attempt"`
	State   state.AttemptState `json:"state"`
	// Seconds are those of the attempt so far, and SlotSeconds those that its job may
	// compute; 0: it may as long as it needs.
	Seconds     float64 `json:"seconds"`
	SlotSeconds float64 `json:"slot_seconds,omitempty"`
}

// ProgressOf returns the progress of a run that is not over, or nil: it has no attempt.
func ProgressOf(r state.Run, attempts []state.Attempt, now time.Time) *Progress {
	if r.State.Final() || len(attempts) == 0 {
		return nil
	}
	at := attempts[len(attempts)-1]
	end := now
	if !at.Ended.IsZero() {
		end = at.Ended
	}
	begun := at.Started
	if at.State == state.Computing && !at.Granted.IsZero() {
		begun = at.Granted
	}
	return &Progress{Attempt: at.N, State: at.State, Seconds: max(end.Sub(begun), 0).Seconds(), SlotSeconds: at.Span.Seconds()}
}

// waiting are the kinds of events that report what a run waits for, until the next event.
func waiting() []event.Kind {
	return []event.Kind{
		event.KindNoSite, event.KindQueued, event.KindBackoff, event.KindSecretsUnreadable, event.KindHostsSuspended, event.KindUnreachable,
		event.KindUnneeded, event.KindReleaseDeferred, event.KindCheckpointStuck, event.KindCheckpointDeferred, event.KindCollectFailed, event.KindSiteSkipped, event.KindRetry,
	}
}

// Why returns what a run waits for, or why it ended, in one line; "": it computes, or has
// succeeded. The last event is the run's, without changes of states.
func Why(r state.Run, attempts []state.Attempt, last event.Event) string {
	text := ""
	switch {
	case r.State == state.Succeeded:
	case r.State.Final(), r.State.Resumable():
		text = r.Message
	case last.Fields != nil && slices.Contains(waiting(), last.Fields.Kind()):
		return Sentence(last)
	case (last.Is(event.KindDependency) || last.Is(event.KindArrayFull)) && len(attempts) == 0:
		return Sentence(last)
	case r.State == state.Queued && r.Case.Pack != "":
		text = "its turn in run " + r.Case.Pack + " has not come"
	case r.State == state.Running && r.Case.Pack != "" && r.ExitCode != nil:
		text = "its outputs are collected when run " + r.Case.Pack + " ends"
	case r.State == state.Queued && len(attempts) == 0 && r.Case.AtOnce > 0 && r.Case.Number > r.Case.AtOnce:
		return Sentence(event.Event{Fields: event.ArrayFull{Array: r.Case.Array, Name: r.Case.Name, AtOnce: r.Case.AtOnce}})
	case r.State == state.Queued && len(attempts) == 0:
		text = "its first attempt has not begun"
	case r.State == state.Queued:
		at := attempts[len(attempts)-1]
		text = cmp.Or(at.Starting, map[state.AttemptState]string{
			state.Acquiring: "hosts are requested from site " + at.Site,
			state.Staging:   "image and inputs are sent to site " + at.Site,
			state.InQueue:   "it waits in the queue of site " + at.Site,
			state.Starting:  "its nodes start on site " + at.Site,
		}[at.State])
		if at.State == state.InQueue && !at.Expected.IsZero() {
			text += ", which expects to start it at " + date(at.Expected)
		}
	}
	return core.Printable(oneLine(text), maxSentence)
}
