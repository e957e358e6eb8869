// Package attempt is the state machine of an attempt: its states, the events that change
// them, and the table of all pairs.
//
// It is pure: it knows records' types, no driver, no database and no clock. The work of
// each state is done elsewhere, and reports its end as an event.
package attempt
