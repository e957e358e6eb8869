package state

// AttemptState is the state of an attempt. internal/control/attempt has the table of its
// changes.
type AttemptState string

// The states of an attempt, in the order in which it comes to them.
const (
	Acquiring     AttemptState = "acquiring"     // a lease is asked for
	Staging       AttemptState = "staging"       // image, inputs and checkpoint are sent to the site
	InQueue       AttemptState = "queued"        // the hosts are awaited
	Cancelling    AttemptState = "cancelling"    // an autostart is cancelled
	Starting      AttemptState = "starting"      // nodes are launched
	Computing     AttemptState = "running"       // the task has begun
	Checkpointing AttemptState = "checkpointing" // the task was asked for its checkpoint
	Ended         AttemptState = "ended"         // the result is known
	Keeping       AttemptState = "keeping"       // the checkpoint is stored
	Collecting    AttemptState = "collecting"    // outputs and logs are collected
	Lending       AttemptState = "lending"       // the files wait for the next attempt
	Releasing     AttemptState = "releasing"     // the lease is released
	Closed        AttemptState = "closed"        // nothing is left on the site
)

// AttemptStates returns all states in their order.
func AttemptStates() []AttemptState {
	return []AttemptState{
		Acquiring, Staging, InQueue, Cancelling, Starting, Computing, Checkpointing,
		Ended, Keeping, Collecting, Lending, Releasing, Closed,
	}
}

// Autostart is how far a site is to start an attempt by itself.
type Autostart string

// The states of an autostart. From Enabling on the attempt may begin at any moment.
const (
	NoAutostart Autostart = "none"
	Attended    Autostart = "attended" // the site waits for a controller once its hosts are there
	Enabling    Autostart = "enabling"
	Enabled     Autostart = "enabled"
)

// MayStart reports whether the site may start the attempt with no controller there.
func (a Autostart) MayStart() bool { return a == Enabling || a == Enabled }

// Result is how an attempt ended. It is a fact: a later request changes what it means, not
// what it was.
type Result string

// The results of an attempt. Unreported is that of a head which is gone, or was given up,
// before it had reported one: the task may still run.
const (
	NoResult     Result = ""
	Exited       Result = "exit"
	Checkpointed Result = "checkpointed"
	TaskFailed   Result = "failed"
	Lost         Result = "lost"
	Unreported   Result = "unreported"
)

// Results returns all results.
func Results() []Result {
	return []Result{NoResult, Exited, Checkpointed, TaskFailed, Lost, Unreported}
}

// Reported reports whether the head has ended by itself: nothing of the attempt computes
// any more.
func (r Result) Reported() bool { return r != NoResult && r != Unreported }

// Verdict is what an attempt means for its run.
type Verdict string

// The verdicts on an attempt.
const (
	NoVerdict     Verdict = ""
	Skipped       Verdict = "skipped"        // the next site is asked
	ExpiredUnused Verdict = "expired"        // the same round again: nobody used the hosts
	Again         Verdict = "again"          // the same site is asked again
	Completed     Verdict = "completed"      // the run has succeeded
	CommandFailed Verdict = "task_failed"    // retry, or the run has failed
	Continues     Verdict = "checkpointed"   // the run continues from the attempt's checkpoint
	ContinuesLost Verdict = "lost_continues" // it was lost, and the run continues
	NotContinued  Verdict = "lost"           // it was lost, or failed, and the run with it
	StoppedByUser Verdict = "stopped"        // the run's user has stopped it
)

// Verdicts returns all verdicts.
func Verdicts() []Verdict {
	return []Verdict{NoVerdict, Skipped, ExpiredUnused, Again, Completed, CommandFailed, Continues, ContinuesLost, NotContinued, StoppedByUser}
}

// Final reports whether the run ends with the attempt, unless its command is tried again.
func (v Verdict) Final() bool {
	return v == Completed || v == CommandFailed || v == NotContinued || v == StoppedByUser
}

// Goes reports whether the run continues after the attempt.
func (v Verdict) Goes() bool { return v == Continues || v == ContinuesLost }

// Released reports whether nothing of the attempt is left on the site.
func (a *Attempt) Released() bool { return a.State == Closed }

// LentToRuns reports whether the attempt is over, and its volume kept for other runs.
func (a *Attempt) LentToRuns() bool { return a.State == Lending && a.Verdict.Final() }

// Launched reports whether the attempt got as far as its nodes: the user's command may
// have run.
func (a *Attempt) Launched() bool {
	switch a.State {
	case Starting, Computing, Checkpointing, Ended, Keeping, Collecting, Lending:
		return true
	}
	return a.Result != NoResult
}

// Decided reports whether the verdict counts: only the release is left, or not even that.
func (a *Attempt) Decided() bool {
	return a.State == Lending || a.State == Releasing || a.State == Closed
}

// Lost reports whether the attempt ended without a result of the task.
func (a *Attempt) Lost() bool { return a.Result == Lost || a.Result == Unreported }
