package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// How long a head may take to come up, and a lost line to it to come back
// before the user is told.
const (
	headTimeout  = 20 * time.Second
	longestPause = 2 * time.Second
	joinCheck    = 500 * time.Millisecond
	// A head that takes a connection and says nothing hangs. Tries are
	// counted, not time, of which much passes while this machine sleeps.
	answerTimeout = 3 * time.Second // less than a silent connection lives
	silentTries   = 10
)

// conclude watches the attempt to its end, brings the outputs home, releases
// the lease and says what it means for the run.
func (a *attempt) conclude(ctx context.Context, offset int64) (outcome, error) {
	result, err := a.follow(ctx, offset)
	if err != nil {
		if ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
		if u, is := errors.AsType[*unreadError](err); is {
			return outcome{}, a.fetchFailed(u.err)
		}
		result = &protocol.Result{Kind: core.KindOf(err).String(), Message: err.Error(), Remedy: core.Remedy(err)}
	}
	a.over = err == nil
	for p, took := range result.Phases {
		a.rec.Phases[p] += took
	}
	a.rec.Nodes = result.Nodes
	if len(result.Runtimes) > 0 {
		a.rec.Runtime = result.Runtimes[0]
	}
	a.measure(result)
	out := a.judge(result)
	a.blame(out)
	if err := a.put(ctx); err != nil { // for whoever has to go on after us
		return outcome{}, err
	}
	if result.Continue && !a.rec.Fetched {
		err := a.timed(ctx, protocol.PhaseFetch, func() error { return a.bring(ctx, result) })
		if err != nil && a.sub.Job.Store != "" && a.stopAsked() && ctx.Err() == nil { // its user does not wait for the store
			a.c.say(protocol.PhaseFetch, fmt.Sprintf("warning: the run is stopped without its last checkpoint: %v", err))
		} else if err != nil {
			return outcome{}, err
		}
	}
	if core.KindNamed(result.Kind) == core.Lost && !result.Continue && result.Exit == nil && !a.rec.Fetched {
		a.lastSnapshot(ctx)
	}
	on, is, err := a.moved(ctx, result)
	if err != nil {
		return outcome{}, err
	}
	switch {
	case is:
		out = on
		a.blame(out)
		a.rec.Moved = out.moved // recorded together with Fetched
		a.note(ctx, fmt.Sprintf("site %s: %v", a.site.Name, out.err))
	case a.stopAsked() && result.Exit == nil: // while the checkpoint came home
		out = outcome{state: state.Stopped, err: errStopped()}
		a.blame(out)
	}
	if err := a.collect(ctx, result); err != nil {
		return outcome{}, err
	}
	return out, a.letGo(ctx, out)
}

// judge turns an attempt's result into what it means for the run.
func (a *attempt) judge(r *protocol.Result) outcome {
	if r.Exit != nil {
		code := r.Exit.Code
		out := outcome{state: state.Succeeded, exit: &code}
		if code != 0 {
			what := "run"
			if r.InSetup {
				what = "setup"
			}
			out.state = state.Failed
			out.err = &core.Error{Op: "the job's `" + what + "` command", Err: fmt.Errorf("ended with exit code %d", code)}
		}
		return out
	}
	err := &core.Error{Kind: core.KindNamed(r.Kind), Err: errors.New(r.Message), Remedy: r.Remedy}
	if dead := a.dead.Load(); dead != nil && !a.stopAsked() {
		err = dead
	}
	switch {
	case err.Kind == core.Stopped || a.stopAsked():
		return outcome{state: state.Stopped, err: errStopped()}
	case !a.ran && passable(err):
		return outcome{next: true, state: state.Failed, err: err}
	}
	return outcome{state: state.Failed, err: err}
}

// follow watches the head until it has a result. The line to the head may
// break and come back: the attempt does not depend on it.
func (a *attempt) follow(ctx context.Context, offset int64) (*protocol.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		after  int64
		pause  time.Duration
		silent int
	)
	for {
		head, err := a.connect(ctx)
		if err != nil {
			if core.IsKind(err, core.Transient) && ctx.Err() == nil {
				if pause == 0 {
					a.c.say("", fmt.Sprintf("lost contact with %s; the run goes on there, and this process waits for the line", a.lease.Hosts()[0].Name))
				}
				if status, err := a.lease.Status(ctx); err == nil && !status.Live {
					lost := &core.Error{Kind: core.Lost, Op: "watch site", Object: a.site.Name, Err: errors.New(status.Reason)}
					if result, err := a.lastResult(ctx, lost); result != nil || err != nil { // files may outlive their hosts
						return result, err
					}
				}
				pause = min(max(2*pause, 100*time.Millisecond), longestPause)
				sleep(ctx, pause)
				continue
			}
			if result, err := a.lastResult(ctx, err); result != nil || err != nil || ctx.Err() != nil {
				return result, err
			}
			pause = min(max(2*pause, 100*time.Millisecond), longestPause)
			sleep(ctx, pause)
			continue
		}
		pause = 0
		if hangs(ctx, head) {
			head.Close()
			if silent++; silent == 1 {
				a.c.say("", fmt.Sprintf("the node on %s does not answer: is it stopped, or its host overloaded? Waiting for it", a.lease.Hosts()[0].Name))
			}
			if silent == silentTries {
				return nil, errHung(a.lease.Hosts()[0].Name)
			}
			continue
		}
		silent = 0
		result, err := a.watch(ctx, head, &after, &offset)
		head.Close()
		if result != nil {
			return result, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if result, err := a.resultFile(ctx); err == nil {
			return result, nil
		}
		a.c.Log.Debug("line to head broke", "run", a.run.ID, "err", err)
	}
}

// hangs tells whether a head that took the connection says nothing on it. A
// connection that breaks is another matter.
func hangs(ctx context.Context, head Head) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := head.Addresses(ctx)
	return err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

func errHung(host string) error {
	return &core.Error{Kind: core.Lost, Op: "watch the head node on", Object: host, Err: errors.New("it has not answered for " + (silentTries * answerTimeout).String()),
		Remedy: "It was stopped, or its host hangs. Its processes are ended; run the job again."}
}

// watch follows one connection's events and output.
func (a *attempt) watch(ctx context.Context, head Head, after, offset *int64) (*protocol.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-a.stop:
			// Without an answer nobody knows whether it has heard: another
			// line is taken, on which it is told again.
			if err := head.Stop(ctx, defaultGrace); err != nil && sleep(ctx, time.Second) == nil {
				a.c.Log.Debug("the head was not told to stop", "run", a.run.ID, "err", err)
				head.Close() //nolint:errcheck // it is given up
			}
		case <-ctx.Done():
		}
	}()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		if a.c.Output != nil {
			head.Output(ctx, *offset, true, func(f tasklog.Frame) error { //nolint:errcheck // what is missing is read from the fetched log
				*offset = f.Next
				return a.c.Output(f)
			})
		}
	}()
	snapshots, bringing := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(bringing)
		for n := range snapshots {
			if err := a.keepSnapshot(ctx, n); err != nil && ctx.Err() == nil {
				a.c.say(protocol.PhaseRun, fmt.Sprintf("warning: a checkpoint could not be brought home: %v", err))
			}
		}
	}()
	defer func() { cancel(); close(snapshots); <-bringing }()
	joined, markJoined := context.WithCancel(ctx)
	defer markJoined()
	go a.watchJoin(joined, head)
	var result *protocol.Result
	err := head.Watch(ctx, *after, func(e protocol.Event) error {
		*after = e.Seq
		if e.Begin && (e.Phase == protocol.PhaseSetup || e.Phase == protocol.PhaseRun) {
			a.ran = true
		}
		if e.Begin && e.Phase == protocol.PhaseSave {
			a.asked = e.Time
		}
		if e.End && e.Phase == protocol.PhaseJoin {
			markJoined()
		}
		if e.SetupDone && !a.run.SetupDone {
			a.run.SetupDone = true
			if err := a.c.Store.PutRun(ctx, a.run); err != nil {
				return err
			}
		}
		if e.Snapshot > 0 { // the newest is enough: a late one is skipped
			select {
			case <-snapshots:
			default:
			}
			snapshots <- e.Snapshot
		}
		if e.Result != nil {
			result = e.Result
		}
		a.c.Report(e)
		return nil
	})
	if result == nil {
		cancel()
	}
	<-drained // the head closes the output after the last byte
	return result, err
}

// watchJoin looks, until all nodes have joined, whether each still lives: the
// head cannot miss one that it has never seen, and would wait for it in vain.
func (a *attempt) watchJoin(ctx context.Context, head Head) {
	checker, ok := a.lease.(driver.NodeChecker)
	if !ok || len(a.lease.Hosts()) == 1 {
		return
	}
	for sleep(ctx, joinCheck) == nil {
		for _, host := range a.lease.Hosts()[1:] {
			alive, err := checker.NodeAlive(ctx, host.Index)
			if err != nil || alive || ctx.Err() != nil {
				continue
			}
			a.dead.Store(&core.Error{Kind: core.Lost, Op: "start node on", Object: host.Name, Err: errors.New("its process ended before it joined the head"),
				Remedy: fmt.Sprintf("`bee logs --node %d %s` shows what it wrote; run the job again once the cause is gone.", host.Index*a.sub.Job.NodesPerHost(), a.run.ID)})
			head.Stop(ctx, 0) //nolint:errcheck // a head that cannot be reached is noticed by Watch
			return
		}
	}
}

// connect dials the head until it listens. A head that never comes up is
// reported with the end of its log.
func (a *attempt) connect(ctx context.Context) (Head, error) {
	host := a.lease.Hosts()[0]
	deadline := time.Now().Add(headTimeout)
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 100*time.Millisecond) {
		conn, err := a.lease.Dial(ctx, 0, protocol.SocketPath(host.Dir, 0))
		if err == nil {
			return a.c.Connect(conn)
		}
		if !core.IsKind(err, core.NotFound) {
			return nil, err
		}
		if pause > 10*time.Millisecond {
			if _, err := a.resultFile(ctx); err == nil {
				return nil, errHeadGone(host.Name, "it has ended")
			}
			if gone, why := a.headGone(ctx); gone || time.Now().After(deadline) {
				return nil, errHeadGone(host.Name, why)
			}
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func errHeadGone(host, why string) error {
	return &core.Error{Kind: core.Lost, Op: "reach the head node on", Object: host, Err: errors.New(why),
		Remedy: "`bee logs --node 0 RUN` shows what the node wrote; run the job again once the cause is gone."}
}

// headGone asks the lease, where it can tell, whether the head's process ended.
func (a *attempt) headGone(ctx context.Context) (bool, string) {
	if checker, ok := a.lease.(driver.NodeChecker); ok {
		if alive, err := checker.NodeAlive(ctx, 0); err == nil && !alive {
			return true, "its node process has ended without a result (killed, or the host ran out of memory)"
		}
	}
	return false, "its node does not answer"
}

// unreadError is that a head may have left a result, which cannot be read now
// for a reason at home. Whatever it is, the attempt is not to be given up.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return e.err.Error() }

// lastResult reads the result of a head that is gone, or gives why where there
// is none. Neither: it cannot be told now, for the line is broken. To take that
// for a lost attempt would throw away the checkpoint that it left.
func (a *attempt) lastResult(ctx context.Context, why error) (*protocol.Result, error) {
	result, err := a.resultFile(ctx)
	if err == nil {
		return result, nil
	}
	_, torn := errors.AsType[*json.SyntaxError](err)
	switch kind := core.KindOf(err); {
	case kind == core.NotFound || kind == core.Lost || torn:
		return nil, why
	case kind == core.Transient || ctx.Err() != nil:
		return nil, nil //nolint:nilnil // see above
	}
	return nil, &unreadError{err}
}

// resultFile reads the result that a head has left.
func (a *attempt) resultFile(ctx context.Context) (*protocol.Result, error) {
	local := filepath.Join(a.c.Store.RunDir(a.run.ID), "result.json")
	err := a.lease.Fetch(ctx, driver.Transfer{Remote: protocol.ResultPath(a.lease.Hosts()[0].Dir), Local: local})
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(local)
	if err != nil {
		return nil, err
	}
	var r protocol.Result
	return &r, json.Unmarshal(raw, &r)
}

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
