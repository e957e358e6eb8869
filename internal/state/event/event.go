// Package event holds the kinds of events in the history of a run, each with its
// fields. It holds data only: internal/state stores events, internal/report writes
// them as text, and no package decides by such a text.
package event

import (
	"encoding/json"
	"time"
)

// Event is one thing that happened to a run.
type Event struct {
	Run string
	// Seq numbers the events of a run, from 1. Pruned events leave gaps.
	Seq  int64
	Time time.Time
	// Attempt is the number of the attempt it belongs to; 0: none.
	Attempt int
	Fields  Fields
}

// Kind names a kind of events in records and in JSON.
type Kind string

// Fields are the facts of one event. Each kind has its own type.
type Fields interface{ Kind() Kind }

// Is reports whether the event is of a kind.
func (e Event) Is(k Kind) bool { return e.Fields != nil && e.Fields.Kind() == k }

// Key identifies events that report the same facts, whenever they happened.
func Key(f Fields) string {
	raw, err := Encode(f)
	if err != nil {
		return string(f.Kind())
	}
	return string(f.Kind()) + " " + string(raw)
}

// Other is an event of a kind that this version does not know.
type Other struct {
	Name Kind
	Raw  json.RawMessage
}

// Kind implements Fields.
func (o Other) Kind() Kind { return o.Name }

// MarshalJSON returns the fields as they were read.
func (o Other) MarshalJSON() ([]byte, error) { return o.Raw, nil }
