package slurm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/store"
	"github.com/bee-hpc/bee/internal/treesync"
)

// lease is one job, or one step of a job of the user's.
type lease struct {
	p       *provider
	owner   core.Owner
	base    string // <scratch>/bee
	dir     string // the lease's own
	mu      sync.Mutex
	details details
	terms   *terms // nil until the nodes are there
}

// read reads what is known; what is not there stays empty.
func (l *lease) read() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var d details
	if there, err := readIfThere(filepath.Join(l.dir, detailsName), &d); err != nil {
		return err // of which nothing is concluded: what was read before still holds
	} else if !there {
		l.details = details{}
		return nil
	}
	var t terms
	there, err := readIfThere(filepath.Join(l.dir, grantedName), &t)
	if err != nil {
		return err
	}
	l.details = d
	if there {
		l.terms = &t
	}
	return nil
}

func (l *lease) granted() *terms {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms
}

// Handle implements driver.Lease.
func (l *lease) Handle() core.Handle { return kind().Handle(l.dir, l.owner) }

// Hosts implements driver.Lease. Before they are granted, their directory is
// all that is known of them.
func (l *lease) Hosts() []core.Host {
	if t := l.granted(); t != nil {
		return t.Hosts
	}
	return l.provisional()
}

// Disconnect implements driver.Lease: connections to agents are made for each call.
func (l *lease) Disconnect() {}

// TryRuntime implements driver.Lease: agents try none.
func (l *lease) TryRuntime(context.Context, string) (works, host string, err error) {
	return "", "", nil
}

// Queue implements driver.Lease.
func (l *lease) Queue() driver.LeaseQueue { return leaseQueue{l} }

// Autostart implements driver.Lease.
func (l *lease) Autostart() driver.Autostart { return leaseAutostart{l} }

// DirectTransfer implements driver.Lease: the files are on this machine.
func (l *lease) DirectTransfer() driver.DirectTransfer { return nil }

// VolumeReuse implements driver.Lease.
func (l *lease) VolumeReuse() driver.VolumeReuse { return volumeReuse{l} }

// StoreAccess implements driver.Lease.
func (l *lease) StoreAccess() driver.StoreAccess { return nil }

// Downloads implements driver.Lease: what this machine fetches is there.
func (l *lease) Downloads() driver.Downloader { return nil }

// Fencer implements driver.Lease.
func (l *lease) Fencer() driver.Fencer { return nil }

// Price implements driver.Lease: the site has no price list.
func (*lease) Price() *driver.Price { return nil }

// Adopters implements driver.Lease.
func (l *lease) Adopters() driver.Adopters { return leasedir.Adopters(l.dir) }

// Matches implements driver.Lease.
func (l *lease) Matches(ctx context.Context, tree string, m driver.Manifest) (bool, error) {
	return store.Matches(ctx, tree, m)
}

// KeepsFiles implements driver.Lease: they are in the shared scratch.
func (l *lease) KeepsFiles() bool { return true }

// Deadline implements driver.Lease: the end of the job's time.
func (l *lease) Deadline() time.Time {
	if t := l.granted(); t != nil {
		return t.Deadline
	}
	return time.Time{}
}

// Status implements driver.Lease.
func (l *lease) Status(ctx context.Context) (driver.Status, error) {
	if err := kind().Check(l.dir); core.IsKind(err, core.NotFound) {
		return driver.Status{Reason: "released"}, nil
	} else if err != nil {
		return driver.Status{}, err
	}
	if l.details.Job == "" {
		return driver.Status{Reason: "half-made by a process that ended"}, nil
	}
	j, err := l.p.s.Queue.job(ctx, l.details.Job)
	if err != nil {
		return driver.Status{}, err
	}
	if j.gone() {
		return driver.Status{Reason: l.words(j.ending()), End: j.hostsEnd(), Ending: j != nil && j.state == completing}, nil
	}
	granted, err := l.look()
	if err != nil {
		return driver.Status{}, err
	}
	requeued := granted != nil && (j.again() || granted.before(j))
	if granted == nil {
		if requeued, err = l.requeued(ctx); err != nil {
			return driver.Status{}, err
		}
	}
	if requeued {
		return driver.Status{Reason: l.words(wasRequeued)}, nil
	}
	if j.still() {
		return driver.Status{Live: true, Reason: l.words(j.standing())}, nil
	}
	if t := l.granted(); t != nil && !l.details.Own {
		runs, err := stepRuns(ctx, l.details.Job+"."+t.Step)
		if err != nil {
			return driver.Status{}, err
		}
		if !runs {
			return driver.Status{Reason: "bee's step of Slurm job " + l.details.Job + " has ended"}, nil
		}
	}
	if there, err := fsutil.Exists(l.details.Dir); err != nil {
		return driver.Status{}, err
	} else if !there {
		return driver.Status{Reason: "its directory is gone"}, nil
	}
	return driver.Status{Live: true, Ends: j.end}, nil
}

const wasRequeued = "Slurm has put it back into its queue"

// before reports whether Slurm has started the job again since: the job's steps have the
// same numbers again, and are others.
func (t *terms) before(j *job) bool {
	return j != nil && !t.Since.IsZero() && j.start.After(t.Since)
}

// requeued reports whether Slurm has requeued the user's job since bee began its step there.
// The step ended with that start of the job, and its number may be another step's now.
func (l *lease) requeued(ctx context.Context) (bool, error) {
	if l.details.Own || l.details.Restarts == "" {
		return false, nil
	}
	now, err := restarts(ctx, l.details.Job)
	if core.IsKind(err, core.NotFound) { // so is the step
		return true, nil
	}
	return err == nil && now != "" && now != l.details.Restarts, err
}

// away is the error of a scratch directory that is not mounted, or does not answer: what
// is not seen in it may be there all the same, and the job continue.
func (l *lease) away() error {
	if err := kind().Check(l.dir); core.IsKind(err, core.Transient) {
		return err
	}
	return nil
}

func (l *lease) check(op string, host int) (*terms, error) {
	t := l.granted()
	if t == nil {
		return nil, &core.Error{Kind: core.Transient, Op: op, Object: l.p.s.Name, Err: errors.New("Slurm has not granted the nodes yet"), Remedy: "Wait: `bee show RUN` prints the state of the job in the queue."} //nolint:staticcheck // a name
	}
	if host < 0 || host >= len(t.Hosts) {
		return nil, &core.Error{Kind: core.Invalid, Op: op, Object: fmt.Sprintf("host %d", host), Err: fmt.Errorf("the lease has %d hosts", len(t.Hosts)), Remedy: core.RemedyFault}
	}
	return t, nil
}

// NodeAlive implements driver.Lease.
func (l *lease) NodeAlive(ctx context.Context, host int) (bool, error) {
	alive, err := ask(ctx, l, host, callAlive, rpc.None{})
	if core.IsKind(err, core.Transient) {
		if s, serr := l.Status(ctx); serr == nil && !s.Live {
			return false, nil
		}
	}
	return alive, err
}

// HasImage implements driver.Lease: all nodes share one cache.
func (l *lease) HasImage(_ context.Context, _ int, id string) (bool, error) {
	return l.p.s.HasImage != nil && l.p.s.HasImage(l.provisional()[0].Cache, id), nil
}

// Launch implements driver.Lease.
func (l *lease) Launch(ctx context.Context, c driver.NodeCommand) error {
	if _, err := l.check("launch node on", c.Host); err != nil {
		return err
	}
	_, err := ask(ctx, l, c.Host, callLaunch, launchRequest{Log: c.Log, Config: c.Config, Argv: l.p.s.NodeArgv})
	return err
}

// Dial implements driver.Lease.
func (l *lease) Dial(ctx context.Context, host int, socket string) (net.Conn, error) {
	peer, err := l.connect(ctx, host)
	if err != nil {
		return nil, err
	}
	// The stream outlives the dialling, and its connection ends with it.
	s, _, err := rpc.Open(context.WithoutCancel(ctx), peer, callDial, dialRequest{socket})
	if err != nil {
		peer.Close()
		return nil, transient(err)
	}
	return &dialled{s, peer}, nil
}

// Stage implements driver.Lease, through the shared scratch.
func (l *lease) Stage(ctx context.Context, t driver.Transfer) error {
	if err := treesync.Copy(ctx, t.Local, t.Remote, t.Progress); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "copy to", Object: l.p.s.Name, Err: err}
	}
	return nil
}

// Fetch implements driver.Lease, through the shared scratch.
func (l *lease) Fetch(ctx context.Context, t driver.Transfer) error {
	if err := l.away(); err != nil {
		return err
	}
	from, done, err := leasedir.Source(t)
	if err != nil {
		return err
	}
	defer done()
	if err := treesync.Copy(ctx, from, t.Local, t.Progress); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "copy from", Object: l.p.s.Name, Err: err}
	}
	return nil
}

// Release ends the job, or the step, then removes the run's directory, and the
// lease's own last.
func (l *lease) Release(ctx context.Context) error {
	if err := l.away(); err != nil {
		return err
	}
	return leasedir.Release(ctx, l.dir, l.owner, l.destroy)
}

// destroy ends the job and removes everything but the lease's own directory,
// which it empties. The caller holds the lock.
func (l *lease) destroy(ctx context.Context) error {
	if err := l.read(); err != nil {
		return err
	}
	if err := l.endJobs(ctx); err != nil {
		return fmt.Errorf("end the Slurm job of %s: %w", l.owner, err)
	}
	return leasedir.Empty(l.dir, l.base, l.owner)
}

// completingTimeout is how long Slurm may take to tidy up after a job before we
// do not wait for it any more: a site's epilog may take minutes, and nothing of
// ours runs by then.
const completingTimeout = 20 * time.Second

// endJobs ends whatever was submitted from the lease's directory, which is the
// working directory of its jobs: also one whose number was never written.
func (l *lease) endJobs(ctx context.Context) error {
	if there, err := fsutil.Exists(filepath.Join(l.dir, keysName)); err != nil || !there {
		return err // nothing is submitted without
	}
	// From now on an agent that is asked to end does so at once.
	if err := fsutil.WriteFile(filepath.Join(l.dir, releasedName), nil, 0o600); err != nil {
		return err
	}
	l.endAgents(ctx)
	if l.details.Job != "" && !l.details.Own {
		return l.endStep(ctx)
	}
	begun := time.Now()
	return poll(ctx, func() (bool, error) {
		list, err := jobsIn(ctx, l.dir)
		if err != nil {
			return false, err
		}
		left := 0
		for _, j := range list {
			tidying := j.state == completing
			if j.over() || tidying && time.Since(begun) > completingTimeout {
				continue
			}
			left++
			if tidying {
				continue
			}
			if _, err := call(ctx, "scancel", j.id); err != nil && !core.IsKind(err, core.NotFound) {
				return false, err
			}
		}
		return left == 0, nil
	})
}

// endStep ends bee's step in a job of the user's.
func (l *lease) endStep(ctx context.Context) error {
	if requeued, err := l.requeued(ctx); err != nil || requeued {
		return err
	}
	step := ""
	if t := l.granted(); t != nil {
		step = t.Step
		if j, err := jobNumbered(ctx, l.details.Job); err != nil || t.before(j) {
			return err // the step of that number is another one
		}
	} else if up := l.announced(); len(up) > 0 {
		step = up[0].Step
	} else {
		return nil // its agents end by themselves when they find no lease
	}
	id := l.details.Job + "." + step
	begun := time.Now()
	return poll(ctx, func() (bool, error) {
		if runs, err := stepRuns(ctx, id); err != nil || !runs {
			return true, err
		}
		if time.Since(begun) < 100*time.Millisecond { // it may end by itself
			return false, nil
		}
		_, err := call(ctx, "scancel", id)
		if core.IsKind(err, core.NotFound) {
			err = nil
		}
		return false, err
	})
}

// endAgents reports to every agent that can be reached to end its node in good
// order; those that cannot are ended with their job.
func (l *lease) endAgents(ctx context.Context) {
	t := l.granted()
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	gate := make(chan struct{}, 64)
	for i := range t.Hosts {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			core.BestEffort(ask(ctx, l, i, callEnd, rpc.None{}))
		})
	}
	wg.Wait()
}

// poll asks until it is done, less and less often.
func poll(ctx context.Context, done func() (bool, error)) error {
	backoff := fsutil.Backoff{First: 10 * time.Millisecond, Longest: time.Second}
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}
