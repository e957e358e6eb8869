package burst

import (
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// refusal is a change that the remote refuses until a user mends the reason.
type refusal struct {
	reason      remote.Reason
	since, last time.Time
}

// next is the refusal after a try that has failed with err; nil: it was not refused.
func (r *refusal) next(err error) *refusal {
	reason := remote.ReasonOf(err)
	if _, ours := errors.AsType[*journalError](err); ours || reason == "" {
		return nil
	}
	now := time.Now()
	if r != nil && r.reason == reason {
		return &refusal{reason, r.since, now}
	}
	return &refusal{reason, now, now}
}

// final reports whether programs get the refusal as an error.
func (r *refusal) final(timeout time.Duration) bool {
	return r != nil && time.Since(r.since) >= r.reason.Timeout(timeout)
}

func (r *refusal) describe(timeout time.Duration) *calls.Refused {
	if r == nil {
		return nil
	}
	return &calls.Refused{Reason: r.reason, Since: r.since, Last: r.last, Final: r.final(timeout), Remedy: r.reason.Remedy()}
}

// refused is the errno of a final refusal of the remote; nil: there is none. What is undrained stays, and is
// tried again.
func (d *drainer) refused() error {
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	return d.refusedLocked()
}

func (d *drainer) refusedLocked() error {
	if !d.refusal.final(d.timeout) {
		return nil
	}
	return d.refusal.reason.Errno()
}

// accepted is the error of an fsync or close of a file of which the remote lacks something, while the remote
// refuses changes. The data are in the journal.
func (v *Volume) accepted(ino uint64) error {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	n := v.journal.state.Node(ino)
	if n == nil || n.Clean() || n.Stays || !n.Linked() {
		return nil
	}
	return v.drainer.refusedLocked()
}

// Refusal is the error of a wait for a drain that the remote refuses; nil: it does not.
func Refusal(s calls.Status) error {
	if s.Refused == nil {
		return nil
	}
	return &core.Error{
		Kind: core.Permanent, Op: "drain the volume to", Object: s.Remote, Err: fmt.Errorf("it refuses a change (%s): %s. %d bytes in %d changes are undrained", s.Refused.Reason, s.Waits, s.Undrained, s.Changes),
		Remedy: s.Refused.Remedy + " What is undrained stays on the host's disk, and is tried again: `bee volume recover " + s.Remote + "` waits for it.",
	}
}
