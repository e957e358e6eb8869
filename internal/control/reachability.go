package control

import (
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
)

// reachability is what this controller knows of how an attempt's site answers. None of it is
// on record: only the time in which this controller has looked without success counts, and
// another one may have got an answer before.
type reachability struct {
	// suspended is set while the site itself has the hosts suspended. No time counts then.
	suspended bool
	// silent is since when there has been no connection to the head, and unneeded since when
	// the site has not answered while the run can continue without it; zero: it answers.
	silent, unneeded time.Time
	reported         waitReport
}

// waitReport is what the run's history says of a wait for a site.
type waitReport int

// The reports, each after the one before.
const (
	waitUnreported waitReport = iota
	waitReported
	overReported // with the time limit over: nothing computes there any more
)

// away reports whether the site does not answer.
func (r *reachability) away() bool { return !r.silent.IsZero() || !r.unneeded.IsZero() }

// news reports whether a wait for the site belongs into the history. over is set once the time
// limit is over.
func (r *reachability) news(over bool) bool {
	return r.reported == waitUnreported || over && r.reported == waitReported
}

// report notes that the history has a wait.
func (r *reachability) report(over bool) {
	if r.reported = waitReported; over {
		r.reported = overReported
	}
}

// unreachable notes that the site does not answer, at one of the two times.
func (a *attempt) unreachable(since *time.Time) {
	if !a.reach.away() {
		a.rec.on(machinery.Unreachable)
	}
	if since.IsZero() {
		*since = time.Now()
	}
}

// reachable notes that the site answers.
func (a *attempt) reachable() {
	if a.reach.away() {
		a.rec.on(machinery.Reachable)
	}
	a.reach = reachability{suspended: a.reach.suspended}
}
