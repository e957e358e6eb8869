package event

import "time"

// Kinds of sites and their hosts.
const (
	KindSiteSkipped     Kind = "site_skipped"
	KindNoSite          Kind = "no_site"
	KindQueued          Kind = "queued"
	KindPreemption      Kind = "preemption"
	KindOnDemand        Kind = "on_demand"
	KindVMUsed          Kind = "vm_used"
	KindVMImpossible    Kind = "vm_impossible"
	KindAttendance      Kind = "attendance_needed"
	KindAutostart       Kind = "autostart_enabled"
	KindCancelling      Kind = "cancelling"
	KindRanUnattended   Kind = "ran_unattended"
	KindRemark          Kind = "remark"
	KindHostsSuspended  Kind = "hosts_suspended"
	KindHostsResumed    Kind = "hosts_resumed"
	KindSiteInvalid     Kind = "site_invalid"
	KindUnreachable     Kind = "site_unreachable"
	KindUnneeded        Kind = "site_unneeded"
	KindSiteLost        Kind = "site_lost"
	KindFenced          Kind = "site_fenced"
	KindReleaseFailed   Kind = "release_failed"
	KindReleaseDeferred Kind = "release_deferred"
	KindReleasedLate    Kind = "released_late"
	KindRemovalFailed   Kind = "removal_failed"
)

// SiteSkipped is a site that was not used.
type SiteSkipped Skip

// NoSite is a round in which no site could take the run. Until is the next one; zero:
// it waits for other runs of its user.
type NoSite struct {
	Sites []Skip    `json:"sites"`
	Until time.Time `json:"until,omitzero"`
}

// Queued is news of a wait for hosts.
type Queued struct {
	Reason   string    `json:"reason"`
	Expected time.Time `json:"expected,omitzero"` // where the site expects a time
}

// Preemption is a site that kills a job soon after its notice, for another job.
type Preemption struct {
	Site   string  `json:"site"`
	Notice Seconds `json:"notice_seconds"`
	Grace  Seconds `json:"grace_seconds"` // of the job's checkpoint
}

// OnDemand is the use of machines on demand, as so many attempts on spot machines left no progress.
type OnDemand struct {
	Site string `json:"site"`
	Lost int    `json:"lost"`
}

// VMUsed is the use of virtual machines, as containers cannot run.
type VMUsed struct {
	Cause Cause `json:"cause"`
}

// VMImpossible is the use of containers, as virtual machines cannot run.
type VMImpossible struct {
	Cause Cause `json:"cause"`
}

// Attendance is a site that cannot start the run by itself, as the run has secrets.
type Attendance struct {
	Site string `json:"site"`
}

// Autostart is a site that starts the attempt by itself from now on.
type Autostart struct {
	Site string `json:"site"`
}

// Cancelling is an autostart that could not be cancelled yet. The run continues
// elsewhere only then.
type Cancelling struct {
	Site  string `json:"site"`
	Cause *Cause `json:"cause,omitempty"`
}

// RanUnattended is an attempt that began and ended with no controller there.
type RanUnattended struct {
	Site    string    `json:"site"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
}

// Remark is a message of the head, or of what gets hosts, for the user.
type Remark struct {
	Site    string `json:"site"`
	Message string `json:"message"`
}

// HostsSuspended are hosts that the site has suspended.
type HostsSuspended struct {
	Site   string `json:"site"`
	Reason string `json:"reason"`
}

// HostsResumed are hosts that the site has resumed. Ends is a new deadline; zero: the
// deadline is as before.
type HostsResumed struct {
	Site string    `json:"site"`
	Ends time.Time `json:"ends,omitzero"`
}

// SiteInvalid is a site whose answer cannot be true.
type SiteInvalid struct {
	Site  string `json:"site"`
	Cause Cause  `json:"cause"`
}

// Wait is why a run waits for a site that is unreachable.
type Wait string

// The reasons to wait for a site.
const (
	WaitAutostart  Wait = "autostart"  // the site may start the job
	WaitCheckpoint Wait = "checkpoint" // the last checkpoint is only there
	WaitOutputs    Wait = "outputs"    // the job has ended, its outputs are only there
	WaitTask       Wait = "task"       // the job may still run there
	WaitResult     Wait = "result"     // the time limit is over, and no checkpoint is here
)

// Unreachable is a site without which the run cannot continue. Until is the end of the
// attempt's time limit, where it has one.
type Unreachable struct {
	Site  string    `json:"site"`
	Cause Cause     `json:"cause"`
	Wait  Wait      `json:"wait"`
	Until time.Time `json:"until,omitzero"`
	// Checkpoints reports whether the run has checkpoints to continue from then.
	Checkpoints bool `json:"checkpoints"`
}

// Unneeded is an unreachable site without which the run continues at Until.
type Unneeded struct {
	Site  string `json:"site"`
	Cause Cause  `json:"cause"`
	// Ended reports whether the job has ended there; else its time limit is over.
	Ended bool      `json:"ended"`
	Store string    `json:"store,omitempty"` // of the checkpoint
	Until time.Time `json:"until"`
	Limit Seconds   `json:"patience_seconds"`
}

// SiteLost is a site that is given up. Limit is for how long it did not answer;
// 0: the user declared it lost.
type SiteLost struct {
	Site  string  `json:"site"`
	Limit Seconds `json:"patience_seconds,omitempty"`
	Loss  Loss    `json:"loss"`
}

// Fenced is a site that has stopped the hosts of the run, which had not answered for Limit.
type Fenced struct {
	Site  string  `json:"site"`
	Limit Seconds `json:"patience_seconds"`
}

// Safe is why a run does not wait for a release.
type Safe string

// The reasons not to wait for a release.
const (
	SafeIdle  Safe = "idle"  // nothing computes there
	SafeLost  Safe = "lost"  // the site is declared lost
	SafeTried Safe = "tried" // for long enough
)

// ReleaseFailed is a release that is tried again while the run continues.
type ReleaseFailed struct {
	Site  string `json:"site"`
	Cause Cause  `json:"cause"`
	Safe  Safe   `json:"safe"`
}

// ReleaseDeferred is a release that the run waits for, for Limit at most.
type ReleaseDeferred struct {
	Site  string  `json:"site"`
	Cause Cause   `json:"cause"`
	Limit Seconds `json:"patience_seconds"`
}

// ReleasedLate is a release that succeeded after ReleaseFailed.
type ReleasedLate struct {
	Site string `json:"site"`
}

// RemovalFailed is a release that failed at the end of a run.
type RemovalFailed struct {
	Site  string `json:"site"`
	Cause Cause  `json:"cause"`
}

// Kind implements Fields.
func (SiteSkipped) Kind() Kind { return KindSiteSkipped }

// Kind implements Fields.
func (NoSite) Kind() Kind { return KindNoSite }

// Kind implements Fields.
func (Queued) Kind() Kind { return KindQueued }

// Kind implements Fields.
func (Preemption) Kind() Kind { return KindPreemption }

// Kind implements Fields.
func (OnDemand) Kind() Kind { return KindOnDemand }

// Kind implements Fields.
func (VMUsed) Kind() Kind { return KindVMUsed }

// Kind implements Fields.
func (VMImpossible) Kind() Kind { return KindVMImpossible }

// Kind implements Fields.
func (Attendance) Kind() Kind { return KindAttendance }

// Kind implements Fields.
func (Autostart) Kind() Kind { return KindAutostart }

// Kind implements Fields.
func (Cancelling) Kind() Kind { return KindCancelling }

// Kind implements Fields.
func (RanUnattended) Kind() Kind { return KindRanUnattended }

// Kind implements Fields.
func (Remark) Kind() Kind { return KindRemark }

// Kind implements Fields.
func (HostsSuspended) Kind() Kind { return KindHostsSuspended }

// Kind implements Fields.
func (HostsResumed) Kind() Kind { return KindHostsResumed }

// Kind implements Fields.
func (SiteInvalid) Kind() Kind { return KindSiteInvalid }

// Kind implements Fields.
func (Unreachable) Kind() Kind { return KindUnreachable }

// Kind implements Fields.
func (Unneeded) Kind() Kind { return KindUnneeded }

// Kind implements Fields.
func (SiteLost) Kind() Kind { return KindSiteLost }

// Kind implements Fields.
func (Fenced) Kind() Kind { return KindFenced }

// Kind implements Fields.
func (ReleaseFailed) Kind() Kind { return KindReleaseFailed }

// Kind implements Fields.
func (ReleaseDeferred) Kind() Kind { return KindReleaseDeferred }

// Kind implements Fields.
func (ReleasedLate) Kind() Kind { return KindReleasedLate }

// Kind implements Fields.
func (RemovalFailed) Kind() Kind { return KindRemovalFailed }
