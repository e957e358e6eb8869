package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
)

const (
	// A site that starts the nodes by itself may see files of a network file system a
	// minute late.
	thereTimeout  = 3 * time.Minute
	shortestPause = 100 * time.Millisecond
	longestPause  = 2 * time.Second
	joinCheck     = 500 * time.Millisecond
	// suspendedLook is the interval between looks at suspended hosts: a resumed head waits
	// half a minute at most for the new end of its slot.
	suspendedLook = 10 * time.Second
	// maxStumbles is how often a head may answer and then break the line at once: one
	// that ends does so once, and leaves a result.
	maxStumbles = 20
)

// headWatch follows the head of an attempt until that has a result.
type headWatch struct {
	rec     *record
	at      *siteLease
	reach   *reachability
	reports *headReports
	keeping *keeping
	// dead is set when a node was found dead before it had joined.
	dead atomic.Pointer[core.Error]
	// shown is how much of the task's output was passed to Controller.Output.
	shown int64
	// unseen is set when an attempt was over before this controller saw anything of it: the
	// history says so. lastSeen is the time of the head's last event, by the hosts' clock.
	unseen   bool
	lastSeen time.Time
}

// follow watches the head until it has a result. The line to the head may
// break and come back: the attempt does not depend on it.
func (w *headWatch) follow(ctx context.Context, offset int64) (*protocol.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		w.shown = offset
		w.reports.measured.write()
		w.reports.samples.write()
	}()
	var (
		after  int64
		pause  = fsutil.Backoff{Exact: true}
		silent int
		// stumbles are connections in a row that broke at once, with no event.
		stumbles int
	)
	for {
		head, err := w.connect(ctx)
		if err != nil {
			if core.IsKind(err, core.Transient) && ctx.Err() == nil {
				if !pause.Waited() {
					w.rec.of.c.ReportText("", fmt.Sprintf("lost contact with %s; the run continues there, and this process waits for the connection", w.at.lease.Hosts()[0].Name))
				}
				if result, err := w.unconnected(ctx, err, &after); result != nil || err != nil {
					return result, err
				}
				longest := longestPause
				if w.reach.suspended {
					longest = suspendedLook
				} else if w.reach.reported != waitUnreported { // it may be away for long
					longest = longestLook(w.reach.silent)
				}
				pause.First, pause.Longest = shortestPause, longest
				core.Pause(ctx, pause.Next()) // what comes next looks at ctx
				continue
			}
			if result, err := w.lastResult(ctx, err, &after); result != nil || err != nil {
				return result, err
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			pause.First, pause.Longest = shortestPause, longestPause
			core.Pause(ctx, pause.Next()) // what comes next looks at ctx
			continue
		}
		w.reach.reachable()
		if stumbles == 0 {
			pause.Reset()
		}
		head = w.at.headFiles().Checked(head)
		if headlink.Hangs(ctx, head) {
			head.Close()
			if silent++; silent == 1 {
				w.rec.of.c.ReportText("", fmt.Sprintf("the node on %s does not answer: is it stopped, or its host overloaded? Waiting for it", w.at.lease.Hosts()[0].Name))
			}
			if silent == headlink.SilentTries {
				return nil, headlink.Hung(w.at.lease.Hosts()[0].Name, headlink.SilentTries*headlink.AnswerTimeout)
			}
			continue
		}
		silent = 0
		w.reach.reportEnd(ctx, head)
		begun, before := time.Now(), after
		result, err := w.watch(ctx, head, &after, &offset)
		head.Close()
		if result != nil {
			return result, nil
		}
		if errors.As(err, new(headlink.InvalidReport)) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		w.reach.silent = time.Time{} // from now on
		w.reach.unreachable(&w.reach.silent)
		result, lerr := w.readLeft(ctx, &after)
		if lerr == nil || errors.As(lerr, new(headlink.InvalidReport)) {
			return result, lerr
		}
		w.rec.of.c.Log.Debug("line to head broke", "run", w.rec.of.run.ID, "err", err)
		if stumbles++; after > before || time.Since(begun) > time.Second {
			stumbles = 0
		}
		if stumbles > maxStumbles {
			return nil, w.at.headFiles().Invalid(fmt.Errorf("it has answered %d times, and reported nothing: %w", stumbles, err))
		}
		if stumbles > 1 {
			pause.First, pause.Longest = shortestPause/2, longestPause/4
			core.Pause(ctx, pause.Next()) // what comes next looks at ctx
		}
	}
}

// unconnected asks the site for the hosts of a head that cannot be reached, whose error is why.
// It returns the result of the head where the hosts are gone and their files are not; errAway:
// the site has not answered for too long.
func (w *headWatch) unconnected(ctx context.Context, why error, after *int64) (*protocol.Result, error) {
	status, err := w.at.lease.Status(ctx)
	w.reach.hostsSilent(err == nil && (status.Reason == "" || !status.Live)) // else they are suspended
	if err == nil && !status.Live {
		lost := &core.Error{Kind: core.Lost, Op: "watch site", Object: w.at.site.Name, Err: errors.New(status.Reason), Remedy: core.RemedyShow}
		if result, err := w.lastResult(ctx, lost, after); result != nil || err != nil { // files may outlive their hosts
			if result == nil {
				w.rec.HostsEnd = status.End
			}
			if w.rec.Ended.IsZero() { // since then no site has the run, however late this is seen
				w.rec.Ended = w.lastSeen
			}
			return result, err
		}
	} else if err == nil && status.Reason != "" {
		w.reach.hostsSuspended(ctx, status.Reason)
	} else if err == nil {
		w.reach.hostsResumed(ctx, status)
	}
	if lost, err := w.reach.tooLong(ctx, why); err != nil {
		return nil, &unreadError{err}
	} else if lost {
		return nil, errAway
	}
	return nil, nil
}

// watch follows one connection's events and output.
func (w *headWatch) watch(ctx context.Context, head headlink.Head, after, offset *int64) (*protocol.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go w.rec.of.guard(func() {
		select {
		case <-w.rec.of.stop:
			pause := fsutil.Backoff{First: time.Second, Longest: 10 * time.Second}
			by, err := w.rec.replaced(ctx, w.at.lease)
			for ; err != nil && pause.Wait(ctx) == nil; by, err = w.rec.replaced(ctx, w.at.lease) {
			}
			if err != nil || by.Installation != "" {
				return // it ends nothing of another one's
			}
			// Without an answer it is not known whether the head has received
			// the request: it is sent again on another connection.
			if err := head.Stop(ctx, launch.DefaultGrace); err != nil && core.Sleep(ctx, time.Second) == nil {
				w.rec.of.c.Log.Debug("the head was not asked to stop", "run", w.rec.of.run.ID, "err", err)
				head.Close()
			}
		case <-ctx.Done():
		}
	})
	drained := make(chan struct{})
	go w.rec.of.guard(func() {
		defer close(drained)
		if w.rec.of.c.Output != nil {
			core.BestEffort(head.Output(ctx, *offset, true, func(f tasklog.Frame) error { // what is missing is read from the fetched log
				*offset = f.Next
				return w.rec.of.c.Output(f)
			}))
		}
	})
	var beside sync.WaitGroup // what ends with ctx
	begin := func(do func()) { beside.Go(func() { w.rec.of.guard(do) }) }
	begin(func() {
		if !w.rec.of.sub.Input {
			return
		}
		if err := head.Input(ctx, w.rec.of.c.Input); err != nil && ctx.Err() == nil {
			w.rec.of.c.Log.Debug("pass the input on", "run", w.rec.of.run.ID, "err", err)
		}
	})
	begin(func() { w.relay(ctx, head) })
	begin(func() { w.renewKeys(ctx, head) })
	snapshots, bringing := make(chan protocol.Event, 1), make(chan struct{})
	go w.rec.of.guard(func() {
		defer close(bringing)
		for kept := range snapshots {
			if err := w.keeping.bringSnapshot(ctx, head, kept); err != nil && ctx.Err() == nil {
				w.rec.of.c.ReportText(core.PhaseRun, fmt.Sprintf("warning: a checkpoint could not be collected: %v", err))
			}
		}
	})
	defer func() { cancel(); close(snapshots); <-bringing }()
	joined, markJoined := context.WithCancel(ctx)
	defer markJoined()
	go w.rec.of.guard(func() { w.watchJoin(joined, head) })
	var result *protocol.Result
	err := head.Watch(ctx, *after, func(e protocol.Event) error {
		*after = e.Seq
		if err := w.reports.handle(ctx, e); err != nil {
			return err
		}
		if e.End && e.Phase == core.PhaseJoin {
			markJoined()
		}
		if e.Snapshot > 0 { // the newest is enough: a late one is skipped
			select {
			case <-snapshots:
			default:
			}
			snapshots <- e
		}
		if e.Result != nil {
			result = e.Result
		}
		return nil
	})
	if result == nil {
		cancel()
	}
	<-drained // the head closes the output after the last byte
	cancel()
	beside.Wait()
	return result, err
}

// relayWorks is after what time a relay that ends has worked.
const relayWorks = time.Minute

// relay passes requests of a burst buffer there on to its bucket, where it may have no other way, until ctx ends. One
// that ends is begun again.
func (w *headWatch) relay(ctx context.Context, head headlink.Head) {
	job := &w.rec.of.sub.Job
	if !job.MayRelay() || w.rec.of.c.RelayBucket == nil {
		return
	}
	log := w.rec.of.c.Log.With("run", w.rec.of.run.ID)
	pause := fsutil.Backoff{First: joinCheck, Longest: longestPause, Exact: true}
	for warned := false; ; {
		begun := time.Now()
		err := head.Relay(ctx, func(ctx context.Context, l net.Listener) error {
			return w.rec.of.c.RelayBucket(ctx, job.Volume.Remote, l, log)
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > relayWorks {
			pause.Reset()
			warned = false
		}
		never := core.IsKind(err, core.Unsupported)
		if !never && pause.Wait(ctx) != nil { // the head has ended
			return
		}
		if !warned {
			log.Warn("requests of the burst buffer for its bucket are not passed on", "err", err)
			warned = true
		}
		if never {
			return
		}
	}
}

// watchJoin looks, until all nodes have joined, whether each still lives: the
// head cannot miss one that it has never seen, and would wait for it without success.
func (w *headWatch) watchJoin(ctx context.Context, head headlink.Head) {
	if len(w.at.lease.Hosts()) == 1 {
		return
	}
	pause := fsutil.Backoff{First: joinCheck, Longest: longestPause, Exact: true}
	for pause.Wait(ctx) == nil {
		for _, host := range w.at.lease.Hosts()[1:] {
			alive, err := w.at.lease.NodeAlive(ctx, host.Index)
			if err != nil || alive || ctx.Err() != nil {
				continue
			}
			w.dead.Store(&core.Error{
				Kind: core.Lost, Op: "start node on", Object: host.Name, Err: errors.New("its process ended before it joined the head"),
				Remedy: fmt.Sprintf("`bee logs --node %d %s` shows what it wrote; run the job again once the cause is gone.", host.Index*w.rec.of.sub.Job.NodesPerHost(), w.rec.of.run.ID),
			})
			core.BestEffort(head.Stop(ctx, 0)) // a head that cannot be reached is noticed by Watch
			return
		}
	}
}

// connect dials the head until it listens, unless it has ended.
func (w *headWatch) connect(ctx context.Context) (headlink.Head, error) {
	timeout := headlink.Timeout
	if w.rec.autostarted() {
		timeout = thereTimeout
	}
	return headlink.Reach(ctx, w.at.lease, timeout, headlink.Connecting(w.rec.of.c.Secure, w.rec.of.c.Connect, w.rec.Key), func(ctx context.Context) (bool, string) {
		if _, err := w.at.headFiles().Result(ctx); err == nil {
			return true, "it has ended"
		}
		return headlink.Gone(ctx, w.at.lease)
	})
}
