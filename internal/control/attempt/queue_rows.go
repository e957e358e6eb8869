package attempt

import "github.com/bee-hpc/bee/internal/state"

// acquiringRow is the row of a state that has the intent on record, and no lease yet.
func acquiringRow() row {
	return row{
		moves: map[Event]pair{
			Acquired: to(state.Staging), AcquiredLater: to(state.InQueue),
			Refused: to(state.Releasing), Stop: to(state.Releasing), Leave: to(state.Releasing), SiteLost: to(state.Releasing),
			ControllerStarted: to(state.Releasing), // what was acquired is found by its owner
		},
		impossible: []reason{{noLease, concat(ofLease, ofRelease)}, {unlaunched, ofTask}, {running, ofResult}},
	}
}

// stagingRow is the row of a state that sends files to hosts that are there, or will be.
func stagingRow() row {
	return row{
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
	}
}

// inQueueRow is the row of a state that waits for the hosts, which the site may start by itself.
func inQueueRow() row {
	return row{
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
	}
}

// cancellingRow is the row of a state that does not know yet whether the site starts the attempt by itself.
func cancellingRow() row {
	return row{
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
	}
}
