package runner

import (
	"context"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// controlled is a run with its controller in this process: what the runner and the attempts
// both know of it. Of these two, one at a time changes it.
type controlled struct {
	c         *Runner
	run       state.Run
	sub       submission.Submission
	stop      <-chan struct{}         // closed once the user asks for the end
	fail      context.CancelCauseFunc // ends the controller; nil: there is none
	continued bool                    // another controller has made some attempts
	retries   int                     // attempts whose command failed
	noted     sync.Map                // keys of the events that recordSeen has recorded
	opening   sync.Once               // makes opened
	opened    *retention.Checkpoints  // see checkpoints
}

func control(c *Runner, run state.Run, sub submission.Submission) *controlled {
	return &controlled{c: c, run: run, sub: sub}
}

// maker is what an attempt asks of the part of the controller that makes it.
type maker interface {
	// getImage resolves the run's image, once. jobImage returns it.
	getImage(ctx context.Context) error
	jobImage() core.Image
	// newAttempt counts an attempt on a site, and returns its record.
	newAttempt(site spec.Site) state.Attempt
	// connected notes a lease, which is disconnected when the controller ends.
	connected(l driver.Lease)
	// sentElsewhere reports whether the user has asked for other sites.
	sentElsewhere(ctx context.Context) bool
	// releaseLater tries now and then to release what an attempt has left, after a first pause.
	releaseLater(rec state.Attempt, first time.Duration)
	// releaseBefore releases what the attempt before has lent. done is closed when it is over.
	releaseBefore(ctx context.Context) (done <-chan struct{})
	// lend keeps the files of an attempt for the next one. lent returns that attempt, or nil.
	lend(a *attempt)
	lent() *attempt
}
