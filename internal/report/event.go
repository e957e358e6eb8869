package report

import (
	"encoding/json"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
)

// Event is an event of a run's history as `bee show --json` has it.
type Event struct {
	Time time.Time `json:"time"`
	// Attempt is the number of the attempt that it belongs to; 0: none.
	Attempt int             `json:"attempt,omitempty"`
	Kind    event.Kind      `json:"kind"`
	Fields  json.RawMessage `json:"fields"`
	// Text is the event in one sentence, whose wording may change.
	Text string `json:"text"`
}

// History returns events as they are shown.
func History(events []event.Event) []Event {
	var list []Event
	for _, e := range events {
		fields, err := event.Encode(e.Fields)
		if err != nil { // plain data: this cannot happen
			fields = json.RawMessage("{}")
		}
		list = append(list, Event{e.Time, e.Attempt, e.Fields.Kind(), fields, Sentence(e)})
	}
	return list
}
