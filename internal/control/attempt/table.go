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
		state.Acquiring: {
			moves: map[Event]pair{
				Acquired: to(state.Staging), AcquiredLater: to(state.InQueue),
				Refused: to(state.Releasing), Stop: to(state.Releasing), Leave: to(state.Releasing), SiteLost: to(state.Releasing),
				ControllerStarted: to(state.Releasing), // what was acquired is found by its owner
			},
			impossible: []reason{{noLease, concat(ofLease, ofRelease)}, {unlaunched, ofTask}, {running, ofResult}},
		},
		state.Staging: {
			moves: map[Event]pair{
				Staged: to(state.InQueue), Enabling: to(state.InQueue), Launch: to(state.Starting),
				Refused: to(state.Releasing), Expired: to(state.Releasing), Dropped: to(state.Releasing),
				Stop: to(state.Releasing), SiteLost: to(state.Releasing),
				Leave: to(state.Staging), // the queue acts on it
			},
			ignored: []Event{Acquired, AcquiredLater, HostsReady},
			impossible: []reason{
				{"no autostart is on record", []Event{Enabled, StartedBySite, NotStarted}},
				{"it does not wait", []Event{QueueLimit}},
				{unlaunched, ofTask},
				{running, ofResult},
				{holds, ofRelease},
			},
		},
		state.InQueue: {
			moves: map[Event]pair{
				HostsReady: {Entry{Next: state.Staging}, Entry{Impossible: "all files are there"}},
				Launch:     {Entry{Next: state.Starting}, Entry{Impossible: "the site launches the nodes"}},
				StartedBySite: {
					Entry{Impossible: "no autostart is on record"}, Entry{Next: state.Starting},
				},
				Staged: to(state.InQueue), Enabling: to(state.InQueue), // a later controller stages again
				Enabled: {Entry{Impossible: "no autostart is on record"}, Entry{Next: state.InQueue}},
				Refused: either(state.Releasing, state.Cancelling), QueueLimit: either(state.Releasing, state.Cancelling),
				Expired: either(state.Releasing, state.Cancelling), Dropped: either(state.Releasing, state.Cancelling),
				Leave: either(state.Releasing, state.Cancelling), Stop: either(state.Releasing, state.Cancelling),
				SiteLost: either(state.Releasing, state.Ended),
			},
			ignored: []Event{Acquired, AcquiredLater},
			impossible: []reason{
				{"an autostart is cancelled only in cancelling", []Event{NotStarted}},
				{unlaunched, ofTask},
				{running, ofResult},
				{holds, ofRelease},
			},
		},
		state.Cancelling: {
			moves: map[Event]pair{
				StartedBySite: to(state.Starting), NotStarted: to(state.Releasing), Stop: to(state.Releasing), SiteLost: to(state.Ended),
			},
			ignored: []Event{Acquired, AcquiredLater, Refused, Staged, Enabling, Enabled, HostsReady, QueueLimit, Expired, Dropped, Leave},
			impossible: []reason{
				{"the site launches the nodes", []Event{Launch}},
				{unlaunched, ofTask},
				{running, ofResult},
				{holds, ofRelease},
			},
		},
		state.Starting: {
			moves: map[Event]pair{
				TaskBegins: to(state.Computing), Expired: to(state.Releasing),
				Reported: to(state.Ended), HeadGone: to(state.Ended), LaunchFailed: to(state.Ended), TimeOver: to(state.Ended), SiteLost: to(state.Ended),
				CheckpointAsked: to(state.Starting), // a setup has none
				Stop:            to(state.Starting), Leave: to(state.Starting),
			},
			ignored:    []Event{Acquired, AcquiredLater, Staged, Enabling, Enabled, HostsReady, StartedBySite, Launch},
			impossible: []reason{{launched, []Event{Refused, Dropped, NotStarted, QueueLimit}}, {running, ofResult}, {holds, ofRelease}},
		},
		state.Computing: {
			moves: map[Event]pair{
				CheckpointAsked: to(state.Checkpointing),
				Reported:        to(state.Ended), HeadGone: to(state.Ended), TimeOver: to(state.Ended), SiteLost: to(state.Ended),
				Stop: to(state.Computing), Leave: to(state.Computing),
			},
			ignored: []Event{Acquired, AcquiredLater, Staged, Enabling, Enabled, HostsReady, StartedBySite, Launch, TaskBegins},
			impossible: []reason{
				{launched, []Event{Refused, Dropped, Expired, NotStarted, QueueLimit}},
				{"the task has begun", []Event{LaunchFailed}},
				{running, ofResult},
				{holds, ofRelease},
			},
		},
		state.Checkpointing: {
			moves: map[Event]pair{
				TaskBegins: to(state.Computing),
				Reported:   to(state.Ended), HeadGone: to(state.Ended), TimeOver: to(state.Ended), SiteLost: to(state.Ended),
				Stop: to(state.Checkpointing), Leave: to(state.Checkpointing),
			},
			ignored: []Event{Acquired, AcquiredLater, Staged, Enabling, Enabled, HostsReady, StartedBySite, Launch, CheckpointAsked},
			impossible: []reason{
				{launched, []Event{Refused, Dropped, Expired, NotStarted, QueueLimit}},
				{"the task has begun", []Event{LaunchFailed}},
				{running, ofResult},
				{holds, ofRelease},
			},
		},
		state.Ended: {
			moves: map[Event]pair{
				CheckpointOwed: to(state.Keeping), OutputsOwed: to(state.Collecting), NothingOwed: to(state.Releasing),
				GivenUp: to(state.Releasing), SiteLost: to(state.Releasing),
				Reported: to(state.Ended), // a head that was taken for gone
				Stop:     to(state.Ended), Leave: to(state.Ended),
			},
			ignored: []Event{StartedBySite, Launch, LaunchFailed, TaskBegins, CheckpointAsked, HeadGone, TimeOver},
			impossible: []reason{
				{ended, concat(beforeLease, []Event{Staged, Enabling, Enabled, HostsReady, Expired, Dropped, NotStarted, QueueLimit})},
				{"nothing is collected yet", []Event{Kept, NotKept, Collected, Lent, LendingOver}},
				{holds, ofRelease},
			},
		},
		state.Keeping: {
			moves: map[Event]pair{
				Kept: to(state.Collecting), NotKept: to(state.Collecting), GivenUp: to(state.Releasing), SiteLost: to(state.Releasing),
				Stop: to(state.Keeping), Leave: to(state.Keeping),
			},
			ignored: []Event{TaskBegins, CheckpointAsked, Reported, HeadGone, TimeOver, CheckpointOwed},
			impossible: []reason{
				{ended, concat(beforeLease, ofLease, []Event{LaunchFailed})},
				{"the checkpoint is not stored yet", []Event{OutputsOwed, NothingOwed, Collected, Lent, LendingOver}},
				{holds, ofRelease},
			},
		},
		state.Collecting: {
			moves: map[Event]pair{
				Collected: to(state.Releasing), Lent: to(state.Lending), GivenUp: to(state.Releasing), SiteLost: to(state.Releasing),
				Stop: to(state.Collecting), Leave: to(state.Collecting),
			},
			ignored: []Event{TaskBegins, CheckpointAsked, Reported, HeadGone, TimeOver, CheckpointOwed, OutputsOwed, Kept, NotKept},
			impossible: []reason{
				{ended, concat(beforeLease, ofLease, []Event{LaunchFailed})},
				{"outputs are owed", []Event{NothingOwed, LendingOver}},
				{holds, ofRelease},
			},
		},
		state.Lending: {
			moves: map[Event]pair{
				LendingOver: to(state.Releasing), ControllerStarted: to(state.Releasing),
				Stop: to(state.Lending), Leave: to(state.Lending), SiteLost: to(state.Releasing),
			},
			ignored: []Event{Reported, CheckpointOwed, OutputsOwed, Kept, NotKept, Collected, Lent},
			impossible: []reason{
				{ended, concat(beforeLease, ofLease, []Event{LaunchFailed, TaskBegins, CheckpointAsked, HeadGone, TimeOver})},
				{"nothing is awaited there", []Event{NothingOwed, GivenUp}},
				{holds, ofRelease},
			},
		},
		state.Releasing: {
			moves: map[Event]pair{
				Released: to(state.Closed), ReleaseFailed: to(state.Releasing),
				Stop: to(state.Releasing), Leave: to(state.Releasing), SiteLost: to(state.Releasing),
			},
			ignored: []Event{Refused, NotStarted, QueueLimit, Reported, NothingOwed, Collected, LendingOver, GivenUp},
			impossible: []reason{
				{"the verdict is on record", []Event{
					Acquired, AcquiredLater, Staged, Enabling, Enabled, HostsReady, Expired, Dropped, StartedBySite, Launch,
					LaunchFailed, TaskBegins, CheckpointAsked, HeadGone, TimeOver, CheckpointOwed, OutputsOwed, Kept, NotKept, Lent,
				}},
			},
		},
		state.Closed: {
			moves:   map[Event]pair{ControllerStarted: to(state.Closed)},
			ignored: []Event{Released, Stop, Leave, SiteLost, RunOver},
			impossible: []reason{{none, concat(
				beforeLease, ofLease, ofTask, ofResult, []Event{ReleaseFailed, Unreachable, Reachable, HostsSuspended, HostsResumed},
			)}},
		},
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
