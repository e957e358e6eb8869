package event

import "time"

// Kinds of notifications. The process that sends them adds these events, so that only runs
// with receivers have them.
const (
	KindEnded              Kind = "ended"
	KindWaited             Kind = "waited"
	KindNotificationFailed Kind = "notification_failed"
	KindArrayEnded         Kind = "array_ended"
	KindArraySuspended     Kind = "array_suspended"
)

// Ended is the end of a run.
type Ended struct {
	State    string `json:"state"` // a final state.RunState
	ExitCode *int   `json:"exit_code,omitempty"`
}

// ArrayEnded is the end of an array, of which the run is the first case.
type ArrayEnded struct {
	Array     string `json:"array"` // its id
	Name      string `json:"name"`
	State     string `json:"state"` // a final state.RunState
	Cases     int    `json:"cases"`
	Succeeded int    `json:"succeeded"`
}

// ArraySuspended is an array of which a case waits for its user.
type ArraySuspended struct {
	Array string `json:"array"` // its id
	Name  string `json:"name"`
}

// Kind implements Fields.
func (ArrayEnded) Kind() Kind { return KindArrayEnded }

// Kind implements Fields.
func (ArraySuspended) Kind() Kind { return KindArraySuspended }

// Waited is a run that has waited for as long as a receiver wants to know of.
type Waited struct {
	Since time.Time `json:"since"`
	Limit Seconds   `json:"limit_seconds"`
}

// NotificationFailed is a notification that was tried for long enough, and is not sent any
// more.
type NotificationFailed struct {
	Receiver string `json:"receiver"`
	Event    string `json:"event"` // a word of the receiver's `on:`
	Number   int64  `json:"number"`
	Cause    Cause  `json:"cause"`
}

// Kind implements Fields.
func (Ended) Kind() Kind { return KindEnded }

// Kind implements Fields.
func (Waited) Kind() Kind { return KindWaited }

// Kind implements Fields.
func (NotificationFailed) Kind() Kind { return KindNotificationFailed }
