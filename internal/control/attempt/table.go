package attempt

import (
	"slices"

	"github.com/bee-hpc/bee/internal/state"
)

// Entry is what the table has for a state and an event.
type Entry struct {
	// Next is the state that follows. It is the same one where the event only makes the
	// state's own work continue.
	Next State
	// Ignored is set for an event that repeats one of an earlier state.
	Ignored bool
	// Impossible is why the event cannot come in the state.
	Impossible string
}

// pair is what the table has for an event: by itself, and where the site may start the
// attempt by itself.
type pair struct{ plain, autostart Entry }

// row is what the table has for a state. An event of another state has no entry here: it
// is found by its reason.
type row struct {
	moves      map[Event]pair
	ignored    []Event
	impossible []reason
}

// reason is why some events cannot come in a state.
type reason struct {
	text   string
	events []Event
}

func to(s State) pair { return pair{Entry{Next: s}, Entry{Next: s}} }

// either is to, with another state where the site may start the attempt by itself.
func either(plain, autostart State) pair { return pair{Entry{Next: plain}, Entry{Next: autostart}} }

// anywhere are the events that leave every state but the last as it is.
var anywhere = []Event{ControllerStarted, Unreachable, Reachable, HostsSuspended, HostsResumed}

// Groups of events that cannot come for the same reason.
var (
	ofLease     = []Event{Staged, Enabling, Enabled, HostsReady, Expired, Dropped, StartedBySite, NotStarted, Launch, QueueLimit}
	ofTask      = []Event{LaunchFailed, TaskBegins, CheckpointAsked, Reported, HeadGone, TimeOver}
	ofResult    = []Event{CheckpointOwed, OutputsOwed, NothingOwed, Kept, NotKept, Collected, Lent, LendingOver, GivenUp}
	ofRelease   = []Event{Released, ReleaseFailed}
	beforeLease = []Event{Acquired, AcquiredLater, Refused}
)

const (
	noLease    = "there is no lease yet"
	unlaunched = "nothing was launched"
	running    = "there is no result yet"
	launched   = "the launch is on record"
	ended      = "the result is on record"
	leased     = "the lease is on record"
	holds      = "the lease is released only in releasing"
	none       = "nothing is left on the site"
)

// table has a row for each state. Every pair of a state and an event has an entry; a test
// holds that.
func table() map[State]row {
	rows := map[State]row{
		state.Acquiring:     acquiringRow(),
		state.Staging:       stagingRow(),
		state.InQueue:       inQueueRow(),
		state.Cancelling:    cancellingRow(),
		state.Starting:      startingRow(),
		state.Computing:     computingRow(),
		state.Checkpointing: checkpointingRow(),
		state.Ended:         endedRow(),
		state.Keeping:       keepingRow(),
		state.Collecting:    collectingRow(),
		state.Lending:       lendingRow(),
		state.Releasing:     releasingRow(),
		state.Closed:        closedRow(),
	}
	for s, r := range rows {
		for _, e := range anywhere {
			if _, has := r.moves[e]; !has && s != state.Closed {
				r.moves[e] = to(s)
			}
		}
		if s != state.Closed {
			r.moves[RunOver] = to(state.Releasing)
		}
	}
	return rows
}

func concat(lists ...[]Event) []Event { return slices.Concat(lists...) }
