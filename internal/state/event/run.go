package event

import "time"

// Kinds of a run, its retries and its requests.
const (
	KindNote              Kind = "note"
	KindAttemptState      Kind = "attempt_state"
	KindRetry             Kind = "retry"
	KindBackoff           Kind = "backoff"
	KindMoved             Kind = "moved"
	KindSuspended         Kind = "suspended"
	KindNewSites          Kind = "new_sites"
	KindMoveRequested     Kind = "move_requested"
	KindSecretsUnreadable Kind = "secrets_unreadable"
	KindImageReplaced     Kind = "image_replaced"
	KindForeignAttempt    Kind = "foreign_attempt"
	KindForeignAttempts   Kind = "foreign_attempts"
	KindDependency        Kind = "dependency"
	KindArrayFull         Kind = "array_full"
	KindRequeued          Kind = "requeued"
	KindCasesLost         Kind = "cases_lost"
	KindSetAside          Kind = "set_aside"
)

// Note is an event of an earlier version of bee, which stored only a text.
type Note struct {
	Text string `json:"text"`
}

// AttemptState is a change of the state of an attempt.
type AttemptState struct {
	State string `json:"state"` // from now on
	On    string `json:"on"`    // the event of the state machine
}

// Retry is one more attempt after the command of the job failed.
type Retry struct {
	Cause Cause `json:"cause"`
	Retry int   `json:"retry"` // from 1
	Of    int   `json:"of"`
}

// Backoff is a pause before the next attempt, as the last ones were short.
type Backoff struct {
	Attempts int     `json:"attempts"`
	Shorter  Seconds `json:"shorter_seconds"` // than this, each of them
	Pause    Seconds `json:"pause_seconds"`
}

// Moved is the end of an attempt that another one continues.
type Moved struct {
	Site  string `json:"site"`
	Cause Cause  `json:"cause"`
}

// Suspended is the end of an attempt that no other one continues until the user
// resumes the run.
type Suspended struct {
	Site   string `json:"site"`
	Reason string `json:"reason"` // a state.SuspendReason
	Cause  Cause  `json:"cause"`
}

// NewSites resumes a suspended run, as its sites file has new sites.
type NewSites struct {
	SitesFile string   `json:"sites_file"`
	Sites     []string `json:"sites"`
}

// MoveRequested is a move that the user asked for. Without Sites: to any site but From.
type MoveRequested struct {
	From  string   `json:"from,omitempty"`
	Sites []string `json:"sites,omitempty"`
}

// SecretsUnreadable has a run wait for a bee process that can read its secrets.
type SecretsUnreadable struct {
	Cause Cause `json:"cause"`
}

// ImageReplaced is an image of the first attempt that is not in the cache any more.
type ImageReplaced struct {
	Was string `json:"was"`
	Is  string `json:"is"`
}

// ForeignAttempt is an attempt of another installation that may still have hosts.
type ForeignAttempt struct {
	Site     string   `json:"site"`
	Hosts    []string `json:"hosts,omitempty"`
	Leased   bool     `json:"leased"` // else they were only asked for
	Computes bool     `json:"computes"`
}

// ForeignAttempts are further such attempts.
type ForeignAttempts struct {
	Count int `json:"count"`
}

// Dependency is another run that the run waits for.
type Dependency struct {
	Other string `json:"other"` // its id
	Name  string `json:"name"`
	On    string `json:"on"` // how it has to end
	// Array: the other one is an array of runs.
	Array bool `json:"array,omitempty"`
}

// ArrayFull has a case wait, as so many cases of its array run as are to run at once.
type ArrayFull struct {
	Array  string `json:"array"` // its id
	Name   string `json:"name"`
	AtOnce int    `json:"at_once"`
}

// Requeued has a batch job of Slurm that was started again continue the run, and submit no other one.
type Requeued struct {
	Job     string `json:"job"`     // Slurm's number
	Restart int    `json:"restart"` // how often it was started again
}

// Kind implements Fields.
func (Requeued) Kind() Kind { return KindRequeued }

// CasesLost has cases of a pack run again that had ended: their only results were on a site
// that is lost.
type CasesLost struct {
	Site  string `json:"site"`
	Cases []int  `json:"cases"` // their numbers in the array
}

// Kind implements Fields.
func (CasesLost) Kind() Kind { return KindCasesLost }

// Kind implements Fields.
func (ArrayFull) Kind() Kind { return KindArrayFull }

// SetAside is the end of a controller that no later one would come through either.
type SetAside struct {
	Cause Cause `json:"cause"`
}

// Kind implements Fields.
func (SetAside) Kind() Kind { return KindSetAside }

// Kind implements Fields.
func (Dependency) Kind() Kind { return KindDependency }

// Kind implements Fields.
func (Note) Kind() Kind { return KindNote }

// Kind implements Fields.
func (AttemptState) Kind() Kind { return KindAttemptState }

// Kind implements Fields.
func (Retry) Kind() Kind { return KindRetry }

// Kind implements Fields.
func (Backoff) Kind() Kind { return KindBackoff }

// Kind implements Fields.
func (Moved) Kind() Kind { return KindMoved }

// Kind implements Fields.
func (Suspended) Kind() Kind { return KindSuspended }

// Kind implements Fields.
func (NewSites) Kind() Kind { return KindNewSites }

// Kind implements Fields.
func (MoveRequested) Kind() Kind { return KindMoveRequested }

// Kind implements Fields.
func (SecretsUnreadable) Kind() Kind { return KindSecretsUnreadable }

// Kind implements Fields.
func (ImageReplaced) Kind() Kind { return KindImageReplaced }

// Kind implements Fields.
func (ForeignAttempt) Kind() Kind { return KindForeignAttempt }

// Kind implements Fields.
func (ForeignAttempts) Kind() Kind { return KindForeignAttempts }

// Skip is a site that was not used, with its reason.
type Skip struct {
	Site  string `json:"site"`
	Cause Cause  `json:"cause"`
}

// Loss is what a run loses with a site, and what may still compute there.
type Loss struct {
	// Computes reports whether the attempt may still compute, on Hosts, at most
	// until Until; zero: no limit is known.
	Computes bool      `json:"computes"`
	Hosts    []string  `json:"hosts,omitempty"`
	Until    time.Time `json:"until,omitzero"`
	// Checkpoint is when the newest checkpoint was taken; zero: there is none, or
	// CheckpointUnknown, as the store does not answer.
	Checkpoint        time.Time `json:"checkpoint,omitzero"`
	CheckpointUnknown bool      `json:"checkpoint_unknown,omitempty"`
	Store             string    `json:"store,omitempty"` // "": the submitting machine
}
