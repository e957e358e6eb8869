package attempt

import (
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/state"
)

// Impossible is the error of an event that cannot come in the state of an attempt. Its run
// is set aside: no controller knows what to do next.
type Impossible struct {
	State  State
	Event  Event
	Reason string
}

func (i *Impossible) Error() string {
	return fmt.Sprintf("event %q cannot come in state %q of an attempt: %s", i.Event, i.State, i.Reason)
}

// Next returns the state that follows on an event. It is the same one where the event only
// makes the state's own work continue, or repeats an earlier one.
func Next(s State, autostart state.Autostart, e Event) (State, error) {
	entry, has := Find(s, autostart, e)
	switch {
	case !has:
		return s, &Impossible{s, e, "the table has no entry for them"}
	case entry.Impossible != "":
		return s, &Impossible{s, e, entry.Impossible}
	case entry.Ignored:
		return s, nil
	}
	return entry.Next, nil
}

// Find returns the table's entry for a state and an event.
func Find(s State, autostart state.Autostart, e Event) (Entry, bool) {
	r, known := machine[s]
	if !known {
		return Entry{}, false
	}
	if p, has := r.moves[e]; has {
		if autostart.MayStart() {
			return p.autostart, true
		}
		return p.plain, true
	}
	if slices.Contains(r.ignored, e) {
		return Entry{Next: s, Ignored: true}, true
	}
	for _, why := range r.impossible {
		if slices.Contains(why.events, e) {
			return Entry{Impossible: why.text}, true
		}
	}
	return Entry{}, false
}

var machine = table()
