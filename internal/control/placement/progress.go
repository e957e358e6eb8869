package placement

import (
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// Bounds on a run that is continued without progress.
const (
	// MostLost is how many attempts may be lost without a new checkpoint, or with
	// snapshots that hold nothing new, before a run waits for its user.
	MostLost = 10
	// MostUnchanged is how many attempts may end with the checkpoint of the one before.
	// A job that is asked soon after its start has nothing new.
	MostUnchanged = 3
	// MostShort is how many attempts in a row may ask to be continued after less than
	// ShortAttempt.
	MostShort    = 10
	ShortAttempt = 5 * time.Second
	// MostContinued is how many attempts in a row may each be continued by another one,
	// whatever each of them has left.
	MostContinued = 10_000
	// MostSpotLosses is how many attempts on spot machines may be lost in a row without progress before a run uses
	// machines on demand.
	MostSpotLosses = 2
)

// SpotLosses counts the attempts on spot machines of a provider that left no progress, since one that did.
func SpotLosses(attempts []state.Attempt, provider string) int {
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if !rec.Launched() || !rec.Verdict.Goes() {
			continue
		}
		if !rec.NoProgress {
			break
		}
		if rec.Provider == provider && len(rec.Hosts) > 0 && rec.Hosts[0].Spot {
			count++
		}
	}
	return count
}

// Continued counts the attempts in a row right before the n-th that were continued, at once or
// after a resume. Attempts that a site did not accept are not counted.
func Continued(attempts []state.Attempt, n int) int {
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if rec.N >= n || !rec.Launched() {
			continue
		}
		if !rec.Verdict.Goes() {
			break
		}
		count++
	}
	return count
}

// Unchanged counts the attempts that left the checkpoint as it was, since one that did not.
func Unchanged(attempts []state.Attempt) int {
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if rec.Result == state.Checkpointed && !rec.NoProgress {
			break
		}
		if rec.NoProgress && !rec.Lost() {
			count++
		}
	}
	return count
}

// Short counts the last attempts in a row that wrote their checkpoint soon after their start.
func Short(attempts []state.Attempt) int {
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if !rec.Launched() { // a site that did not take it says nothing
			continue
		}
		if rec.Result != state.Checkpointed || rec.Phases[core.PhaseRun] >= ShortAttempt {
			break
		}
		count++
	}
	return count
}

// LaunchedSince counts the launched attempts after the n-th, which has the newest
// checkpoint. Where that one was lost and left what it had begun with, attempts since the
// last one with progress count. this replaces the record of the same attempt.
func LaunchedSince(attempts []state.Attempt, this state.Attempt, n int) int {
	count := 0
	for _, rec := range slices.Backward(attempts) {
		if rec.N == this.N {
			rec = this
		}
		if !rec.Launched() {
			continue
		}
		if rec.N <= n && !(rec.NoProgress && rec.Lost()) {
			break
		}
		count++
	}
	return count
}

// Pauses before an attempt that follows short ones: each costs its site a job.
const (
	firstPause   = 2 * time.Second
	longestPause = 5 * time.Minute
)

// Pause returns how long a run waits before its next attempt, after so many short ones.
func Pause(short int) time.Duration {
	if short < 2 {
		return 0
	}
	return min(firstPause<<(min(short, MostShort)-2), longestPause)
}
