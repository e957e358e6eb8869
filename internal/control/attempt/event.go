package attempt

// Event is something that may change the state of an attempt.
type Event string

// Results of drivers.
const (
	Acquired      Event = "acquired"        // a lease is there, and its site accepts files now
	AcquiredLater Event = "acquired_later"  // a lease is there, and files have to wait for its hosts
	Refused       Event = "refused"         // something before the launch failed
	Staged        Event = "staged"          // all files are on the site, its hosts are to come
	Enabling      Event = "enabling"        // an autostart is on record, and is enabled next
	Enabled       Event = "enabled"         // an autostart is in force
	HostsReady    Event = "hosts_ready"     // the hosts are there, and nothing is staged yet
	Expired       Event = "expired"         // the hosts were there, and were released as no controller came
	Dropped       Event = "dropped"         // the site has dropped the attempt from its queue
	StartedBySite Event = "started_by_site" // an autostart has begun
	NotStarted    Event = "not_started"     // an autostart is known not to have begun
	Launch        Event = "launch"          // the nodes are launched next
	LaunchFailed  Event = "launch_failed"   // a node could not be launched, or the head not reached
	Kept          Event = "kept"            // the checkpoint is durable in the store, and compared
	NotKept       Event = "not_kept"        // the checkpoint cannot be had, or its user does not wait
	Collected     Event = "collected"       // outputs and logs are durable
	Lent          Event = "lent"            // the same, and the files stay for the next attempt
	LendingOver   Event = "lending_over"    // the next attempt has staged, or there is none
	Released      Event = "released"        // nothing is left on the site
	ReleaseFailed Event = "release_failed"  // the release failed, and is tried again
)

// Events of a head, and of the controller that watches it.
const (
	TaskBegins      Event = "task_begins"      // the user's command has begun, or continues after a checkpoint
	CheckpointAsked Event = "checkpoint_asked" // the head has asked the task for its checkpoint
	Reported        Event = "result"           // the head has reported a result
	HeadGone        Event = "head_gone"        // the site answers, and there is no head and no result
	CheckpointOwed  Event = "checkpoint_owed"  // the result has left a checkpoint on the site
	OutputsOwed     Event = "outputs_owed"     // no checkpoint has to be stored, the rest is collected
	NothingOwed     Event = "nothing_owed"     // nothing on the site is needed
)

// Requests of the run's user.
const (
	Stop     Event = "stop"
	Leave    Event = "leave"     // move, or leave the queue
	SiteLost Event = "site_lost" // the site is declared lost
)

// Clocks.
const (
	QueueLimit Event = "queue_limit" // the hosts did not come within the site's limit
	TimeOver   Event = "time_over"   // the time limit is over, and the site has not answered for longer than the limit
	GivenUp    Event = "given_up"    // the site has not answered for longer than the limit, and the run needs nothing there
)

// Events that may come in every state.
const (
	ControllerStarted Event = "controller_started"
	Unreachable       Event = "unreachable"
	Reachable         Event = "reachable"
	HostsSuspended    Event = "hosts_suspended"
	HostsResumed      Event = "hosts_resumed"
	RunOver           Event = "run_over" // the run is over, or continues, without what the attempt still has
)

// Events returns all events.
func Events() []Event {
	return []Event{
		Acquired, AcquiredLater, Refused, Staged, Enabling, Enabled, HostsReady, Expired, Dropped, StartedBySite, NotStarted,
		Launch, LaunchFailed, TaskBegins, CheckpointAsked, Reported, HeadGone, TimeOver, CheckpointOwed, OutputsOwed, NothingOwed,
		Kept, NotKept, Collected, Lent, LendingOver, Released, ReleaseFailed,
		Stop, Leave, SiteLost, QueueLimit, GivenUp,
		ControllerStarted, Unreachable, Reachable, HostsSuspended, HostsResumed, RunOver,
	}
}
