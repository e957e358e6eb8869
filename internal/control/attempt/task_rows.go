package attempt

import "github.com/bee-hpc/bee/internal/state"

// startingRow is the row of a state that has the launch on record, so that the task may run.
func startingRow() row {
	return row{
		moves: map[Event]pair{
			TaskBegins: to(state.Computing), Expired: to(state.Releasing),
			Reported: to(state.Ended), HeadGone: to(state.Ended), LaunchFailed: to(state.Ended), TimeOver: to(state.Ended), SiteLost: to(state.Ended),
			CheckpointAsked: to(state.Starting), // a setup has none
			Stop:            to(state.Starting), Leave: to(state.Starting),
		},
		ignored:    []Event{Acquired, AcquiredLater, Staged, Enabling, Enabled, HostsReady, StartedBySite, Launch},
		impossible: []reason{{launched, []Event{Refused, Dropped, NotStarted, QueueLimit}}, {running, ofResult}, {holds, ofRelease}},
	}
}

// computingRow is the row of a state that has begun the task: no other site may begin the run again unasked.
func computingRow() row {
	return row{
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
	}
}

// checkpointingRow is the row of a state that has asked the task for its checkpoint.
func checkpointingRow() row {
	return row{
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
	}
}
