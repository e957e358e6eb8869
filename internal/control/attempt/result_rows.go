package attempt

import "github.com/bee-hpc/bee/internal/state"

// endedRow is the row of a state that has the result on record.
func endedRow() row {
	return row{
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
	}
}

// keepingRow is the row of a state that copies the last checkpoint to the store of the run.
func keepingRow() row {
	return row{
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
	}
}

// collectingRow is the row of a state that collects logs and outputs.
func collectingRow() row {
	return row{
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
	}
}

// lendingRow is the row of a state that has released the hosts, whose files stay for the next attempt.
func lendingRow() row {
	return row{
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
	}
}

// releasingRow is the row of a state that has the verdict on record.
func releasingRow() row {
	return row{
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
	}
}

// closedRow is the row of a state that has nothing left on the site.
func closedRow() row {
	return row{
		moves:   map[Event]pair{ControllerStarted: to(state.Closed)},
		ignored: []Event{Released, Stop, Leave, SiteLost, RunOver},
		impossible: []reason{{none, concat(
			beforeLease, ofLease, ofTask, ofResult, []Event{ReleaseFailed, Unreachable, Reachable, HostsSuspended, HostsResumed},
		)}},
	}
}
