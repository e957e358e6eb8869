// Package runner carries runs out: it uses a run's sites in order, acquires a lease, sends
// image and inputs there, starts the nodes, watches them, collects the outputs and releases
// the lease. It continues what another controller left when that died, and acts on requests.
// Its caller holds the lock of the run.
//
// It knows drivers by their interfaces only, and no command.
package runner

import (
	"context"
	"log/slog"
	"net"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/input"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// Runner makes the attempts of the runs of one state directory.
type Runner struct {
	Store *state.Store
	// Provider makes the provider of a site.
	Provider func(spec.Site) (driver.Provider, error)
	// OpenStore opens the store that a `store:` names.
	OpenStore func(store string) (driver.Store, error)
	// BucketKeys finds the user's credentials for the bucket that the remote of a burst buffer names.
	BucketKeys func(ctx context.Context, remote string) (core.BucketKeys, error)
	// ReadSecrets, if set, reads the values of a job's secrets in place of submission.Secrets.
	ReadSecrets func(context.Context, *spec.Job) (map[string]string, error)
	// RelayBucket answers connections by which a burst buffer reaches the bucket that its remote names, with the user's
	// credentials, until the listener or ctx ends. What comes is not believed.
	RelayBucket func(ctx context.Context, remote string, l net.Listener, log *slog.Logger) error
	// Remote fetches remote inputs.
	Remote Remote
	// LocalStore opens the checkpoints in a directory of this machine, and calls between
	// after each thing that it writes.
	LocalStore func(dir string, between func()) driver.Checkpoints
	// Images gets and sends images.
	Images Images
	// Secure makes sure that at the other end of a connection that Lease.Dial gave is the
	// node of that rank, as one that has the attempt's key: see SecureByKey.
	Secure func(ctx context.Context, conn net.Conn, key []byte, rank int) (net.Conn, error)
	// Connect speaks with a head over such a connection.
	Connect func(net.Conn) (headlink.Head, error)
	// Binary is the path of the bee binary on this machine.
	Binary string
	// Digest is that of the binary, as in state.Binaries; "": not known.
	Digest string
	Log    *slog.Logger
	// Report receives the events, for people; it must not block for long.
	Report func(protocol.Event)
	// Output gets the task's output as it comes, or is nil.
	Output func(tasklog.Frame) error
	// Unattended, if set, is called once a run needs no controller: its task runs, or its site
	// starts it by itself.
	Unattended func()
	// Input is what the commands of runs with Submission.Input read; nil: it was passed to
	// another controller, and what that has not passed on is lost.
	Input *input.Input
	// Routes are those between machines, for all controllers of this process.
	Routes *transfer.Routes
	// between, if set, is called between things that are written one after the
	// other: tests die there.
	between func()
	// reached, if set, gets the pairs of a state and an event that occur.
	reached func(s state.AttemptState, autostart state.Autostart, e machinery.Event)
	// clock, if set, is the machine's clock that nobody sets.
	clock func() state.Moment
	// requestLook, if set, is in place of that constant and declaredLostLook: tests wait for days.
	requestLook time.Duration
	// reuseFrom, if set, is in place of that constant: tests have small volumes.
	reuseFrom int64
	// maxMoves, if set, is in place of that constant: tests make few attempts.
	maxMoves int
}

func (c *Runner) pause() {
	if c.between != nil {
		c.between()
	}
}

// Images is what control needs of the image cache.
type Images interface {
	launch.Images
	// Has reports whether the cache has an image.
	Has(id string) bool
	inputs.Images
}

// Remote is what control needs to reach files that are neither here nor on a site.
type Remote interface {
	inputs.Source
	outputs.Places
	// Uploads names the objects of which parts were sent, and no more, as is noted in a
	// directory; AbortUploads removes the parts, and the notes.
	Uploads(dir string) ([]string, error)
	AbortUploads(ctx context.Context, dir string) error
}

// Times that no user sets.
const (
	releaseTimeout = 60 * time.Second
	// releaseTries: what is just ending may still write where we remove.
	releaseTries = 3
	// releaseLimit bounds these tries before the run continues on another site.
	releaseLimit = 2 * time.Minute
)

// Progress returns a function that reports how far something of a phase is: of what, how
// much is done, and of how much in all, 0 where that is not known.
func (c *Runner) Progress(p core.Phase) func(what string, done, total int64) {
	return func(what string, done, total int64) {
		c.Report(protocol.Event{Time: time.Now(), Phase: p, Rank: -1, Message: what, Done: done, Total: total})
	}
}

// toward returns a function that reports how much of something is done, of total bytes; 0:
// not known.
func (c *Runner) toward(p core.Phase, what string, total int64) func(done int64) {
	return func(done int64) {
		of := total
		if done > of { // a part has travelled twice
			of = 0
		}
		c.Progress(p)(what, done, of)
	}
}

// ReportText reports a text of a phase.
func (c *Runner) ReportText(phase core.Phase, message string) {
	c.Report(protocol.Event{Time: time.Now(), Phase: phase, Rank: -1, Message: message})
}

// Forecasts asks each site of a submission when it would start a run.
func (c *Runner) Forecasts(ctx context.Context, sub *submission.Submission, run string) []candidate.Forecast {
	return c.forecasts(sub, run).All(ctx)
}

// prices asks the sites whose price is not in the sites file.
func (c *Runner) prices(ctx context.Context, sub *submission.Submission, run string) []candidate.Forecast {
	f := c.forecasts(sub, run)
	f.Only = spec.Site.AsksPrice
	return f.All(ctx)
}

func (c *Runner) forecasts(sub *submission.Submission, run string) candidate.Forecasts {
	return candidate.Forecasts{Provider: c.Provider, Binary: c.Binary, Job: &sub.Job, Sites: sub.Sites, Owner: core.Owner{User: c.Store.User(), Run: run, Attempt: 1}}
}
