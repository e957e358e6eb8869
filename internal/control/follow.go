package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/progress"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/tasklog"
)

const (
	// A site that starts the nodes by itself may see files of a network file system a
	// minute late.
	thereTimeout = 3 * time.Minute
	longestPause = 2 * time.Second
	joinCheck    = 500 * time.Millisecond
	// suspendedLook is the interval between looks at suspended hosts: a resumed head waits
	// half a minute at most for the new end of its slot.
	suspendedLook = 10 * time.Second
	// maxStumbles is how often a head may answer and then break the line at once: one
	// that ends does so once, and leaves a result.
	maxStumbles = 20
)

// conclude watches the attempt to its end, collects the outputs, releases the lease and
// returns what it means for the run.
func (a *attempt) conclude(ctx context.Context, offset int64) (outcome, error) {
	out, err := a.finish(ctx, offset)
	if errors.Is(err, errAway) {
		return a.giveUp(ctx)
	}
	return out, err
}

// finish is conclude for an attempt whose site answers; errAway: it does not, and
// the run can continue without it.
func (a *attempt) finish(ctx context.Context, offset int64) (outcome, error) {
	result, err := a.follow(ctx, offset)
	if err != nil {
		if ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
		if u, is := errors.AsType[*unreadError](err); is {
			return outcome{}, a.at.collector().Failed(u.err)
		}
		if errors.Is(err, errAway) {
			return outcome{}, err
		}
		result = &protocol.Result{Kind: core.KindOf(err).String(), Message: err.Error(), Remedy: core.Remedy(err)}
	}
	if core.KindNamed(result.Kind) == core.Stopped && !a.stopAsked() { // its user's word would be on record
		a.unasked(result)
	}
	if result.TakenBack {
		a.rec.timed(ctx, core.PhaseRelease, func() error { return a.at.whyTakenBack(ctx, result) }) //nolint:errcheck // then the result has no reason
	}
	if err == nil {
		a.rec.report(result)
	} else {
		a.rec.on(machinery.HeadGone)
	}
	a.rec.Answer = result.Answer
	a.reports.account(ctx, result, a.unseen)
	if len(result.Runtimes) > 0 {
		a.rec.Runtime = result.Runtimes[0]
	}
	a.reports.measure(result)
	out := a.judge(result)
	if result.Continue && !a.stopAsked() { // what is wrong with it is nothing to mend
		a.rec.blame(outcome{err: &core.Error{Kind: core.KindOf(out.err), Err: errors.New(progress.LeftBehind(&a.sub.Job, result) + "; its checkpoint is being fetched")}})
	} else {
		a.rec.blame(out)
	}
	if result.Continue {
		a.rec.on(machinery.CheckpointOwed)
	} else if a.rec.State == state.Keeping { // the head reports another result now
		a.rec.on(machinery.NotKept)
	}
	if err := a.rec.put(ctx); err != nil { // for a controller that continues after this one
		return outcome{}, err
	}
	if result.Continue {
		err := a.rec.timed(ctx, core.PhaseCollect, func() error { return a.keeping.bring(ctx, result) })
		if err != nil && a.sub.Job.Store != "" && a.stopAsked() && ctx.Err() == nil { // its user does not wait for the store
			a.rec.on(machinery.NotKept)
			a.c.say(core.PhaseCollect, fmt.Sprintf("warning: the run is stopped without its last checkpoint: %v", err))
		} else if err != nil {
			return outcome{}, err
		}
	}
	if core.KindNamed(result.Kind) == core.Lost && !result.Continue && result.Exit == nil {
		if err := a.reach.waitForSite(ctx, func() error { return a.keeping.lastSnapshot(ctx) }); err != nil {
			return outcome{}, err
		}
	}
	on, is, err := a.moved(ctx, result)
	if err != nil {
		return outcome{}, err
	}
	switch {
	case is:
		out = on
		a.rec.blame(out)
		if out.moved {
			a.rec.event(ctx, event.Moved{Site: a.at.site.Name, Cause: event.CauseOf(out.err)})
		} else {
			a.rec.event(ctx, event.Suspended{Site: a.at.site.Name, Reason: string(out.suspended), Cause: event.CauseOf(out.err)})
		}
	case a.stopAsked() && (result.Exit == nil || a.rec.doesWithout(ctx)): // while the checkpoint was collected, or cannot be
		out = outcome{state: state.Stopped, exit: out.exit, err: errStopped()}
		a.rec.blame(out)
	}
	a.rec.Verdict = a.rec.verdictOf(out)
	if a.rec.State == state.Ended {
		a.rec.on(machinery.OutputsOwed)
		if err := a.rec.put(ctx); err != nil {
			return outcome{}, err
		}
	}
	var absent *core.Error
	if err := a.reach.waitForSite(ctx, func() (err error) { absent, err = a.collect(ctx, result); return err }); err != nil {
		return outcome{}, err
	}
	a.showRest(ctx)
	if absent != nil {
		out = outcome{state: state.Failed, err: absent}
	}
	return out, a.releaseOrLend(ctx, out)
}

// unasked changes the result of a head that was asked to end, and not by the run's user,
// into that of a lost attempt. The run can then continue elsewhere, also where it is not
// known whether its command ran.
func (a *attempt) unasked(result *protocol.Result) {
	result.Kind, result.Message = core.Lost.String(), "its nodes were asked to end, and not by the run's user"
	result.Remedy = fmt.Sprintf("`bee logs --node 0 %s` shows what they wrote.", a.run.ID)
	if dead := a.dead.Load(); dead != nil {
		result.Message, result.Remedy = dead.Error(), dead.Remedy
	}
}

// judge turns an attempt's result into what it means for the run.
func (a *attempt) judge(r *protocol.Result) outcome {
	if r.Exit != nil {
		code := r.Exit.Code
		out := outcome{state: state.Succeeded, exit: &code}
		if code != 0 {
			what := "run"
			switch {
			case r.InSetup:
				what = "setup"
			case r.InPost:
				what = "post"
			}
			out.state = state.Failed
			out.err = headlink.ExitError(&a.sub.Job, a.rec.Guest, what, r)
		}
		return out
	}
	err := &core.Error{Kind: core.KindNamed(r.Kind), Err: errors.New(cmp.Or(r.Message, "its head gave no reason")), Remedy: r.Remedy}
	if dead := a.dead.Load(); dead != nil && !a.stopAsked() {
		err = dead
	}
	switch {
	case err.Kind == core.Stopped || a.stopAsked():
		return outcome{state: state.Stopped, err: errStopped()}
	case !a.rec.TaskBegan && placement.Passable(err):
		return outcome{next: true, state: state.Failed, err: err}
	}
	return outcome{state: state.Failed, err: headlink.HintShared(&a.sub.Job, r, err)}
}

// follow watches the head until it has a result. The line to the head may
// break and come back: the attempt does not depend on it.
func (a *attempt) follow(ctx context.Context, offset int64) (*protocol.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { a.shown = offset }()
	var (
		after  int64
		pause  time.Duration
		silent int
		// stumbles are connections in a row that broke at once, with no event.
		stumbles int
	)
	for {
		head, err := a.connect(ctx)
		if err != nil {
			if core.IsKind(err, core.Transient) && ctx.Err() == nil {
				if pause == 0 {
					a.c.say("", fmt.Sprintf("lost contact with %s; the run continues there, and this process waits for the connection", a.at.lease.Hosts()[0].Name))
				}
				if status, err := a.at.lease.Status(ctx); err == nil && !status.Live {
					lost := &core.Error{Kind: core.Lost, Op: "watch site", Object: a.at.site.Name, Err: errors.New(status.Reason)}
					if result, err := a.lastResult(ctx, lost, &after); result != nil || err != nil { // files may outlive their hosts
						if a.rec.Ended.IsZero() { // since then no site has the run, however late this is seen
							a.rec.Ended = a.lastSeen
						}
						return result, err
					}
				} else if err == nil && status.Reason != "" {
					a.reach.hostsSuspended(ctx, status.Reason)
				} else if err == nil {
					a.reach.hostsResumed(ctx, status)
				}
				if lost, err := a.reach.tooLong(ctx, err); err != nil {
					return nil, &unreadError{err}
				} else if lost {
					return nil, errAway
				}
				longest := longestPause
				if a.reach.suspended {
					longest = suspendedLook
				} else if a.reach.reported != waitUnreported { // it may be away for long
					longest = longestLook(a.reach.silent)
				}
				pause = min(max(2*pause, 100*time.Millisecond), longest)
				core.Sleep(ctx, pause) //nolint:errcheck // what comes next looks at ctx
				continue
			}
			if result, err := a.lastResult(ctx, err, &after); result != nil || err != nil {
				return result, err
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			pause = min(max(2*pause, 100*time.Millisecond), longestPause)
			core.Sleep(ctx, pause) //nolint:errcheck // what comes next looks at ctx
			continue
		}
		a.reach.reachable()
		if stumbles == 0 {
			pause = 0
		}
		head = a.at.headFiles().Checked(head)
		if headlink.Hangs(ctx, head) {
			head.Close()
			if silent++; silent == 1 {
				a.c.say("", fmt.Sprintf("the node on %s does not answer: is it stopped, or its host overloaded? Waiting for it", a.at.lease.Hosts()[0].Name))
			}
			if silent == headlink.SilentTries {
				return nil, headlink.Hung(a.at.lease.Hosts()[0].Name, headlink.SilentTries*headlink.AnswerTimeout)
			}
			continue
		}
		silent = 0
		a.reach.reportEnd(ctx, head)
		begun, before := time.Now(), after
		result, err := a.watch(ctx, head, &after, &offset)
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
		a.reach.silent = time.Time{} // from now on
		a.reach.unreachable(&a.reach.silent)
		result, lerr := a.left(ctx, &after)
		if lerr == nil || errors.As(lerr, new(headlink.InvalidReport)) {
			return result, lerr
		}
		a.c.Log.Debug("line to head broke", "run", a.run.ID, "err", err)
		if stumbles++; after > before || time.Since(begun) > time.Second {
			stumbles = 0
		}
		if stumbles > maxStumbles {
			return nil, a.at.headFiles().Invalid(fmt.Errorf("it has answered %d times, and reported nothing: %w", stumbles, err))
		}
		if stumbles > 1 {
			pause = min(max(2*pause, 50*time.Millisecond), longestPause/4)
			core.Sleep(ctx, pause) //nolint:errcheck // what comes next looks at ctx
		}
	}
}

// watch follows one connection's events and output.
func (a *attempt) watch(ctx context.Context, head Head, after, offset *int64) (*protocol.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go a.guard(func() {
		select {
		case <-a.stop:
			// Without an answer it is not known whether the head has received
			// the request: it is sent again on another connection.
			if err := head.Stop(ctx, launch.DefaultGrace); err != nil && core.Sleep(ctx, time.Second) == nil {
				a.c.Log.Debug("the head was not asked to stop", "run", a.run.ID, "err", err)
				head.Close()
			}
		case <-ctx.Done():
		}
	})
	drained := make(chan struct{})
	go a.guard(func() {
		defer close(drained)
		if a.c.Output != nil {
			head.Output(ctx, *offset, true, func(f tasklog.Frame) error { //nolint:errcheck // what is missing is read from the fetched log
				*offset = f.Next
				return a.c.Output(f)
			})
		}
	})
	passed := make(chan struct{})
	go a.guard(func() {
		defer close(passed)
		if !a.sub.Input {
			return
		}
		if err := head.Input(ctx, a.c.Input); err != nil && ctx.Err() == nil {
			a.c.Log.Debug("pass the input on", "run", a.run.ID, "err", err)
		}
	})
	snapshots, bringing := make(chan protocol.Event, 1), make(chan struct{})
	go a.guard(func() {
		defer close(bringing)
		for kept := range snapshots {
			if err := a.keeping.bringSnapshot(ctx, head, kept); err != nil && ctx.Err() == nil {
				a.c.say(core.PhaseRun, fmt.Sprintf("warning: a checkpoint could not be collected: %v", err))
			}
		}
	})
	defer func() { cancel(); close(snapshots); <-bringing }()
	joined, markJoined := context.WithCancel(ctx)
	defer markJoined()
	go a.guard(func() { a.watchJoin(joined, head) })
	var result *protocol.Result
	err := head.Watch(ctx, *after, func(e protocol.Event) error {
		*after = e.Seq
		if err := a.reports.handle(ctx, e); err != nil {
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
	<-passed
	return result, err
}

// watchJoin looks, until all nodes have joined, whether each still lives: the
// head cannot miss one that it has never seen, and would wait for it without success.
func (a *attempt) watchJoin(ctx context.Context, head Head) {
	if len(a.at.lease.Hosts()) == 1 {
		return
	}
	for pause := joinCheck; core.Sleep(ctx, pause) == nil; pause = min(2*pause, longestPause) {
		for _, host := range a.at.lease.Hosts()[1:] {
			alive, err := a.at.lease.NodeAlive(ctx, host.Index)
			if err != nil || alive || ctx.Err() != nil {
				continue
			}
			a.dead.Store(&core.Error{
				Kind: core.Lost, Op: "start node on", Object: host.Name, Err: errors.New("its process ended before it joined the head"),
				Remedy: fmt.Sprintf("`bee logs --node %d %s` shows what it wrote; run the job again once the cause is gone.", host.Index*a.sub.Job.NodesPerHost(), a.run.ID),
			})
			head.Stop(ctx, 0) //nolint:errcheck // a head that cannot be reached is noticed by Watch
			return
		}
	}
}

// connect dials the head until it listens, unless it has ended.
func (a *attempt) connect(ctx context.Context) (Head, error) {
	timeout := headlink.Timeout
	if a.rec.autostarted() {
		timeout = thereTimeout
	}
	return headlink.Reach(ctx, a.at.lease, timeout, headlink.Connecting(a.c.Secure, a.c.Connect, a.rec.Key), func(ctx context.Context) (bool, string) {
		if _, err := a.at.headFiles().Result(ctx); err == nil {
			return true, "it has ended"
		}
		return headlink.Gone(ctx, a.at.lease)
	})
}
