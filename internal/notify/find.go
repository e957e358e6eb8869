package notify

import (
	"context"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// notification is an event with the word of `on:` that means it.
type notification struct {
	event.Event
	word string
}

// found is a run with the events of which receivers may be notified. The first case of an
// array stands for all of it: run is the array, by its id, name and state.
type found struct {
	run    state.Run
	array  state.Array
	events []event.Event
}

// settling is how much older than the record of a suspended run its event may be.
const settling = 3 * time.Second

// due reports whether the record of the run shows the event already.
func (n notification) due() bool {
	return n.word != spec.NotifySuspended || time.Since(n.Time).Abs() >= settling
}

// find reads the run and its events. It adds the events that only its record shows.
func (n *Notifier) find(ctx context.Context) (found, error) {
	f, err := n.read(ctx)
	if err != nil {
		return f, err
	}
	added := false
	switch {
	case f.array.ID != "":
		added, err = n.addOfArray(ctx, f)
	case f.run.State.Final():
		added, err = n.addOnce(ctx, event.Ended{State: string(f.run.State), ExitCode: f.run.ExitCode})
	case f.run.State == state.Queued:
		added, err = n.addWaited(ctx, f.run)
	}
	if err != nil || !added {
		return f, err
	}
	return n.read(ctx)
}

// read reads the run and its events.
func (n *Notifier) read(ctx context.Context) (found, error) {
	run, err := n.Store.Run(ctx, n.Run)
	if err != nil {
		return found{}, err
	}
	if run.Case.Array != "" {
		return n.readArray(ctx, run)
	}
	events, err := n.Store.History().Events(ctx, run.ID, event.KindEnded, event.KindMoved, event.KindSuspended, event.KindSetAside, event.KindWaited)
	return found{run: run, events: events}, err
}

// readArray reads the array of a run, with its events. Of a pack it is that of the cases.
func (n *Notifier) readArray(ctx context.Context, run state.Run) (found, error) {
	id, err := n.Store.Arrays().OfPack(ctx, run.ID)
	if err != nil {
		return found{}, err
	}
	if id == "" {
		id = run.Case.Array
	}
	a, err := n.Store.Arrays().Array(ctx, id)
	if err != nil {
		return found{}, err
	}
	events, err := n.Store.History().Events(ctx, run.ID, event.KindArrayEnded, event.KindArraySuspended)
	whole := state.Run{ID: a.ID, Name: a.Name, State: a.State(), Created: a.Created, Case: run.Case}
	whole.Case.Array = a.ID
	return found{run: whole, array: a, events: events}, err
}

// addOfArray adds the events of an array, each once.
func (n *Notifier) addOfArray(ctx context.Context, f found) (added bool, err error) {
	has := func(kind event.Kind) bool {
		return slices.ContainsFunc(f.events, func(e event.Event) bool { return e.Is(kind) })
	}
	a := f.array
	switch {
	case f.run.State.Final() && !has(event.KindArrayEnded):
		return n.addOnce(ctx, event.ArrayEnded{Array: a.ID, Name: a.Name, State: string(f.run.State), Cases: a.Cases(), Succeeded: a.States[state.Succeeded]})
	case a.States[state.Suspended]+a.States[state.SetAside] > 0 && !has(event.KindArraySuspended):
		return n.addOnce(ctx, event.ArraySuspended{Array: a.ID, Name: a.Name})
	}
	return false, nil
}

// attended reports whether some process controls the run, or a case of its array.
func (n *Notifier) attended(ctx context.Context) bool {
	locks := n.Store.Locks()
	if locks.Controlled(n.Run) {
		return true
	}
	live, err := n.Store.Arrays().Beside(ctx, n.Run, true)
	return err == nil && slices.ContainsFunc(live, locks.Controlled)
}

// addOnce adds an event unless the run has it.
func (n *Notifier) addOnce(ctx context.Context, f event.Fields) (added bool, err error) {
	e := event.Event{Run: n.Run, Fields: f}
	has, err := n.Store.History().Has(ctx, e)
	if err != nil || has {
		return false, err
	}
	_, err = n.Store.AddEvent(ctx, e)
	return err == nil, err
}

// addWaited adds the events of a run that has waited for long enough.
func (n *Notifier) addWaited(ctx context.Context, run state.Run) (added bool, err error) {
	var limits []time.Duration
	for i := range n.Receivers {
		limits = append(limits, n.Receivers[i].Waiting()...)
	}
	if len(limits) == 0 {
		return false, nil
	}
	attempts, err := n.Store.Attempts(ctx, run.ID)
	if err != nil {
		return false, err
	}
	since := run.Created
	for i := range attempts {
		if at := &attempts[i]; at.TaskBegan && at.Ended.After(since) {
			since = at.Ended
		}
	}
	for _, l := range limits {
		if time.Since(since) < l {
			continue
		}
		one, err := n.addOnce(ctx, event.Waited{Since: since.UTC(), Limit: event.Seconds(l)})
		if added = added || one; err != nil {
			return added, err
		}
	}
	return added, nil
}

// next returns the first event after a number of which a receiver is to be notified.
func (n *Notifier) next(events []event.Event, receiver int, after int64) (notification, bool) {
	r := &n.Receivers[receiver]
	for _, e := range events {
		if e.Seq <= after {
			continue
		}
		if word := wordOf(r, e); word != "" {
			return notification{e, word}, true
		}
	}
	return notification{}, false
}

// wordOf returns the word by which a receiver is notified of an event, or "".
func wordOf(r *Receiver, e event.Event) string {
	var words []string
	switch f := e.Fields.(type) {
	case event.Ended:
		words = wordsOfEnd(f.State)
	case event.ArrayEnded:
		words = wordsOfEnd(f.State)
	case event.Moved:
		words = []string{spec.NotifyMoved}
	case event.Suspended, event.SetAside, event.ArraySuspended:
		words = []string{spec.NotifySuspended}
	case event.Waited:
		for _, l := range r.Waiting() {
			if event.Seconds(l) == f.Limit {
				return "waiting"
			}
		}
	}
	for _, w := range words {
		if r.Wants(w) {
			return w
		}
	}
	return ""
}

// wordsOfEnd returns the words that mean the end of a run or an array in a state.
func wordsOfEnd(ended string) []string {
	if ended == string(state.Failed) {
		return []string{spec.NotifyEnded, spec.NotifyFailed}
	}
	return []string{spec.NotifyEnded}
}

// giveUp records that a notification is not sent any more.
func (s *sending) giveUp(ctx context.Context, r result) error {
	_, err := s.Store.AddEvent(ctx, event.Event{Run: s.Run, Fields: event.NotificationFailed{
		Receiver: nameOf(s.Receivers[r.receiver]), Event: r.event.word, Number: r.event.Seq, Cause: event.CauseOf(r.err),
	}})
	return err
}
